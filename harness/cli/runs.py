# SPDX-License-Identifier: Apache-2.0
"""Commands on runs of an experiment: rescore, compare and show them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from sojourn.hardware.machine.messages import printable
from sojourn.harness.cli.common import (
    AsJson,
    Least,
    Run,
    check_output,
    one_line_errors,
    print_json,
    regenerate_report,
    renew_report,
    sizes,
    write_index_of_runs,
)
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.terminal import complain, console_of, plain_table

if TYPE_CHECKING:
    from polars import DataFrame

    from sojourn.scoring.schema.scores import Scores

app = typer.Typer()
#: Packets below which a flow without findings is only counted.
_SHORT_FLOW = 10
_Repeated = typer.Option(metavar="PATH", help="Repeat this option if the run was recorded with it.")


@app.command()
@one_line_errors
def rescore(
    run: Run,
    write: Annotated[bool, typer.Option("--write", help="Replace stored scores and status if they differ.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the raw files, recompute the scores, compare them with the stored ones, and regenerate the report.

    A run that was stopped while its scores were computed is finished.
    """
    from sojourn.harness.experiment.rescore import replace, rescored
    from sojourn.harness.experiment.run import finish_unscored
    from sojourn.harness.store.runs import is_unscored

    if is_unscored(run):
        finished = finish_unscored(run)
        if as_json:
            print_json({"run": finished.path, "scorer": finished.scores.scorer, "finished": True})
        else:
            verdict = f"invalid: {'; '.join(finished.void)}" if finished.void else "valid"
            print(printable(f"{finished.path}: scored and finished: {verdict}; report.html written"))
        return
    outcome = rescored(run)
    if outcome.altered:
        complain(f"{run}: scores.json does not match the manifest")
    for reason in outcome.void_now:
        complain(f"{run}: now invalid: {reason}")
    if as_json:
        record: dict[str, object] = {"run": run, "scorer": outcome.scorer, "fields": outcome.fields}
        record |= {"differing": outcome.differing, "void_now": outcome.void_now, "altered": outcome.altered}
        print_json({**record, "replaced": write and bool(outcome.differing)})
    if not as_json and outcome.outdated:
        for line in outcome.fields:
            print(printable(line))
    if outcome.outdated and not write:
        before, now = outcome.scorer or "unknown", outcome.now
        scorers = f"differ, computed by the same scorer {now}" if before == now else f"differ, scorer {before} → {now}"
        complain(f"{run}: scores {scorers}: {outcome.counted}; replace them with --write")
        raise typer.Exit(1)
    if write:
        replace(run, outcome.scores)
    renew_report(run)
    if not as_json:
        state = "scores replaced" if write else f"no value differs; stored scorer {outcome.scorer}"
        print(f"{run}: {state if outcome.differing else 'scores unchanged'}; report.html regenerated")


@app.command()
@one_line_errors
def rerun(
    run: Run,
    results: Annotated[Path | None, typer.Option(help="Folder for the new run (default: next to the old one).")] = None,
    kernel_source: Annotated[Path | None, _Repeated] = None,
    iproute2_source: Annotated[Path | None, _Repeated] = None,
    clip: Annotated[Path | None, _Repeated] = None,
    url: Annotated[Path | None, _Repeated] = None,
    script: Annotated[Path | None, _Repeated] = None,
    as_json: AsJson = False,
) -> None:
    """Repeat a simulated run from its manifest and compare the bytes; exit code 2 if they differ."""
    from sojourn.harness.experiment.rerun import rerun as make_again
    from sojourn.harness.matrix.cells.rerun import rerun_cell
    from sojourn.harness.store.manifest import read_manifest
    from sojourn.scoring.schema.files import CELL

    given = {"kernel-source": kernel_source, "iproute2-source": iproute2_source, "clip": clip, "url": url}
    given |= {"script": script}
    yours = {name: path for name, path in given.items() if path}
    if CELL in read_manifest(run).files:
        path, files, unlike = rerun_cell(run, results, yours)
    else:
        path, files, unlike = make_again(run, results, sys.stderr, yours)
        write_index_of_runs(path.parent)
    if as_json:
        print_json({"run": path, **asdict(files), "unlike": unlike})
        raise typer.Exit(2 if files.other or files.missing else 0)
    for name in files.other:
        print(f"different: {name}")
    for name in files.missing:
        print(f"only in one run: {name}")
    for line in unlike:
        print(f"different {line}")
    if files.other or files.missing:
        print(f"{path}: NOT identical: {len(files.same)} files are, {len(files.other) + len(files.missing)} are not")
        raise typer.Exit(2)
    print(f"{path}: all {len(files.same)} files are identical")


