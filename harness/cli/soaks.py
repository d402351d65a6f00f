# SPDX-License-Identifier: Apache-2.0
"""Commands on soaks: unattended batches of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sojourn.harness.cli.common import AsJson, one_line_errors, print_json
from sojourn.harness.terminal import console_of


class _PlanOrCommand(TyperGroup):
    """`sojourn soak plan.toml` is `sojourn soak run plan.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_PlanOrCommand, no_args_is_help=True, help="Run a plan's cells unattended: sojourn soak PLAN --hours=10."
)


@app.command("run")
def soak_run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file (docs/soak.md).")],
    hours: Annotated[float | None, typer.Option(min=0.01, help="Time after which no run is started.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Only resume an interrupted batch.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Start a new batch instead of resuming the last.")] = False,
    page: Annotated[
        str, typer.Option("--status", help="Loopback address and port of the status page, or off.")
    ] = "127.0.0.1:8470",
) -> None:
    """Run a plan's cells in random rounds until the time is up, or resume an interrupted batch.

    Exit codes: 0 every cell has valid runs, 1 a cell has none or is quarantined, 2 bad plan or options, or missing
    programs, 3 the lab is broken, 4 the disk is full, 5 another soak is running, 6 internal error, 128 plus the number
    of a signal.
    """
    from sojourn.harness.soak.run_plan import run_plan

    raise typer.Exit(run_plan(plan, hours, new=new, page=page, resume=resume))


@app.command("status")
@one_line_errors
def soak_status(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A batch, or the folder of batches.")],
    as_json: AsJson = False,
) -> None:
    """Show the progress of a batch."""
    from sojourn.harness.soak.state import opened
    from sojourn.harness.soak.status import print_status, status

    stands = status(opened(folder))
    print_json(stands.record()) if as_json else print_status(stands, console_of())


@app.command("summary")
@one_line_errors
def soak_summary(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A batch, or the folder of batches.")],
) -> None:
    """Regenerate report.html, index.html and junit.xml of a batch."""
    from sojourn.harness.soak.state import opened
    from sojourn.harness.soak.summary import write_summary

    print(write_summary(opened(folder)))
