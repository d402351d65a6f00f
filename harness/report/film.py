# SPDX-License-Identifier: Apache-2.0
"""A run as one film: its options and validity, the recording, and its plots with a cursor.

Plots and titles are drawn once; ffmpeg moves the cursor over them.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sojourn.hardware.confine.decoder import decoder
from sojourn.harness.report.grids import bottleneck
from sojourn.harness.report.headline import VictimOutcome, harm_badge, measurement, outcomes, phrase
from sojourn.harness.report.run_page import status_of
from sojourn.harness.report.timeline_figure import draw_delay, draw_goodput, draw_quality, dress
from sojourn.harness.store.loaded import stored_object
from sojourn.harness.terminal import ProgressCallback
from sojourn.scoring.picture.frames import QUIET, frame_times, recording
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import RunSeries, run_series

_WIDTH, _PLOTS, _DPI = 1280, 480, 100
_TITLE, _RUN, _REASONS = 64, 24, 44  # heights in px: the title; below it the run's name or the reasons
_CURSOR = 4  # width in px
_BAD, _INK, _NEUTRAL = "#b3261e", "#1b1f24", "#59636e"
#: Colours of the words for harm, as in style.css.
_HARM = {"none": "#116329", "some": "#7d4e00", "severe": _BAD, None: _NEUTRAL}
#: Characters of an outcome that fit into a title at full size; longer ones get a smaller font.
_LONGEST = 115


class CompositeError(RuntimeError):
    """A film cannot be made; the message names the file and the problem."""


@dataclass(frozen=True)
class Plots:
    """An image of plots, with the positions (px) of start and end of the time axis, and of top and bottom."""

    left: float
    right: float
    top: int
    bottom: int


def export(run: Path, scores: Scores, output: Path | None, progress: ProgressCallback) -> Path:
    """Write the film and return its path (by default `<run>-composite.mp4` next to the run).

    H.264 in yuv420p at the recording's nominal frame rate, as long as the recording. `progress` receives the share.
    Raises CompositeError if there is no recording, if `output` exists or lies in the run, or if ffmpeg fails;
    RecordingError if the recording cannot be read.
    """
    run = run.resolve()
    output = output or run.parent / f"{run.name}-composite.mp4"
    video, described = run / "screen.mp4", run / "screen.json"
    if output.exists():
        raise CompositeError(f"{output}: exists; give another -o")
    if run in output.resolve().parents:
        raise CompositeError(f"{output}: inside the run, whose files are sealed; give an -o elsewhere")
    if not video.exists():
        raise CompositeError(f"{video}: is missing; only a run with a recording can be exported")
    try:
        screen = json.loads(described.read_text())
        offset, fps = float(screen["start"]) - scores.t0, int(screen["fps"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CompositeError(f"{described}: has no start time of the recording: {error}") from error
    length = frame_times(video)[-1:] or [0.0]
    view = run_series(scores, run)
    status, reasons = status_of(scores, None)
    partial = output.with_name(output.name + ".partial")
    try:
        with tempfile.TemporaryDirectory() as folder:
            pictures = Path(folder)
            plots = draw_plots(view, status == "valid", pictures / "plots.png")
            service = str(stored_object(run / "options.json").get("service", ""))
            setup = f"{service}, {bottleneck(scores.lab)}" if service else bottleneck(scores.lab)
            had = outcomes(scores) if status == "valid" else []
            titles = draw_titles(view, setup, run.name, (status, reasons), had, pictures)
            cursor = Figure(figsize=(_CURSOR / _DPI, (plots.bottom - plots.top) / _DPI), dpi=_DPI, facecolor=_INK)
            cursor.savefig(pictures / "cursor.png")
            drawn = [pictures / "plots.png", pictures / "cursor.png", *(path for path, *_ in titles)]
            spans = [(start, end) for _, start, end in titles]
            graph = filters(plots, spans, offset, view.end, fps, _title_height(status))
            _encode(video, drawn, graph, partial, length[0], progress)
        if output.exists():  # created meanwhile by another export
            raise CompositeError(f"{output}: exists; give another -o")
        partial.rename(output)
    finally:
        partial.unlink(missing_ok=True)
    return output


def filters(
    plots: Plots, titles: Sequence[tuple[float, float]], offset: float, end: float, fps: int, title_height: int
) -> str:
    """Return ffmpeg's filters. Inputs: recording, plots, cursor, then one title for every (start, end) in s of the run.

    `offset` is the recording's first frame, `end` the end of the time axis, both in the run's time.
    """
    now, below = f"(t+{offset:.4f})", f"main_h-{_PLOTS}"
    x = f"{plots.left:.2f}+{now}/{end:.4f}*{plots.right - plots.left:.2f}-{_CURSOR / 2:g}"
    steps = [
        f"[0:v]fps={fps},scale={_WIDTH}:-2,setsar=1,pad=iw:ih+{title_height + _PLOTS}:0:{title_height}[film]",
        f"[film][1:v]overlay=0:{below}[plotted]",
        f"[plotted][2:v]overlay='{x}':{below}+{plots.top}:enable='between({now},0,{end:.4f})'[at0]",
    ]
    for number, (start, stop) in enumerate(titles):
        # Half-open intervals, so that no frame has two titles.
        shown = f"gte({now},{start:.4f})*lt({now},{stop:.4f})"
        steps.append(f"[at{number}][{number + 3}:v]overlay=0:0:enable='{shown}'[at{number + 1}]")
    return ";".join([*steps, f"[at{len(titles)}]format=yuv420p[out]"])


def draw_plots(view: RunSeries, valid: bool, path: Path) -> Plots:
    """Write the plots as an image and return their positions in it."""
    figure = Figure(figsize=(_WIDTH / _DPI, _PLOTS / _DPI), dpi=_DPI, layout="constrained")
    draws = [draw_goodput, draw_quality, *([draw_delay] if view.rtts else [])]
    panels = figure.subplots(len(draws), 1, sharex=True, height_ratios=[3, 2, 2][: len(draws)])
    axes: list[Axes] = list(panels)
    for one, draw in zip(axes, draws, strict=True):
        draw(one, view)
    dress(axes, view)
    figure.align_ylabels(axes)
    if not valid:
        figure.text(0.5, 0.5, "INVALID", fontsize=90, color=_BAD, alpha=0.16, ha="center", va="center", weight="bold")
    figure.savefig(path)
    boxes = [one.get_window_extent() for one in axes]
    top, bottom = _PLOTS - boxes[0].y1, _PLOTS - boxes[-1].y0
    return Plots(boxes[0].x0, boxes[0].x1, round(top), round(bottom))


def draw_titles(
    view: RunSeries,
    setup: str,
    name: str,
    verdict: tuple[str, list[str]],
    had: Sequence[VictimOutcome],
    folder: Path,
) -> list[tuple[Path, float, float]]:
    """Write one title per phase, one before and one after all; return each with start and end in s of the run.

    `had` is the viewer's outcome in every contender phase; empty for an invalid run.
    """
    of_phase = {outcome.name: outcome for outcome in had}
    phases = [
        (f"with {p.contender}" if p.contender else "alone", p.start, p.end, of_phase.get(p.name)) for p in view.phases
    ]
    spans = [("before the first phase", -1e6, 0.0, None), *phases, ("after the last phase", view.end, 1e6, None)]
    titles = []
    for number, (now, start, end, outcome) in enumerate(spans):
        path = folder / f"title{number}.png"
        _draw_title(setup, now, *verdict, name, outcome, path)
        titles.append((path, start, end))
    return titles


def _title_height(status: str) -> int:
    return _TITLE + (_RUN if status == "valid" else _REASONS)


def _draw_title(
    setup: str, now: str, status: str, reasons: Sequence[str], name: str, outcome: VictimOutcome | None, path: Path
) -> None:
    valid, height, sound = status == "valid", _title_height(status), measurement(status).text
    verdict_text = "\n".join(textwrap.wrap(f"{sound}: {'; '.join(reasons)}", 150, max_lines=2, placeholder=" …"))
    figure = Figure(figsize=(_WIDTH / _DPI, height / _DPI), dpi=_DPI, facecolor="white" if valid else _BAD)

    def write(x: float, y: float, text: str, colour: str, size: float, **more: Any) -> None:
        figure.text(
            x / _WIDTH, 1 - y / height, text, color=colour if valid else "white", fontsize=size, va="center", **more
        )

    write(20, 22, setup, _INK, 15, weight="bold")
    write(_WIDTH - 20, 22, now, _INK, 15, weight="bold", ha="right")
    if outcome:
        had = phrase(outcome)
        write(20, 49, harm_badge(outcome).text, _HARM[outcome.severity], 11, weight="bold")
        write(145, 49, had, _INK, 10 * min(1, _LONGEST / len(had)))
    if valid:
        write(20, 73, f"{sound} · {name}", _NEUTRAL, 9)
    else:
        write(20, 48, name, _INK, 10)
        write(20, _TITLE + _REASONS / 2 - 2, verdict_text, "white", 10.5, weight="bold")
    figure.savefig(path)


def _encode(
    video: Path, drawn: Sequence[Path], graph: str, output: Path, length: float, progress: ProgressCallback
) -> None:
    folder = drawn[0].parent
    with tempfile.TemporaryFile("w+") as said, decoder("ffmpeg", [video, folder], [output]) as ready:
        command = [*ready.command, *QUIET, "-nostdin", "-y", "-progress", "pipe:1", "-stats_period", "0.25"]
        command += recording(ready.names[video])
        for path in drawn:
            command += ["-i", f"file:{ready.names[folder]}/{path.name}"]
        command += ["-filter_complex", graph, "-map", "[out]", "-an"]
        command += ["-c:v", "libx264", "-preset", "superfast", "-crf", "22"]
        command += ["-movflags", "+faststart", "-f", "mp4", ready.names[output]]
        ffmpeg = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            assert ffmpeg.stdout is not None
            for line in ffmpeg.stdout:
                key, _, value = line.strip().partition("=")
                if key == "out_time_us" and value.isdecimal() and length:
                    progress(min(int(value) / 1e6 / length, 1.0))
            failed = ffmpeg.wait()
        finally:
            ffmpeg.kill()
            ffmpeg.wait()
        if failed:
            said.seek(0)
            why = said.read().strip().splitlines()
            raise CompositeError(f"{output}: ffmpeg failed: {why[-1] if why else f'exit code {failed}'}")
    progress(1.0)
