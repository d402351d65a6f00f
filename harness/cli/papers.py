# SPDX-License-Identifier: Apache-2.0
"""`sojourn paper`: regenerate the tables of README and docs from runs, and check whether they are up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.harness.cli.common import one_line_errors

app = typer.Typer()


@app.command()
@one_line_errors
def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Tables, by their names in docs/paper.toml; default: all."),
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder for the runs: a folder per table.")] = Path("results/paper"),
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Repeat N runs per command of tables that are made, and compare them with those in docs/runs/: a "
            "table whose sample is the same stays, stamped with this code. Exit code 1 if a run differs.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Make nothing; exit code 1 if the code has changed since a table was made.")
    ] = False,
) -> None:
    """Make the runs of the tables in README and docs, and write the tables; finished runs of this build are kept."""
    from sojourn.harness.report.paper import renew
    from sojourn.harness.report.repeated import has_runs_file, repeat_samples
    from sojourn.harness.report.stamps import PaperError, out_of_date, paper_tables

    known = {table.name: table for table in paper_tables()}
    if unknown := next((name for name in names or () if name not in known), None):
        raise PaperError(f"{unknown}: no such table; known: {', '.join(known)}", code="unknown-value")
    chosen = [known[name] for name in names or known]
    if check and sample:
        raise PaperError("--sample makes runs, and --check makes none; omit one of them", code="conflict")
    if check:
        old = out_of_date(chosen)
        for name, parts in old.items():
            print(f"{known[name].page}: {name} is out of date ({', '.join(parts)}); run `sojourn paper {name}`")
        raise typer.Exit(1 if old else 0)
    if sample:
        differ = False
        without = [] if names else [table for table in chosen if not has_runs_file(table)]
        for table in without:
            print(f"{table.name}: skipped: has no {table.runs_file} to compare runs with")
            chosen.remove(table)
        for repetition in repeat_samples(chosen, results, sample):
            print(repetition.text)
            differ = differ or bool(repetition.differing)
        raise typer.Exit(1 if differ else 0)
    for page in renew(chosen, results, _published):
        print(page)


def _published(results: Path, page: Path) -> tuple[Path, ...]:
    from sojourn.harness.matrix.matrix import matrices
    from sojourn.harness.matrix.pages import published_summary

    return published_summary.write(matrices(), results, page)
