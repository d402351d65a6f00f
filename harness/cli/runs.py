# SPDX-License-Identifier: Apache-2.0
"""Commands on runs of an experiment: score and show them again."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sojourn.hardware.machine.messages import printable
from sojourn.harness.cli.common import AsJson, Run, one_line_errors, print_json

app = typer.Typer()
_Repeated = typer.Option(metavar="PATH", help="Repeat this option if the run was recorded with it.")


@app.command()
@one_line_errors
def rescore(
    run: Run,
    write: Annotated[bool, typer.Option("--write", help="Replace stored scores and status when they differ.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the raw files, compute the scores from them again, compare with the stored ones, renew the report."""
    from sojourn.harness.experiment.rescore import renew_report, replace, rescored

    outcome = rescored(run)
    if outcome.altered:
        print(f"sojourn: {run}: scores.json is not the one that the manifest holds", file=sys.stderr)
    for reason in outcome.void_now:
        print(f"sojourn: {run}: void now: {reason}", file=sys.stderr)
    if as_json:
        told: dict[str, object] = {"run": run, "scorer": outcome.scorer, "fields": outcome.fields}
        told |= {"differing": outcome.differing, "void_now": outcome.void_now, "altered": outcome.altered}
        print_json({**told, "replaced": write and bool(outcome.differing)})
    if not as_json and outcome.differing:
        for line in outcome.fields:
            print(printable(line))
    if outcome.differing and not write:
        before, now = outcome.scorer or "of no scorer", outcome.scores.scorer
        scorers = f"of scorer {now}, which gives others now" if before == now else f"{before} → {now}"
        print(f"sojourn: {run}: scores {scorers}: {outcome.counted}; --write replaces them", file=sys.stderr)
        raise typer.Exit(1)
    if write:
        replace(run, outcome.scores)
    renew_report(run, outcome.scores)
    if not as_json:
        print(f"{run}: {'scores replaced' if outcome.differing else 'the same scores'}; report.html renewed")


@app.command()
@one_line_errors
def rerun(
    run: Run,
    results: Annotated[Path | None, typer.Option(help="Where the new run goes (default: beside the old one).")] = None,
    kernel_source: Annotated[Path | None, _Repeated] = None,
    clip: Annotated[Path | None, _Repeated] = None,
    url: Annotated[Path | None, _Repeated] = None,
    script: Annotated[Path | None, _Repeated] = None,
    as_json: AsJson = False,
) -> None:
    """Make a simulated run again from its manifest and tell whether the bytes are the same; exit code 2 if not."""
    from sojourn.apps import SERVICES
    from sojourn.harness.experiment.rerun import rerun as make_again

    given = {"kernel-source": kernel_source, "clip": clip, "url": url, "script": script}
    yours = {name: path for name, path in given.items() if path}
    path, files, unlike = make_again(run, results, SERVICES, sys.stderr, yours)
    if as_json:
        print_json({"run": path, **asdict(files), "unlike": unlike})
        raise typer.Exit(2 if files.other or files.missing else 0)
    for name in files.other:
        print(f"other bytes: {name}")
    for name in files.missing:
        print(f"in one run only: {name}")
    for line in unlike:
        print(f"not the same {line}")
    if files.other or files.missing:
        print(f"{path}: NOT the same run: {len(files.same)} files are, {len(files.other) + len(files.missing)} are not")
        raise typer.Exit(2)
    print(f"{path}: the same bytes in all of {len(files.same)} files")


@app.command()
@one_line_errors
def report(
    place: Annotated[Path, typer.Argument(metavar="RUN_OR_RESULTS", help="A run directory, or a folder of runs.")],
) -> None:
    """Write report.html of a run again, from its scores.json; of a folder of runs index.html, with the harm in all."""
    from sojourn.harness.experiment.rescore import renew_report
    from sojourn.harness.report.index import write_index
    from sojourn.harness.store.loaded import load_run
    from sojourn.harness.store.manifest import MANIFEST

    whole = (place / MANIFEST).exists()
    print(renew_report(place, load_run(place).drawable().scores) if whole else write_index(place))


