# SPDX-License-Identifier: Apache-2.0
"""A whole matrix: its runs on an engine, the progress display, then the report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.rig import EXACT, Rig, draw
from sojourn.hardware.confine.confinement import confinement
from sojourn.hardware.images import own_tc
from sojourn.hardware.images.desktop import ensure_desktop
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.kernel_source import short_name
from sojourn.hardware.kernel_build.sources import Sources
from sojourn.hardware.lab.lab_file import PHYSICAL, LabFileError, read_lab_file
from sojourn.hardware.machine.messages import count_of
from sojourn.hardware.simulation import memory_bytes
from sojourn.harness.engine.job import Engine, EngineError
from sojourn.harness.engine.local import LocalEngine
from sojourn.harness.engine.sample import sampled
from sojourn.harness.lab.contract import Lab, LabFactory, WithPrograms
from sojourn.harness.lab.machine import MEMORY
from sojourn.harness.lab.needs import require_programs_of_cells
from sojourn.harness.matrix.capabilities import (
    MATRIX_LABS,
    able_labs,
    has_user_program,
    missing_capability,
    missing_in_real_time,
    needs_browsers,
)
from sojourn.harness.matrix.cells.cell_run import CellJob, SimulatedInputs, perform, real_time_inputs_digest
from sojourn.harness.matrix.complete import JobOutcome, complete
from sojourn.harness.matrix.matrix import Matrix, MatrixError
from sojourn.harness.matrix.progress import MatrixProgress
from sojourn.harness.options.model import BY_NAME, default_of
from sojourn.harness.options.own_names import own_names
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.store.manifest import require_outside_runs
from sojourn.harness.terminal import complain, console_of, steps
from sojourn.scoring.validity import Limits
from sojourn.traffic.program_check import require_runnable
from sojourn.traffic.user_program import UserProgram, defined

if TYPE_CHECKING:
    from sojourn.harness.matrix.cells.simulated import Endpoints

_TRIES = 3
"""How often a run begins whose worker dies."""
_AHEAD = 2
"""Runs that a cluster gets per run that it can make at once."""
_STATUS_LABELS = {"ran": "runs made", "kept": "kept as they were", "failed": "failed"}


@dataclass(frozen=True)
class MatrixPlan:
    """What to run, and how."""

    matrix: Matrix
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]
    results: Path
    engine: str = LOCAL
    """`local`, or the address of a Dask scheduler."""
    workers: int | None = None
    again: bool = False
    endpoints: Endpoints | None = None
    """Sender and receiver program in `sim`, `bulk` by default."""
    lab: str = "sim"
    lab_file: Path | None = None
    """With `apu`: the file that describes the lab, if not the default one."""
    limits: Limits | None = None
    """Limits of the gates of real-time runs, if not the default ones."""
    pcap: bool = False
    """Whether to capture at both ends of simulated-time runs."""
    kernel_source: Path | None = None
    """Another Linux instead of Debian's newest, or own files, see `sojourn.hardware.kernel_build.sources`."""
    iproute2_source: Path | None = None
    exact: bool = False
    """Whether all seeds have the exact RTT, start and release of packets that the cells specify."""
    command_line: Sequence[str] = ()
    """As typed; the manifest of each run records it."""
    programs: tuple[UserProgram, ...] = ()
    """Definitions of the user's programs among the contenders; built-in programs need none."""
    compare_with: Path | None = None
    """Other results of the same matrix to compare with, see `sojourn.harness.matrix.pages.compare_runs`."""
    sample: int | None = None
    """Of all runs of the cells, how many are made; None: all."""
    brief: bool = False
    """Whether a terminal shows these in brackets in the matrix's table, and the whole comparison is a page only."""

    @cached_property
    def folder(self) -> Path:
        """Where the runs of the matrix are kept: separate for each lab, for endpoints other than Sojourn's, for each
        content of the kernel and of the tc that were given, and for exact runs of a matrix whose seeds draw a rig.
        """
        apart = self.lab if self.lab != "sim" else "iperf3" if self.endpoints == "iperf3" else ""
        kernel = short_name(self.kernel_source) if self.kernel_source else ""
        tc = own_tc.digest(self.iproute2_source or self.kernel_source)
        exact = "exact" if self.exact and not self.matrix.exact else ""
        return self.results / "-".join(filter(None, (self.matrix.name, apart, kernel, tc, exact)))

    @property
    def machines_file(self) -> Path | None:
        """The file that describes the machines of a physical lab; None for other labs."""
        default: Path = default_of(BY_NAME["lab-file"])
        return self.lab_file or default if self.lab in PHYSICAL else None

    @property
    def sources(self) -> Sources:
        """The sources of the machines' kernel and tc."""
        return Sources(self.kernel_source, self.iproute2_source)

    def rig(self, cell: Cell, seed: int) -> Rig:
        """Return the laboratory in which a cell runs."""
        return EXACT if self.exact or self.matrix.exact else draw(seed, cell, bunching=self.lab == "sim")

    @property
    def left_out(self) -> dict[str, list[str]]:
        """What the lab lacks → names of the cells that need it."""
        cells: dict[str, list[str]] = {}
        for cell in self.cells:
            if missing := missing_capability(cell, self.lab):
                cells.setdefault(missing, []).append(cell.name)
        return cells