@app.command()
@one_line_errors
def report(
    place: Annotated[Path, typer.Argument(metavar="RUN_OR_RESULTS", help="A run directory, or a folder of runs.")],
) -> None:
    """Regenerate report.html of a run from its scores.json, or index.html of a folder, with the harm in all runs."""
    from sojourn.harness.report.index import write_index
    from sojourn.harness.store.loaded import load_run
    from sojourn.harness.store.manifest import is_run

    print(regenerate_report(load_run(place)) if is_run(place) else write_index(place))


@app.command()
@one_line_errors
def summary(
    places: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Runs, folders of runs, or an earlier summary.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder. Default: the earlier summary, or RESULTS/summary.")
    ] = None,
    least: Least = "",
    openmetrics: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write OpenMetrics text, for Prometheus and Grafana.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Summarise finished runs: figures with intervals over the runs, as tables, page, CSV and JSON."""
    from sojourn.hardware.machine.messages import count_of
    from sojourn.harness.report.experiments import experiments, find_runs, is_summary
    from sojourn.harness.report.openmetrics import write_openmetrics
    from sojourn.harness.report.repetitions import records, write_summary
    from sojourn.harness.report.terminal import print_summary
    from sojourn.harness.report.verdict import left_out
    from sojourn.harness.store.manifest import is_run

    check_output("openmetrics", openmetrics)
    check_output("output", output, folder=True)
    unreadable = dict[Path, str]()
    repeated = experiments(find_runs(places, unreadable=unreadable), sizes(least))
    first = places[0].parent if is_run(places[0]) else places[0]
    folder = first if is_summary(first) else first / "summary"
    page = write_summary(repeated, output or folder, unreadable)  # first: the reader of a pipe may close it
    for why in unreadable.values():
        complain(f"excluded: unreadable: {why}")
    unfinished = left_out(places)
    for left in unfinished:
        complain(f"excluded: {left.path}: {left.state}: {left.reason}")
    if excluded := len(unreadable) + len(unfinished):
        complain(f"{count_of(excluded, 'run')} excluded, in no figure")
    if not as_json:
        print_summary(repeated, console_of())
    if openmetrics:
        write_openmetrics(repeated, page, openmetrics, len(unreadable))
    print_json(records(repeated, page.parent)) if as_json else print(page)


@app.command()
@one_line_errors
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run, or a folder of runs.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Second run or folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write.")] = Path("compare.html"),
    least: Least = "",
    as_json: AsJson = False,
) -> None:
    """Compare two runs or two folders of runs: the options that differ, then the difference in each metric."""
    from sojourn.harness.report.compare import compare as compared
    from sojourn.harness.report.comparison_page import write_comparison
    from sojourn.harness.report.terminal import print_comparison

    check_output("output", output)
    comparison = compared(a, b, sizes(least))
    page = write_comparison(comparison, output)
    if not as_json:
        print_comparison(comparison, console_of())
    print_json(comparison.record()) if as_json else print(page)


@app.command()
@one_line_errors
def data(
    run: Run,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the tables.")] = Path(
        "data"
    ),
    table: Annotated[list[str] | None, typer.Option(help="Only this table; may be repeated. Default: all.")] = None,
) -> None:
    """Write a run's data as tables (Parquet), with a description of the columns (docs/data.md)."""
    from sojourn.harness.report.data import of_run, write_tables

    check_output("output", output, folder=True)
    for file in write_tables(of_run(run), output, table or ()):
        print(file)


