# SPDX-License-Identifier: Apache-2.0
"""The command line: `sojourn …`. Every command is a thin call of a function that tests also call.

Commands import their modules themselves: a warm `sojourn build` is part of every make target.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.signals import unignore_sigint
from sojourn.harness.cli import (
    bundles,
    harm,
    machines,
    maps,
    matrices,
    papers,
    profiles,
    results,
    runs,
    soaks,
    verdicts,
)
from sojourn.harness.terminal import complain


class _NothingEmpty(TyperGroup):
    """Commands that refuse an empty value: it is an unset variable of a shell, not a choice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for before, word in pairwise([ctx.info_name, *args]):
            if word == "":
                complain(f"the value after {printable(before)} is empty; give one, or omit it")
                raise typer.Exit(2)
            if word.startswith("--") and word.find("=") == len(word) - 1:
                name = printable(word.removesuffix("="))
                complain(f"{name}: is empty; give a value, or omit {name}")
                raise typer.Exit(2)
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_NothingEmpty, no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(harm.app)
app.add_typer(maps.app)
app.add_typer(machines.app)
app.add_typer(results.app)
app.add_typer(runs.app)
app.add_typer(verdicts.app)
app.add_typer(matrices.app)
app.add_typer(papers.app)
app.add_typer(profiles.app)
app.add_typer(bundles.app, name="bundle")
app.add_typer(soaks.app, name="soak")


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version

    from sojourn.harness.store.runs import git_state
    from sojourn.scoring.schema.scores import SCORER

    git = git_state()
    commit = f"commit {git.commit[:8]}{', changed' * git.dirty}, " if git else ""
    print(f"sojourn {version('sojourn')} ({commit}scores {SCORER})")
    raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Sojourn measures what a bottleneck queue does to the video people watch while a bulk flow competes."""
    unignore_sigint()