def seeds(first: int, count: int) -> tuple[int, ...]:
    """Return `count` seeds from `first` on."""
    return tuple(range(first, first + count))


def _of_lab(plan: MatrixPlan) -> list[Cell]:
    """Return the cells for which the plan's lab has everything. Raises MatrixError if there is none."""
    if cells := [cell for cell in plan.cells if not missing_capability(cell, plan.lab)]:
        return cells
    reasons = "; ".join(plan.left_out)
    others = " or ".join(f"--lab={lab}" for lab in able_labs(plan.cells))
    remedy = f"give {others}" if others else "no other lab can run these cells"
    raise MatrixError(f"matrix {plan.matrix.name}: the {plan.lab} lab has {reasons}; {remedy}", code="unsupported")


def check_listed(plan: MatrixPlan) -> None:
    """Raise MatrixError for a list of cells of which none can run, EngineError for an option without effect."""
    _of_lab(plan)
    with suppress(MatrixError):  # the list shows which cells to select
        runnable(plan)


def runnable(plan: MatrixPlan) -> tuple[list[Cell], bool]:
    """Return the cells that the plan's lab can run, and whether the code of the real-time labs runs them in `sim`.

    Raises MatrixError if none can, or not all by the same code; EngineError for an option without effect.
    """
    matrix, cells = plan.matrix, _of_lab(plan)
    programs = any(map(has_user_program, cells))
    if programs and plan.engine != LOCAL:
        raise EngineError("--engine: a cluster's workers do not have your program; use --engine=local", code="conflict")
    # All of its cells by the same code: the cost of a call is measured against cells without one.
    missing = next(filter(None, (missing_in_real_time(cell) for cell in cells)), "")
    if (programs or any(map(needs_browsers, cells))) and missing:
        kind = "your program" if programs else "a SCReAM call or a call with sound"
        raise MatrixError(
            f"matrix {matrix.name}: a cell with {kind} runs in simulated time as in the virtual lab, which has "
            f"{missing}; select other cells with -k",
            code="unsupported",
        )
    as_in_labs = plan.lab == "sim" and not missing and (programs or any(cell.call for cell in cells))
    _refuse(plan, cells, as_in_labs=as_in_labs)
    return cells, as_in_labs