@app.command()
@one_line_errors
def summary(
    places: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Runs, folders of runs, or an earlier summary.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: the earlier summary, or RESULTS/summary.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what finished runs say together: figures with intervals over the runs, as tables, page, CSV and JSON."""
    from sojourn.harness.report.repetitions import SUMMARY, experiments, find_runs, records, write_summary
    from sojourn.harness.report.terminal import print_summary
    from sojourn.harness.store.manifest import MANIFEST

    told_apart = experiments(find_runs(places))
    first = places[0].parent if (places[0] / MANIFEST).exists() else places[0]
    folder = first if (first / SUMMARY).exists() else first / "summary"
    if not as_json:
        print_summary(told_apart, Console())
    page = write_summary(told_apart, output or folder)
    print_json(records(told_apart, page.parent)) if as_json else print(page)


@app.command()
@one_line_errors
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run, or a folder of runs.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The same of the other side.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("compare.html"),
    as_json: AsJson = False,
) -> None:
    """Compare two runs or two folders of runs: what was asked otherwise, then each metric with its difference."""
    from sojourn.harness.report.compare import compare as compared
    from sojourn.harness.report.compare import write_comparison
    from sojourn.harness.report.terminal import print_comparison

    comparison = compared(a, b)
    if not as_json:
        print_comparison(comparison, Console())
    page = write_comparison(comparison, output)
    print_json(comparison.record()) if as_json else print(page)


@app.command()
@one_line_errors
def data(
    run: Run,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the tables go.")] = Path(
        "data"
    ),
    table: Annotated[list[str] | None, typer.Option(help="Only this one; may be given again. Default: all.")] = None,
) -> None:
    """Write what a run recorded as tables (Parquet), with what their columns are (docs/data.md)."""
    from sojourn.harness.report.data import load, write_tables

    for file in write_tables(load(run), output, table or ()):
        print(file)


@app.command()
@one_line_errors
def figure(
    run: Run,
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture; its suffix names the format.")] = Path(
        "timeline.png"
    ),
) -> None:
    """Draw the timeline of a run as a picture."""
    from sojourn.harness.report.timeline_figure import draw
    from sojourn.harness.store.loaded import load_valid_run

    draw(load_valid_run(run).drawable().scores, run, output)
    print(output)


@app.command()
@one_line_errors
def mos(
    run: Run,
    inputs: Annotated[
        Path | None, typer.Option(help="Keep the inputs of the reference software in this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell the opinion scores (ITU-T P.1203, mode 0) of a run's phases; needs its reference software."""
    from sojourn.harness.report import opinion_scores

    scores = opinion_scores.scores(run, inputs)
    if as_json:
        print_json({phase: dict(zip(("O35", "O46"), figures, strict=True)) for phase, figures in scores.items()})
        return
    table = Table("phase", "O.35 without stalls", "O.46 overall")
    for phase, figures in scores.items():
        table.add_row(phase, *(f"{figure:.2f}" for figure in figures))
    Console().print(table)
    print(f"Mode 0, no audio; the recommendation is made for {opinion_scores.SHORTEST_S} s and longer.")


@app.command()
@one_line_errors
def quality(
    run: Run,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between the pictures that are judged.")] = 1.0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A CSV file with each picture's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what was left of the film's quality on the screen (SSIM, VMAF), by phase and rendition."""
    from rich.progress import Progress

    from sojourn.harness.report import picture_quality

    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task("painting the film anew", total=1.0)
        judged = picture_quality.measure(run, every, lambda share: bars.update(task, completed=share))
    if output:
        judged.write_csv(output)
    if as_json:
        print_json(picture_quality.summary(judged).to_dicts())
        return
    table = Table("phase", "height", "pictures", "SSIM", "P5", "VMAF", "P5")
    for phase, height, count, *figures in picture_quality.summary(judged).iter_rows():
        cells = (
            f"{figure:.{digits}f}" if figure is not None else "–"
            for figure, digits in zip(figures, (3, 3, 1, 1), strict=True)
        )
        table.add_row(phase, f"{height}p" if height else "–", str(count), *cells)
    Console().print(table)
    if judged["vmaf"].null_count():
        print("No VMAF: this ffmpeg has no libvmaf; pip install 'sojourn[vmaf]' brings one that has.")
    if output:
        print(output)


@app.command()
@one_line_errors
def export(
    run: Run,
    composite: Annotated[
        bool, typer.Option("--composite", help="A film: the recording above its plots, through which a cursor moves.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: RUN-composite.mp4 beside the run.")
    ] = None,
) -> None:
    """Export a run to be shown: --composite makes an mp4 of its recording and its moving plots."""
    from rich.progress import Progress

    from sojourn.harness.report.film import CompositeError
    from sojourn.harness.report.film import export as film
    from sojourn.harness.store.loaded import load_run

    if not composite:
        raise CompositeError("export: say what: --composite (an archive is `sojourn bundle export`)")
    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task("composite", total=1.0)
        scores = load_run(run).drawable("screen.mp4", "screen.json").scores
        path = film(run, scores, output, lambda share, what="": bars.update(task, completed=share))
    print(path)
