# SPDX-License-Identifier: Apache-2.0
"""Commands on soaks: nights of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from sojourn.harness.cli.common import AsJson, one_line_errors, print_json


class _PlanOrCommand(TyperGroup):
    """`sojourn soak plan.toml` is `sojourn soak run plan.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_PlanOrCommand, no_args_is_help=True, help="Run a plan's cells through a night: sojourn soak PLAN --hours=10."
)


@app.command("run")
def soak_run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file (docs/soak.md).")],
    hours: Annotated[float | None, typer.Option(min=0.01, help="When the time is up no run is begun.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Only go on with a night that was cut short.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Begin a night even if the last one could go on.")] = False,
    page: Annotated[
        str, typer.Option("--status", help="Where the status page is: a loopback address and port, or off.")
    ] = "127.0.0.1:8470",
) -> None:
    """Run a plan's cells in random rounds until the time is up, or go on with the night that was cut short.

    Exit codes: 0 every cell has valid runs, 1 some has none or was left out, 2 bad plan or options, or programs are
    missing, 3 the lab is broken, 4 the disk is full, 5 another soak is at work, 6 the soak itself went wrong, 128 and
    its number after a signal.
    """
    from sojourn.harness.soak.night import night

    raise typer.Exit(night(plan, hours if not resume else None, new=new, page=page, resume=resume))


@app.command("status")
@one_line_errors
def soak_status(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A night, or the folder of the nights.")],
    as_json: AsJson = False,
) -> None:
    """Tell how far a night is."""
    from sojourn.harness.soak.state import opened
    from sojourn.harness.soak.status import print_status, status

    stands = status(opened(folder))
    print_json(stands.record()) if as_json else print_status(stands, Console())


@app.command("summary")
@one_line_errors
def soak_summary(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A night, or the folder of the nights.")],
) -> None:
    """Write a night's report.html, index.html and junit.xml again."""
    from sojourn.harness.soak.state import opened
    from sojourn.harness.soak.summary import write_summary

    print(write_summary(opened(folder)))
