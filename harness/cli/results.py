# SPDX-License-Identifier: Apache-2.0
"""Commands on the folder of results: list its runs, open their pages, delete them."""

from __future__ import annotations

import os
import webbrowser
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sojourn.hardware.machine.messages import printable
from sojourn.harness.cli.common import AsJson, one_line_errors, print_json, regenerate_report
from sojourn.harness.terminal import console_of

app = typer.Typer()
_RESULTS = Path("results")
#: Without one of these, a text browser would take the terminal.
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@app.command("ls")
@one_line_errors
def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder of runs.")] = _RESULTS,
    keyword: Annotated[
        str,
        typer.Option("-k", metavar="TEXT", help="Only runs whose folder, experiment or state has all of these words."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder, one line each: date, experiment, state, harm in the primary metric, size."""
    from sojourn.harness.report.run_list import RunList, listed

    runs = listed(folder, keyword.split())
    if as_json:
        print_json([asdict(run) for run in runs])
    elif runs:
        console_of().print(RunList(runs, folder))
    else:
        print(printable(f"{folder}: no run has all words of {keyword!r}"))


@app.command("open")
@one_line_errors
def open_page(
    place: Annotated[
        Path, typer.Argument(metavar="RUN_OR_RESULTS", help="A run directory, or a folder of runs.")
    ] = _RESULTS,
) -> None:
    """Open the page of a run or of a folder in your browser; without a display, print its path."""
    page = _page(place)
    if any(os.environ.get(name) for name in _DISPLAYS):
        webbrowser.open(page.resolve().as_uri())
    print(page)


def _page(place: Path) -> Path:
    """Return the page of a run or of a folder, and write it if it is missing; of a run also if it was altered."""
    from sojourn.harness.report.index import write_index
    from sojourn.harness.report.repetitions import INDEX
    from sojourn.harness.store.loaded import LoadError, check_seal, load_run
    from sojourn.harness.store.manifest import REPORT, is_run

    pages = [page for name in (REPORT, INDEX) if (page := place / name).is_file()]
    if not is_run(place):
        return pages[0] if pages else write_index(place)
    run = load_run(place)
    with suppress(LoadError):
        check_seal(place, REPORT, run.manifest)
        if pages:
            return pages[0]
    return regenerate_report(run)


@app.command("rm")
@one_line_errors
def remove_runs(
    places: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or folders of a series.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete runs and series, after a question. Nothing is deleted if one of them is neither, or is in use."""
    from sojourn.hardware.machine.messages import count_of
    from sojourn.harness.report.html import is_page
    from sojourn.harness.store.disk_usage import size_words, tree_bytes
    from sojourn.harness.store.manifest import REPORT
    from sojourn.harness.store.removal import pages_of_matrix, removable, remove

    every = {Path(os.path.abspath(place)): place for place in places}
    chosen = {place: named for place, named in every.items() if every.keys().isdisjoint(place.parents)}
    counts = {place: removable(place) for place in chosen}
    sizes = {place: tree_bytes(place) for place in chosen}
    for place, named in chosen.items():
        print(printable(f"{named}: {count_of(counts[place], 'run')}, {size_words(sizes[place])}"))
    if not yes:
        _ask(f"Delete {count_of(sum(counts.values()), 'run')}, {size_words(sum(sizes.values()))}?")
        for place in chosen:  # a process may have begun in one while the question stood
            removable(place)
    pages = dict.fromkeys(page for place in chosen for page in pages_of_matrix(place))
    stale = [page for page in pages if is_page(page) or is_page(page.with_name(REPORT))]
    for place in chosen:
        remove(place)
    for page in filter(Path.exists, stale):  # that of a deleted cell is gone
        page.unlink()
        print(printable(f"{page}: removed, because it showed deleted runs; `sojourn matrix` writes it again"))
    cells = {place.parent for place in chosen if place.name.startswith("seed-")}
    for cell in cells:
        with suppress(OSError):  # it has further runs
            cell.rmdir()
    for results in {place.parent for place in chosen} | {cell.parent for cell in cells}:
        _renew_index(results)


def _ask(question: str) -> None:
    """Exit with code 1 unless the answer is yes."""
    try:
        agreed = typer.confirm(question)
    except typer.Abort:  # the input ended
        print()
        agreed = False
    if not agreed:
        print("nothing was deleted")
        raise typer.Exit(1)


def _renew_index(results: Path) -> None:
    """Write the index of a results folder again, which lists deleted runs; remove it if no run is left."""
    from sojourn.harness.report.html import is_page
    from sojourn.harness.report.index import write_index
    from sojourn.harness.report.repetitions import INDEX
    from sojourn.harness.report.run_page import ReportError

    if is_page(page := results / INDEX):
        try:
            write_index(results)
        except ReportError:
            with suppress(OSError):
                page.unlink()