@app.command()
@one_line_errors
def figure(
    place: Annotated[Path, typer.Argument(metavar="RUN_OR_RESULTS", help="A run; for box and bar a folder of runs.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Image file; its suffix determines the format (default: KIND.png)."),
    ] = None,
    kind: Annotated[
        Literal["timeline", "ccdf", "box", "bar"],
        typer.Option(help="ccdf: delay of the probes; box, bar: a metric over runs, with its interval."),
    ] = "timeline",
    style: Annotated[
        Literal["page", "paper"], typer.Option(help="paper: a column of 3.3 in, black, without background.")
    ] = "page",
    metric: Annotated[
        str, typer.Option(help="Metric of box and bar (docs/pipelines.md); default: harm in the primary one.")
    ] = "",
) -> None:
    """Draw a figure of a run, or of a metric over runs, for a document."""
    from sojourn.harness.report.figures import figure as drawing

    file = output or Path(f"{kind}.png")
    check_output("output", file)
    drawing(place, kind, style, metric).write(file)
    print(file)


@app.command()
@one_line_errors
def mos(
    run: Run,
    inputs: Annotated[Path | None, typer.Option(help="Folder to keep the inputs of the reference software.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the opinion scores (ITU-T P.1203, mode 0) of a run's phases; needs the reference software."""
    from sojourn.harness.report import opinion_scores

    check_output("inputs", inputs, folder=True)
    scores = opinion_scores.scores(run, inputs)
    if as_json:
        print_json({phase: dict(zip(("O35", "O46"), figures, strict=True)) for phase, figures in scores.items()})
        return
    table = plain_table("phase", "O.35 without stalls", "O.46 overall")
    for phase, figures in scores.items():
        table.add_row(Text(phase), *(f"{figure:.2f}" for figure in figures))
    console_of().print(table)
    print(f"Mode 0, no audio; the recommendation applies to sequences of {opinion_scores.SHORTEST_S} s and longer.")


@app.command()
@one_line_errors
def quality(
    run: Run,
    every: Annotated[
        float | None,
        typer.Option(
            min=0.1, metavar="S", help="Seconds between judged pictures (default: 1; in a call, every picture)."
        ),
    ] = None,
    speech: Annotated[
        bool,
        typer.Option("--speech", help="Judge the speech of a call with --call-sound=speech in place of its pictures."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV file with the values of every picture, or segment of speech."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Store the values in the run, its report and its tables.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the picture quality on the screen against the film or the camera (SSIM, VMAF), by phase and rendition.

    With --speech, measure the quality of the speech that both ends of a call heard (MOS-LQO by ViSQOL), by phase.
    """
    check_output("output", output)  # measuring takes minutes
    if speech:
        if every is not None:
            raise OptionsError("--every: speech is judged whole; omit --every", code="conflict", option="every")
        _speech_quality(run, output, write, as_json)
        return
    from sojourn.harness.report import picture_quality
    from sojourn.harness.report.terminal import print_quality
    from sojourn.scoring.picture.judged import QUALITY, by_phase

    measured = partial(picture_quality.measure, run, every)
    judged, scores, files = _judged(run, "comparing with the film", measured, QUALITY, output, write)
    renditions = picture_quality.summary(judged)
    if as_json:
        phases = [asdict(row) for row in by_phase(judged, scores)]
        print_json({"phases": phases, "renditions": renditions.filter(renditions["height"].is_not_null()).to_dicts()})
        return
    print_quality(judged, scores, console_of())
    if renditions["height"].null_count() < renditions.height:
        table = plain_table("phase", "height", "pictures", "SSIM", "P5", "VMAF", "P5")
        for phase, height, count, *figures in renditions.iter_rows():
            cells = (
                f"{figure:.{digits}f}" if figure is not None else "–"
                for figure, digits in zip(figures, (3, 3, 1, 1), strict=True)
            )
            table.add_row(Text(phase), f"{height}p" if height else "–", str(count), *cells)
        console_of().print(table)
    if judged["vmaf"].null_count():
        print("No VMAF: this ffmpeg has no libvmaf; pip install 'sojourn[vmaf]', in a checkout: make setup")
    for file in files:
        print(file)


def _judged(
    run: Path,
    title: str,
    measured: Callable[[Callable[[float], None]], DataFrame],
    name: str,
    output: Path | None,
    write: bool,
) -> tuple[DataFrame, Scores, list[Path]]:
    """Measure with a progress bar; return the figures, the run's scores and the files that were written."""
    from rich.progress import Progress

    from sojourn.harness.store.loaded import load_victim_run
    from sojourn.harness.store.manifest import store_derived

    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task(title, total=1.0)
        judged = measured(lambda share: bars.update(task, completed=share))
    scores = load_victim_run(run, "quality").scores
    files = []
    if write:
        files += [store_derived(run, name, judged.write_csv().encode())]
        files += [regenerate_report(load_victim_run(run, "quality"))]
    if output:  # last: if it fails, the stored values are kept
        judged.write_csv(output)
        files += [output]
    return judged, scores, files


def _speech_quality(run: Path, output: Path | None, write: bool, as_json: bool) -> None:
    from sojourn.harness.report import speech_quality
    from sojourn.harness.report.terminal import print_speech
    from sojourn.scoring.sound.judged_speech import SPEECH, by_phase

    measured = partial(speech_quality.measure, run)
    judged, scores, files = _judged(run, "comparing with what was spoken", measured, SPEECH, output, write)
    if as_json:
        print_json({"phases": [asdict(row) for row in by_phase(judged, scores)]})
        return
    print_speech(judged, scores, console_of())
    for file in files:
        print(file)


@app.command()
@one_line_errors
def ecn(run: Run, as_json: AsJson = False) -> None:
    """Print what every flow did with ECN: offered, negotiated, sent, marked, echoed, answered.

    From the captures on both sides of the bottleneck; a cell has them with --pcap. `echoed` is the CE packets that the
    receiver reported (accurate ECN), or its acknowledgements with ECE (classic ECN); `answered` is the data packets
    with CWR.
    """
    from sojourn.harness.report.ecn import ecn_rows

    rows = ecn_rows(run)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    table = plain_table("flow", "offered", "negotiated", "packets", "sent as", "marked", "echoed", "answered", "")
    shown = [row for row in rows if row.findings or row.packets >= _SHORT_FLOW]
    for row in shown:
        figures = ("–" if it is None else str(it) for it in (row.marked, row.echoed, row.answered))
        words = (row.flow, row.offered or "–", row.negotiated or "–", str(row.packets), row.sent, *figures)
        table.add_row(*map(Text, words), Text("; ".join(row.findings)))
    console_of().print(table)
    if short := len(rows) - len(shown):
        print(f"{short} further flows of fewer than {_SHORT_FLOW} packets, without findings (--json has them)")


@app.command()
@one_line_errors
def film(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN [RUN]", help="A run directory, or two to show next to each other.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: next to the run, <RUN>-film.mp4.")
    ] = None,
    begin: Annotated[
        float | None, typer.Option("--from", metavar="S", help="Begin S seconds after the start of the first phase.")
    ] = None,
    end: Annotated[float | None, typer.Option("--to", metavar="S", help="End at that time.")] = None,
    gif: Annotated[bool, typer.Option("--gif", help="Write a GIF of at most 20 s.")] = False,
) -> None:
    """Make a film of a run, or of two next to each other: title, recording, and plots with a moving cursor."""
    from rich.progress import Progress

    from sojourn.harness.report.film import RunFilmError, write_film
    from sojourn.harness.store.loaded import load_victim_run

    if len(runs) > 2:
        raise RunFilmError(f"film: {len(runs)} runs; give one or two")
    if output and gif != (output.suffix.lower() == ".gif"):
        right = "add --gif, or give an .mp4" if not gif else "--gif writes a GIF; give a .gif"
        raise RunFilmError(f"--output: {output}: {right}")
    check_output("output", output)
    shown = [(run, load_victim_run(run, "film").require_raw_files("screen.mp4", "screen.json").scores) for run in runs]
    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task("film", total=1.0)
        path = write_film(shown, output, lambda share, what="": bars.update(task, completed=share), begin, end, gif)
    print(path)
