# SPDX-License-Identifier: Apache-2.0
"""The command line: `sojourn …`. Every command is a thin call of a function that tests also call.

Commands import their modules themselves: a warm `sojourn build` is part of every make target.
"""

from __future__ import annotations

import typer

from sojourn.hardware.machine.signals import unignore_sigint
from sojourn.harness.cli import bundles, harm, machines, maps, matrices, nights, papers, runs, verdicts

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(harm.app)
app.add_typer(maps.app)
app.add_typer(machines.app)
app.add_typer(runs.app)
app.add_typer(verdicts.app)
app.add_typer(matrices.app)
app.add_typer(papers.app)
app.add_typer(bundles.app, name="bundle")
app.add_typer(nights.app, name="soak")


@app.callback()
def main() -> None:
    """Sojourn measures what a bottleneck queue does to the video people watch while a bulk flow competes."""
    unignore_sigint()
