# SPDX-License-Identifier: Apache-2.0
"""`sojourn map`: the harm over a sweep of options. Its options are those of `sojourn harm`."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.text import Text

from sojourn.apps.options import SCREENING
from sojourn.harness.cli.common import ExitCode, failed, leave, stopped, with_options
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.terminal import console_of

if TYPE_CHECKING:
    from sojourn.harness.experiment.series import SeriesOfRuns
    from sojourn.harness.experiment.sweep import Sweep

app = typer.Typer()
_Swept = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OPTION=VALUE,VALUE,…",
        help="Options to sweep, such as rtt=10ms,40ms qdisc=pie,dualpi2; values of ladder and timeline, and others "
        "that have commas, are separated by ;",
    ),
]
_Sample = Annotated[
    int | None,
    typer.Option("--sample", min=1, metavar="N", help="Make only N of the runs: a pilot, which the whole map keeps."),
]


def sweep_options(swept: list[str] | None, sample: int | None, **given: str | bool | None) -> None:
    """Map the harm to a video over a sweep of options, as a heat map.

    Every combination of the values, and of the lists in a --scenario, is an experiment of its own;
    contenders=cubic,prague makes one with each. Stand-in videos run without a recording (--recorder=none) unless you
    request one. Runs are kept in results/map, or in a folder with the scenario's name, unless you give --results. The
    same command resumes a map that was stopped: finished runs are kept.

    Exit codes: as those of `sojourn harm`.
    """
    try:
        code = make_map(swept or [], {name.replace("_", "-"): value for name, value in given.items()}, sample=sample)
    except KeyboardInterrupt as stop:
        code = stopped(stop)
    leave(code)


def make_map(
    swept: list[str], given: dict[str, str | bool | None], recorder: str = SCREENING, sample: int | None = None
) -> int:
    """Make the runs of a sweep, or a sample of them, print its map, write its page, and return the exit code.

    Errors are printed. `recorder` is the default for stand-in videos.
    """
    from sojourn.harness.experiment.sweep import Sweep
    from sojourn.harness.terminal import real_terminal

    try:
        sweep = Sweep.from_command_line(swept, given, Path.cwd(), os.environ, recorder, sample)
        sweep.require_ready()
    except (OptionsError, RuntimeError, OSError) as wrong:
        return failed(wrong, ExitCode.CANNOT_WORK)
    with real_terminal() as terminal:
        code = ExitCode.VALID
        try:
            code = _make(sweep, terminal)
        except OptionsError as wrong:
            return failed(wrong, ExitCode.CANNOT_WORK)
        except (RuntimeError, OSError) as error:
            code = failed(error, ExitCode.TOO_FEW_VALID)
        except KeyboardInterrupt as stop:
            signal.signal(signal.SIGINT, lambda *_: None)  # what is left is the page of finished runs
            _finish(sweep)
            return stopped(stop, f"finished runs are kept in {sweep.first.results}; the same command resumes")
        _finish(sweep)
        return code


def _make(sweep: Sweep, terminal: TextIO) -> ExitCode:
    """Make the runs, renew the page after each round of seeds, and return the exit code."""
    from sojourn.hardware.machine.messages import count_of
    from sojourn.harness.report.index import write_index

    made: list[SeriesOfRuns] = []
    console = console_of(terminal)
    for line in sweep.defaults:
        console.print(Text(line))

    def begun(series: SeriesOfRuns) -> None:
        made.append(series)
        kept = f"; {len(series.kept)} finished before" if series.kept else ""
        experiments, runs = count_of(len(sweep.experiments), "experiment"), count_of(len(series.waiting), "run")
        console.print(Text(f"map of {experiments}: {runs} to make{kept}"))

    valid = 0
    with closing(sweep.run(["sojourn", *sys.argv[1:]], terminal, begun)) as runs:
        for number, result in enumerate(runs, 1):
            valid += not result.void
            if number % len(sweep.experiments) == 0:
                with suppress(RuntimeError, OSError):  # the page at the end says what is wrong
                    write_index(sweep.first.results)
    valid += sum(not result.void for result in made[0].kept.values())
    if valid < (wanted := made[0].wanted):
        return failed(RuntimeError(f"{valid} of {wanted} requested runs are valid"), ExitCode.TOO_FEW_VALID)
    return ExitCode.VALID


def _finish(sweep: Sweep) -> None:
    """Write the page of the map, and print the map."""
    from sojourn.harness.report.experiments import experiments
    from sojourn.harness.report.index import read_folder, write_index_of
    from sojourn.harness.report.terminal import print_maps

    runs, left = read_folder(sweep.first.results)
    if not runs and not left:
        return
    groups, console = experiments(runs), console_of()
    page = write_index_of(sweep.first.results, groups, left)
    print_maps(groups, console)
    console.print(Text(f"map: {page}"), soft_wrap=True)


app.command("map")(with_options(sweep_options, swept=_Swept, sample=_Sample))
