# SPDX-License-Identifier: Apache-2.0
"""`sojourn harm`: the main job as a command. Its options, their help and their completion follow from the model."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from sojourn.hardware.machine.messages import printable
from sojourn.harness.cli.common import ExitCode, failed, leave, stopped, with_options
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import BY_NAME
from sojourn.harness.terminal import console_of

if TYPE_CHECKING:
    from sojourn.harness.experiment.session import ExperimentSession

app = typer.Typer()


def harm(context: typer.Context, **given: str | bool | None) -> None:
    """Measure how much competing traffic harms a video, a call, a game or web pages.

    Plays it in a real browser behind a bottleneck, alone and with every contender, and reports what the viewer lost.
    A scenario with lists, such as --scenario=access-line, gives one table over all their combinations.
    Custom defaults: sojourn.toml in this folder, or SOJOURN_<OPTION> in the environment.

    Exit codes: 0 the requested number of runs is valid, 1 too few are, 2 no such option or an empty value, 4 an option
    or this machine cannot work and nothing was started, 128 and its number after a signal (130: Ctrl-C).
    """
    if context.args:
        print(
            f"sojourn: {printable(context.args[0])}: not an option of `sojourn harm`; for pytest's own arguments run "
            f"`pytest tests/test_video_harm.py {printable(shlex.join(context.args))}`", file=sys.stderr,
        )  # fmt: skip
        raise typer.Exit(2)
    try:
        code = _run({name.replace("_", "-"): value for name, value in given.items()})
    except KeyboardInterrupt as stop:
        code = stopped(stop)
    leave(code)


def _run(given: dict[str, str | bool | None]) -> int:
    from sojourn.harness.experiment.session import ExperimentSession
    from sojourn.harness.options.sources import lists_of, with_scenarios
    from sojourn.harness.terminal import real_terminal

    try:
        table = with_scenarios(given, Path.cwd())
        if lists_of(table):
            from sojourn.harness.cli.maps import make_map

            return make_map([], given, recorder=str(BY_NAME["recorder"].default))
        typed = ["sojourn", *sys.argv[1:]]
        session = ExperimentSession.from_command_line(table, typed, Path.cwd(), os.environ)
        session.require_ready()
    except (OptionsError, RuntimeError, OSError) as wrong:
        return failed(wrong, ExitCode.CANNOT_WORK)
    for line in filter(None, (*session.opening, session.take_unnamed_queue())):
        print(line, flush=True)
    with session, real_terminal() as terminal:
        try:
            failures = list(_failures(session, terminal))
        except KeyboardInterrupt as stop:
            signal.signal(signal.SIGINT, lambda *_: None)  # what is left are the tables of finished runs
            return stopped(stop, *session.kept())
        finally:
            session.finish(console_of())
    return max((failed(*failure) for failure in failures), default=ExitCode.VALID)


def _failures(session: ExperimentSession, terminal: TextIO) -> Iterator[tuple[Exception, ExitCode]]:
    """Make all runs of a session, and yield what stopped those of a service, with its exit code."""
    for options in session.requested:
        try:
            session.run(options, terminal)
        except OptionsError as wrong:
            yield wrong, ExitCode.CANNOT_WORK
        except (RuntimeError, OSError) as error:
            yield error, ExitCode.TOO_FEW_VALID


app.command(context_settings={"allow_extra_args": True})(with_options(harm, context=typer.Context))