def prepare(plan: MatrixPlan, console: Console | None = None) -> tuple[list[CellJob], Engine]:
    """Build what is missing and return the runs of a plan and the engine for them.

    Raises MatrixError, OptionsError, EngineError, ToolError, ConfinementError, BuildError, UserProgramError or
    StoreError (a results folder inside a run).
    """
    require_outside_runs(plan.results, "results")
    matrix, (cells, as_in_labs) = plan.matrix, runnable(plan)
    labels = [_label(cell, seed) for cell in cells for seed in plan.seeds]
    chosen = None if plan.sample is None else sampled(labels, plan.sample)
    _require_own_names(plan, cells)
    calls = any(cell.call for cell in cells) and (plan.lab != "sim" or as_in_labs)
    require_programs_of_cells(plan.lab, calls=calls or as_in_labs)
    if plan.lab not in PHYSICAL and plan.engine == LOCAL:
        confinement()
    programs = defined((flow.contender for cell in cells for flow in cell.flows), plan.programs)
    plan = replace(plan, cells=tuple(cells), programs=programs)
    way = _in_real_time if plan.lab != "sim" else _in_simulated_lab if as_in_labs else _simulated
    fields, engine = way(plan, console)
    plan.folder.mkdir(parents=True, exist_ok=True)
    fields |= {"pcap": plan.pcap, "sources": plan.sources, "matrix": matrix.name, "programs": plan.programs}
    fields["command_line"] = tuple(plan.command_line)
    jobs = [
        CellJob(cell, seed, *matrix.window_of(cell), rig=plan.rig(cell, seed), **fields)
        for cell in cells
        for seed in plan.seeds
        if chosen is None or _label(cell, seed) in chosen
    ]
    return jobs, engine()


def _label(cell: Cell, seed: int) -> str:
    return f"{cell.name}, seed {seed}"


def _refuse(plan: MatrixPlan, cells: Sequence[Cell], *, as_in_labs: bool) -> None:
    """Raise EngineError for an option that such cells do not accept."""
    real_time, physical = plan.lab != "sim", plan.lab in PHYSICAL
    in_labs, elsewhere = real_time or as_in_labs, real_time or plan.engine != LOCAL
    what = "browser calls" if any(cell.call for cell in cells) else "programs of yours"
    who = f"the {plan.lab} lab" if real_time else f"matrix {plan.matrix.name}, with {what},"
    without_effect = (
        ("engine", real_time and plan.engine != LOCAL, f"{plan.engine!r}: a lab of real time has none"),
        ("workers", elsewhere and plan.workers, "cells run at once only in sim, on this machine"),
        ("jitter-gate", not real_time and plan.limits, "simulated time has no jitter of a host"),
        ("lab-file", not physical and plan.lab_file, f"the {plan.lab} lab has none"),
        ("endpoints", in_labs and plan.endpoints, f"{who} always uses iperf3"),
        ("pcap", in_labs and plan.pcap, f"{who} always keeps captures, in each run's evidence/"),
        ("kernel-source", physical and plan.kernel_source, "a physical router has its own"),
        ("iproute2-source", physical and plan.iproute2_source, "a physical router has its own"),
    )
    for name, given, why in without_effect:
        if given:
            raise EngineError(f"--{name}: {why}; omit it", code="no-effect")
    if plan.endpoints == "iperf3":
        _require_iperf3(plan, cells)


def _require_iperf3(plan: MatrixPlan, cells: Sequence[Cell]) -> None:
    """Raise EngineError if iperf3 cannot be the endpoints of every cell."""
    from sojourn.harness.matrix.cells.simulated import not_for_iperf3

    reasons = {cell.name: why for cell in cells if (why := not_for_iperf3(cell))}
    if reasons:
        name, why = next(iter(reasons.items()))
        raise EngineError(
            f"--endpoints: iperf3 cannot run {len(reasons)} of {count_of(len(cells), 'cell')} of matrix "
            f"{plan.matrix.name}, such as {name}: {why}; omit the option, or select other cells with -k",
            code="unsupported",
        )


def _require_own_names(plan: MatrixPlan, cells: Sequence[Cell]) -> None:
    """Raise EngineError for a qdisc or contender of the cells that the lab's kernel does not have."""
    try:
        own = own_names(plan.kernel_source)
    except ValueError as wrong:
        raise EngineError(f"--kernel-source: {wrong}", code="invalid-value") from wrong
    ways = (way for cell in cells for hop in cell.hops for way in (hop.down, hop.up) if way)
    flows = (flow.contender for cell in cells for flow in (*cell.flows, cell.short_flows) if flow)
    unknown = [*filter(None, map(own.unknown_qdisc, (way.qdisc for way in ways))), own.unknown_contender(flows)]
    if plan.lab not in PHYSICAL and any(unknown):
        raise EngineError(f"matrix {plan.matrix.name}: {unknown[0]}", code="unknown-value")


_Way = tuple[dict[str, Any], Callable[[], Engine]]
"""How cells are run: the fields of their jobs, and a function that returns the engine."""


