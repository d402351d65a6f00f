# SPDX-License-Identifier: Apache-2.0
"""Commands for CI: check runs against thresholds, and find the version of a device at which they changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sojourn.hardware.machine.messages import printable
from sojourn.harness.cli.common import AsJson, Least, Rescore, Signers, check_output, print_json, sizes
from sojourn.harness.terminal import complain, console_of, plain_table

app = typer.Typer()
#: `sojourn.harness.report.verdict.VerdictExit.BROKEN`, also where that cannot be imported.
_BROKEN = 4
_STYLE = {"met": "green", "not met": "red", "not decided": "yellow", "no figure": "red"}


@contextmanager
def _broken_at_once(junit: Path | None = None) -> Iterator[None]:
    """Exit with _BROKEN and one line on any error: any other code would be taken for a verdict.

    So would a JUnit file, of this verdict or of an earlier one: it is removed. Any other file is kept.
    """
    try:
        yield
    except Exception as error:
        if junit and _is_junit(junit):
            with suppress(OSError):
                junit.unlink()
        complain(str(error) or type(error).__name__)
        raise typer.Exit(_BROKEN) from error


def _is_junit(file: Path) -> bool:
    from xml.etree import ElementTree

    try:
        return file.is_file() and ElementTree.parse(file).getroot().tag == "testsuites"
    except (OSError, ValueError, LookupError, ElementTree.ParseError):
        return False


@app.command()
def verdict(
    places: Annotated[list[Path], typer.Argument(metavar="RUN_OR_RESULTS...", help="Runs, or folders of runs.")],
    thresholds: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Thresholds, a TOML file (docs/pipelines.md); required.")
    ] = None,
    sure: Annotated[
        bool,
        typer.Option("--sure", help="Judge by the whole 95 % interval over at least 5 runs; otherwise not decided."),
    ] = False,
    rescore: Rescore = True,
    signers: Signers = None,
    least: Least = "",
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Also append Markdown, for a summary.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check runs against thresholds. Exit code 0: met, 1: not met, 3: invalid, 4: cannot be read, 5: not decided."""
    if thresholds is None:
        raise typer.BadParameter("required; give a TOML file (docs/pipelines.md)", param_hint="--thresholds")
    with _broken_at_once():  # a file inside a run is not removed
        check_output("junit", junit)
    with _broken_at_once(junit):
        check_output("markdown", markdown)
        from sojourn.harness.experiment.score_check import check_scores
        from sojourn.harness.report import verdict as report
        from sojourn.harness.store.manifest import Manifest

        def look(run: Path, manifest: Manifest) -> None:
            with Console(stderr=True).status(Text(f"computing the scores of {run.name}")):
                check_scores(run, manifest)

        given = report.verdicts(
            places, report.read_thresholds(thresholds), sure=sure, signers=signers, look=look if rescore else None,
            relevance=sizes(least),
        )  # fmt: skip
        if junit:
            junit.write_bytes(report.junit(given))
        if markdown:
            with markdown.open("a") as file:
                file.write(report.markdown(given))
        left_out = report.left_out(places)
    if not rescore:
        print("scores NOT recomputed: --no-rescore", file=sys.stderr)
    if as_json:
        print_json(report.records(given))
        raise typer.Exit(report.code_of(given))
    for one in given:
        table = plain_table("threshold", "where", "figure", "")
        table.columns[-1].no_wrap = True  # CI may search for it
        for it in one.judgements:
            row = it.threshold.text, it.where, report.figure_of(it)
            table.add_row(*map(Text, row), Text(it.text, style=_STYLE[it.outcome]))
        print(f"{printable(one.experiment.title)}: {one.words}")
        for line in one.lines:
            print(printable(line))
        if one.judgements:
            console_of().print(table)
    for left in left_out:
        print(printable(f"excluded: {left.path}: {left.state}: {left.reason}"))
    raise typer.Exit(report.code_of(given))


@app.command()
def trend(
    places: Annotated[
        list[Path],
        typer.Argument(metavar="RESULTS...", help="Folder with a folder of runs per version, or these folders."),
    ],
    least: Least = "",
    same: Annotated[
        str, typer.Option(metavar="A=B", help="Folder B has runs of version A again: only larger changes are reported.")
    ] = "",
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write.")] = Path("trend.html"),
    as_json: AsJson = False,
) -> None:
    """Find the version at which a metric changed. Exit code 0: not worse, 1: worse, 3: undecided, 4: cannot be read."""
    with _broken_at_once():
        from sojourn.harness.report import trend as report
        from sojourn.harness.report.verdict import VerdictExit

        check_output("output", output)
        twice = tuple(same.split("=")) if same else None
        if twice is not None and len(twice) != 2:
            raise ValueError(f"--same: {same!r} is not A=B, the names of two versions")
        history = report.history(report.read_versions(places), sizes(least), twice)
        page = report.write_history(history, output)
    able = any(one.can_tell for one in history.trends)
    worse = any(one.worse for one in history.trends)
    code = VerdictExit.NOT_MET if worse else VerdictExit.MET if able else VerdictExit.VOID
    if as_json:
        print_json(report.records(history))
        raise typer.Exit(code)
    for one in history.trends:
        print(printable(f"{one.title}: {one.state}"))
        for line in report.lines(one):
            print(printable(f"  {line}"))
    if not history.trends:
        print("no experiment has valid runs of two versions with the same options")
    for version, left in history.left:
        print(printable(f"excluded: {version}: {left.name}: {left.state}: {left.reason}"))
    print(page)
    raise typer.Exit(code)
