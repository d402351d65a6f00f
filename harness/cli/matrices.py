# SPDX-License-Identifier: Apache-2.0
"""Commands on matrices of transport experiments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sojourn.hardware.machine.signals import ended_by_signals
from sojourn.harness.cli.common import AsJson, check_output, declared, leave, one_line_errors, print_json, stopped
from sojourn.harness.options.model import BY_NAME
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.options.rules import value_of
from sojourn.harness.terminal import console_of
from sojourn.traffic.user_program import UserProgram

app = typer.Typer()


@app.command()
@one_line_errors
def matrix(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="Name of a matrix, or a scenario file (….toml); default: list all matrices.")
    ] = "",
    keyword: Annotated[
        str, typer.Option("-k", metavar="TEXT", help="Only cells whose name contains all of these words.")
    ] = "",
    repeat: Annotated[str | None, declared(BY_NAME["repeat"], "Runs per cell (default: the matrix's own).")] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Make only N of the runs: a pilot, which the whole matrix keeps."),
    ] = None,
    seed: Annotated[str, declared(BY_NAME["seed"], "First seed; further runs use the following seeds.")] = "1",
    results: Annotated[Path, typer.Option(help="Folder for runs; finished runs there are not repeated.")] = Path(
        "results"
    ),
    engine: Annotated[str, declared(BY_NAME["engine"])] = LOCAL,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of concurrent guests (default: number of processors).")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat finished runs.")] = False,
    endpoints: Annotated[
        str, typer.Option(help="In sim: sender and receiver program, bulk or iperf3 (default: bulk).")
    ] = "",
    lab: Annotated[str, typer.Option(help="Lab: sim, virtual or apu (default: sim, if it can run the matrix).")] = "",
    lab_file: Annotated[
        Path | None, typer.Option(help="With --lab=apu: file that describes the lab (default: lab.toml).")
    ] = None,
    jitter_gate: Annotated[
        str,
        declared(
            BY_NAME["jitter-gate"],
            "In real time: limit of the lab's own jitter; above, a run is invalid (default: 2ms; docs/matrix.md).",
        ),
    ] = "",
    pcap: Annotated[bool, typer.Option("--pcap", help="In sim: keep captures of both ends of every run.")] = False,
    exact: Annotated[bool, declared(BY_NAME["exact"])] = False,
    swap: Annotated[
        str,
        typer.Option(
            metavar="OLD=NEW",
            help="Replace contender OLD by NEW in all flows; program:FILE.toml is your own sender, and alone replaces "
            "that of the first flow (docs/your-sender.md).",
        ),
    ] = "",
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Delivery trace (a time in ms per line) for the matrix.")
    ] = None,
    kernel_source: Annotated[str | None, declared(BY_NAME["kernel-source"])] = None,
    iproute2_source: Annotated[str | None, declared(BY_NAME["iproute2-source"])] = None,
    compare_with: Annotated[
        Path | None,
        typer.Option(metavar="RESULTS", help="Compare the figures with the same cells in another results folder."),
    ] = None,
    watching: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Run again after every change in the folder of --kernel-source, and compare with the run before.",
        ),
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the cells without running them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a matrix of transport experiments, in simulated time on all processors; resumes an interrupted matrix."""
    from sojourn.harness.matrix.from_scenario import scenario_matrix
    from sojourn.harness.matrix.listing import cells_list, cells_table, matrices_list, matrices_table
    from sojourn.harness.matrix.matrix import MatrixError, matrices, named
    from sojourn.harness.matrix.matrix_plan import (
        MatrixPlan,
        check_listed,
        endpoints_named,
        lab_named,
        run_and_report,
        seeds,
    )
    from sojourn.harness.matrix.watch import watch
    from sojourn.harness.options.own_names import own_names
    from sojourn.harness.options.rules import spelled_programs
    from sojourn.scoring.validity import Limits

    known = matrices()
    if as_json and name and not listed:
        raise MatrixError("--json applies to lists; add --list, or omit the matrix", code="conflict")
    if sample and listed:
        raise MatrixError("--sample chooses runs, and --list lists cells; omit one of them", code="conflict")
    if watching and listed:
        raise MatrixError("--watch runs the matrix; omit --watch or --list", code="conflict")
    if not name:
        if option := next((it for it in _given(context) if it != "--json"), ""):
            raise MatrixError(f"{option}: applies to one matrix; give its name", code="conflict")
        print_json(matrices_list(known.values())) if as_json else console_of().print(matrices_table(known.values()))
        return
    source = value_of("kernel-source", kernel_source).absolute() if kernel_source else None
    chosen = scenario_matrix(Path(name), kernel_source) if name.endswith(".toml") else named(name, known)
    programs: tuple[UserProgram, ...] = ()
    if swap:
        swap, programs = spelled_programs(own_names(source).spelled_load(swap))
        chosen = chosen.swapped(swap)
    if trace:
        chosen = chosen.traced(trace)
    plan = MatrixPlan(
        chosen,
        chosen.select(keyword),
        seeds(value_of("seed", seed), value_of("repeat", repeat) if repeat else chosen.repeat),
        results,
        engine=value_of("engine", engine),
        workers=workers,
        again=again,
        endpoints=endpoints_named(endpoints) if endpoints else None,
        lab=lab_named(lab) or chosen.preferred_lab,
        lab_file=lab_file,
        limits=Limits(jitter_ms=value_of("jitter-gate", jitter_gate)) if jitter_gate else None,
        pcap=pcap,
        kernel_source=source,
        iproute2_source=value_of("iproute2-source", iproute2_source).absolute() if iproute2_source else None,
        exact=exact,
        command_line=("sojourn", *sys.argv[1:]),
        programs=programs,
        compare_with=compare_with,
        sample=sample,
    )
    if listed:
        check_listed(plan)
        print_json(cells_list(plan)) if as_json else console_of().print(cells_table(plan))
        return
    try:
        with ended_by_signals():
            failed = watch(plan) if watching else run_and_report(plan)
    except KeyboardInterrupt as stop:
        leave(stopped(stop, f"finished runs are kept in {plan.folder}; the same command resumes the matrix"))
    if failed:
        raise typer.Exit(1)


def _given(context: typer.Context) -> list[str]:
    """Return the options that the command line gives, as it spells them."""
    sources = ((option.opts[0], context.get_parameter_source(str(option.name))) for option in context.command.params)
    return [spelled for spelled, source in sources if source and source.name == "COMMANDLINE"]


@app.command()
@one_line_errors
def flent(
    results: Annotated[Path, typer.Argument(help="A matrix's results, or one run of a cell.")],
    to: Annotated[Path, typer.Option(help="Output folder.")] = Path("flent"),
) -> None:
    """Export runs of cells as flent's data files (.flent.gz)."""
    from sojourn.hardware.machine.messages import count_of
    from sojourn.harness.matrix.pages.flent import export

    check_output("to", to, folder=True)
    print(f"{count_of(len(export(results, to)), 'file')} in {to}")