def _simulated(plan: MatrixPlan, console: Console | None) -> _Way:
    from sojourn.harness.matrix.cells.simulated import MEMORY_BYTES

    _build(plan, console)
    endpoints = plan.endpoints or "bulk"
    digest = SimulatedInputs(endpoints, plan.sources)
    inputs = digest()
    return {"inputs": inputs, "endpoints": endpoints}, partial(_engine, plan, inputs, digest, MEMORY_BYTES)


def _in_simulated_lab(plan: MatrixPlan, console: Console | None) -> _Way:
    """In simulated time by the code of the real-time labs: calls between browsers, programs of the user's."""
    from sojourn.harness.matrix.cells import simulated_call

    if plan.programs:
        with steps(console) as step:
            require_runnable(plan.programs, ensure_desktop(progress=step("guest with browser")).root)
    _build(plan, console)
    digest = partial(simulated_call.inputs, plan.sources)
    inputs = digest()
    fields = {"inputs": inputs, "endpoints": "iperf3", "run": simulated_call.run_cell}
    return fields, partial(_engine, plan, inputs, digest, memory_bytes(MEMORY))


def _in_real_time(plan: MatrixPlan, console: Console | None) -> _Way:
    from sojourn.harness.engine.lab import LabEngine
    from sojourn.harness.matrix.cells.real_call import browsers

    limits = plan.limits or Limits()
    if plan.machines_file:  # before a film is made
        described = read_lab_file(plan.machines_file, plan.lab)
        if any(cell.call for cell in plan.cells):
            described.require_stand_ins(plan.machines_file)
    if plan.lab == "virtual":
        if plan.programs:
            with steps(console) as step:
                require_runnable(plan.programs, ensure_guest(progress=step("guest root")).root)
        _build(plan, console)
    inputs = real_time_inputs_digest(plan.machines_file, limits, plan.sources)
    for cell in plan.cells:
        if cell.call:
            browsers(cell.call)  # renders the cameras' film if it is missing
    return {"inputs": inputs, "endpoints": "iperf3"}, lambda: LabEngine(_lab(plan), partial(_run_in, limits))


def _run_in(limits: Limits, lab: Lab, job: CellJob, folder: Path, stopped: Event) -> None:
    """Make a job's run in a lab in real time, with the `limits` of its gates."""
    from sojourn.harness.matrix.cells.real_time import run_cell

    def run(cell: Cell, folder: Path, *, seed: int, **_: Any) -> None:
        run_cell(lab, cell, folder, seed=seed, limits=limits, stopped=stopped)

    perform(replace(job, run=run), folder)


def _engine(plan: MatrixPlan, inputs: str, digest: Callable[[], str], memory_bytes: int) -> Engine:
    if plan.engine == LOCAL:
        return LocalEngine(memory_bytes, plan.workers, _TRIES, inputs, digest)
    from sojourn.harness.engine.dask import DaskEngine

    return DaskEngine(plan.engine, inputs, digest, memory_bytes, ahead=_AHEAD)


def _lab(plan: MatrixPlan) -> Callable[[], LabFactory]:
    """Return the factory of a plan's lab. Raises LabFileError, MatrixError, BuildError."""
    from sojourn.harness.lab.make import lab_maker

    machines = read_lab_file(plan.machines_file, plan.lab) if plan.machines_file else None
    if len(versions := {cell.ip_version for cell in plan.cells}) > 1:
        raise MatrixError(
            f"matrix {plan.matrix.name}: needs IPv4 and IPv6; the {plan.lab} lab has one: select cells, or --lab=sim",
            code="unsupported",
        )
    (version,) = versions
    if machines and machines.ip_version != version:
        raise LabFileError(
            f"--lab-file: the addresses of {plan.machines_file} are IPv{machines.ip_version}, and the cells "
            f"IPv{version}; give the hosts IPv{version} addresses",
            code="conflict",
        )
    rates = [way.rate_bps for cell in plan.cells for hop in cell.hops for way in (hop.down, hop.up) if way]
    steps = [step.rate_bps for cell in plan.cells for hop in cell.hops for step in (*hop.schedule, *hop.schedule_up)]
    make = lab_maker(
        machines, rates, lambda text: print(text, file=sys.stderr), steps_bps=steps, sources=plan.sources,
        version=version,
    )  # fmt: skip
    return lambda: WithPrograms(make(plan.folder), plan.programs)


