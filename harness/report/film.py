# SPDX-License-Identifier: Apache-2.0
"""A run as one film: its options and validity, the recording, and its plots with a cursor.

Plots and titles are images; ffmpeg moves the cursor over them.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from sojourn.hardware.confine.decoder import decoder
from sojourn.harness.report.headline import VictimOutcome, harm_badge, measurement, outcomes, phrase
from sojourn.harness.report.picture import png
from sojourn.harness.report.run_page import status_of
from sojourn.harness.report.svg import BOTTOM, LEFT, RIGHT, TOP, start, text
from sojourn.harness.report.timeline import film_plot, watched
from sojourn.harness.terminal import ProgressCallback
from sojourn.scoring.picture.recording import QUIET, frame_times, input_options
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import RunSeries, run_series

_WIDTH, _PLOTS = 1280, 480
_SCALE = 1.25  # px of the film per px of its plots
_TITLE, _RUN, _REASONS = 64, 24, 44  # heights in px: the title; below it the run's name or the reasons
_CURSOR = 4  # width in px
#: The cursor's left end, right end, top and bottom within the plots.
_AXES = LEFT * _SCALE, _WIDTH - RIGHT * _SCALE, TOP * _SCALE, _PLOTS - BOTTOM * _SCALE
#: What titles add to the pages' rules; the words for harm have the colours of its badges.
_STYLE = """
.plot .ground { fill: none }
.plot .setup, .plot .now { font-size: 21px; font-weight: 600; fill: var(--ink) }
.plot .now { text-anchor: end }
.plot .harm { font-size: 15px; font-weight: 600 }
.plot .none { fill: #116329 }
.plot .some { fill: var(--some) }
.plot .severe { fill: var(--bad) }
.plot .outcome, .plot .name { font-size: 14px; fill: var(--ink) }
.plot .small { font-size: 12.5px }
.plot.unsound .ground { fill: var(--bad) }
.plot.unsound text { fill: #fff }
.plot .reason { font-size: 14.5px; font-weight: 600 }
"""
#: Characters of an outcome that fit into a title at full size; longer ones get a smaller font.
_LONGEST = 165


class CompositeError(RuntimeError):
    """A film cannot be made; the message names the file and the problem."""


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
            drawn: list[Path] = []

            def add(drawing: str, scale: float = 1) -> None:
                drawn.append(Path(folder) / f"{len(drawn)}.png")
                drawn[-1].write_bytes(png(drawing, scale, _STYLE))

            size = _WIDTH / _SCALE, _PLOTS / _SCALE
            add(film_plot(view, size, "" if status == "valid" else "INVALID"), _SCALE)
            add(_cursor())
            had = outcomes(scores) if status == "valid" else []
            titles = draw_titles(view, watched(scores, run), run.name, (status, reasons), had)
            for drawing, *_ in titles:
                add(drawing)
            spans = [(begin, end) for _, begin, end in titles]
            graph = filters(spans, offset, view.end, fps, _title_height(status))
            _encode(video, drawn, graph, partial, length[0], progress)
        if output.exists():  # created meanwhile by another export
            raise CompositeError(f"{output}: exists; give another -o")
        partial.rename(output)
    finally:
        partial.unlink(missing_ok=True)
    return output


def filters(titles: Sequence[tuple[float, float]], offset: float, end: float, fps: int, title_height: int) -> str:
    """Return ffmpeg's filters. Inputs: recording, plots, cursor, then one title for every (start, end) in s of the run.

    `offset` is the recording's first frame, `end` the end of the time axis, both in the run's time.
    """
    now, below = f"(t+{offset:.4f})", f"main_h-{_PLOTS}"
    left, right, top, _ = _AXES
    x = f"{left:.2f}+{now}/{end:.4f}*{right - left:.2f}-{_CURSOR / 2:g}"
    steps = [
        f"[0:v]fps={fps},scale={_WIDTH}:-2,setsar=1,pad=iw:ih+{title_height + _PLOTS}:0:{title_height}[film]",
        f"[film][1:v]overlay=0:{below}[plotted]",
        f"[plotted][2:v]overlay='{x}':{below}+{top:.0f}:enable='between({now},0,{end:.4f})'[at0]",
    ]
    for number, (begin, stop) in enumerate(titles):
        # Half-open intervals, so that no frame has two titles.
        shown = f"gte({now},{begin:.4f})*lt({now},{stop:.4f})"
        steps.append(f"[at{number}][{number + 3}:v]overlay=0:0:enable='{shown}'[at{number + 1}]")
    return ";".join([*steps, f"[at{len(titles)}]format=yuv420p[out]"])


def draw_titles(
    view: RunSeries, setup: str, name: str, verdict: tuple[str, list[str]], had: Sequence[VictimOutcome]
) -> list[tuple[str, float, float]]:
    """Return one title per phase, one before and one after all: its SVG, start and end in s of the run.

    `had` is the viewer's outcome in every contender phase; empty for an invalid run.
    """
    of_phase = {outcome.name: outcome for outcome in had}
    phases = [
        (f"with {p.contender}" if p.contender else "alone", p.start, p.end, of_phase.get(p.name)) for p in view.phases
    ]
    spans = [("before the first phase", -1e6, 0.0, None), *phases, ("after the last phase", view.end, 1e6, None)]
    return [(_title(setup, now, *verdict, name, outcome), begin, end) for now, begin, end, outcome in spans]


def _title_height(status: str) -> int:
    return _TITLE + (_RUN if status == "valid" else _REASONS)


def _title(setup: str, now: str, status: str, reasons: Sequence[str], name: str, outcome: VictimOutcome | None) -> str:
    height, sound = _title_height(status), measurement(status).text
    out = [start(_WIDTH, height, setup, "" if status == "valid" else " unsound")]
    out.append(f'<rect class="ground" width="{_WIDTH}" height="{height}"/>')
    out += [text("setup", 20, 29, setup), text("now", _WIDTH - 20, 29, now)]
    if outcome:
        out.append(text(f"harm {outcome.severity}", 20, 54, harm_badge(outcome).text))
        had = phrase(outcome)
        out.append(text("outcome" if len(had) <= _LONGEST else "outcome small", 145, 54, had))
    if status == "valid":
        out.append(text("small", 20, 77, f"{sound} · {name}"))
    else:
        wrapped = textwrap.wrap(f"{sound}: {'; '.join(reasons)}", 150, max_lines=2, placeholder=" …")
        out.append(text("name", 20, 53, name))
        out += [text("reason", 20, 75 + 18 * n + 9 * (len(wrapped) == 1), part) for n, part in enumerate(wrapped)]
    return "".join([*out, "</svg>"])


def _cursor() -> str:
    height = _AXES[3] - _AXES[2]
    return f'{start(_CURSOR, height, "cursor")}<rect width="{_CURSOR}" height="{height:g}"/></svg>'


def _encode(
    video: Path, drawn: Sequence[Path], graph: str, output: Path, length: float, progress: ProgressCallback
) -> None:
    folder = drawn[0].parent
    with tempfile.TemporaryFile("w+") as said, decoder("ffmpeg", [video, folder], [output]) as ready:
        command = [*ready.command, *QUIET, "-nostdin", "-y", "-progress", "pipe:1", "-stats_period", "0.25"]
        command += input_options(ready.names[video])
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