def _build(plan: MatrixPlan, console: Console | None) -> None:
    from sojourn.hardware.kernel_build.build import ensure_kernel

    with steps(console) as step:
        ensure_guest(progress=step("guest root"))
        ensure_kernel(plan.sources, step("kernel"))


def run_matrix(plan: MatrixPlan, console: Console | None = None) -> list[JobOutcome]:
    """Run a plan with a progress display and return the outcome of every run; the longest start first."""
    console = console or console_of(sys.stderr)
    jobs, engine = prepare(plan, console)
    for missing, names in plan.left_out.items():
        console.print(Text(f"{len(names)} cells skipped: the {plan.lab} lab has {missing}"))
    if plan.lab == "sim":
        jobs.sort(key=lambda job: -job.work)
    with MatrixProgress(plan.matrix.name, jobs, console) as progress:
        outcomes = []
        made = complete(jobs, engine, plan.folder, again=plan.again, begun=progress.begun, keep=plan.lab != "sim")
        for outcome in made:
            progress.ended(outcome)
            outcomes.append(outcome)
    return outcomes


def run_and_report(plan: MatrixPlan) -> list[JobOutcome]:
    """Run a plan, write and print its report and every failure; return the failed runs.

    Raises MatrixError for other results that cannot be compared, before anything runs; otherwise as `prepare`.
    """
    from sojourn.harness.matrix.pages.compare_runs import (
        COMPARISON,
        compare_with,
        other_folder,
        other_runs,
        scores_by_cell,
    )
    from sojourn.harness.matrix.pages.matrix_page import summary, table, write
    from sojourn.harness.matrix.results import results
    from sojourn.harness.report.comparison_page import write_comparison
    from sojourn.harness.report.terminal import print_comparison

    other = plan.compare_with and other_folder(plan.matrix, plan.folder, plan.compare_with)
    theirs = other_runs(plan.matrix, other, plan.cells) if other else None
    console, began = console_of(sys.stderr), time.monotonic()
    outcomes = run_matrix(plan, console)
    ran = time.monotonic() - began
    gathered = results(plan.matrix, plan.folder, outcomes[0].job.inputs, outcomes[0].job.programs)
    report = write(gathered)
    comparison = compare_with(other, theirs, gathered, plan.cells) if other and theirs else None
    counts = {status: sum(outcome.status == status for outcome in outcomes) for status in ("ran", "kept", "failed")}
    lab_s = sum(outcome.job.cell.seconds for outcome in outcomes if outcome.status == "ran")
    speed = f", {lab_s / ran:.3g} s of lab time per s" if lab_s else ""
    text = ", ".join(f"{count} {_STATUS_LABELS[status]}" for status, count in counts.items() if count)
    out = console_of()
    out.print(table(gathered, scores_by_cell(theirs[0]) if theirs and plan.brief else {}))
    for line in summary(gathered):
        out.print(Text(line))
    if comparison and not plan.brief:
        print_comparison(comparison, out)
    out.print(Text(f"{text} in {time.monotonic() - began:.1f} s{speed}"))
    print(report)
    if comparison:
        print(write_comparison(comparison, plan.folder / COMPARISON))
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    for outcome in failed:
        complain(f"{outcome.job.cell.name}, seed {outcome.job.seed}: {outcome.error}; see {outcome.folder}")
    return failed


def endpoints_named(text: str) -> Endpoints:
    """Return the endpoints of that name. Raises EngineError when it is unknown."""
    known: tuple[Endpoints, ...] = ("bulk", "iperf3")
    for name in known:
        if name == text:
            return name
    raise EngineError(f"--endpoints: unknown {text!r}; known: {', '.join(known)}", code="unknown-value")


def lab_named(text: str) -> str:
    """Return the lab of that name; empty stays empty. Raises EngineError when it is unknown."""
    if text and text not in MATRIX_LABS:
        raise EngineError(f"--lab: unknown {text!r}; known: {', '.join(MATRIX_LABS)}", code="unknown-value")
    return text
