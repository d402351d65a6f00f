# SPDX-License-Identifier: Apache-2.0
"""Films of one run, or of two next to each other: title, recording, and plots with a cursor.

Titles and plots are images; ffmpeg moves the cursor over them.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sojourn.hardware.confine.decoder import decoder
from sojourn.hardware.machine.cache import ProgressCallback
from sojourn.harness.report.grids import height_text, pictures_of, queue
from sojourn.harness.report.headline import VictimOutcome, harm_badge, measurement, outcomes, phrase
from sojourn.harness.report.picture import png
from sojourn.harness.report.run_page import status_of
from sojourn.harness.report.svg import BOTTOM, LEFT, RIGHT, TOP, start, text
from sojourn.harness.report.timeline import film_plot, watched
from sojourn.scoring.picture.recording import QUIET, frame_times, input_options
from sojourn.scoring.schema import records
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.sound import code
from sojourn.scoring.sound.ear import SOUND, heard_from
from sojourn.scoring.sound.heard import Samples
from sojourn.scoring.time_series import RunSeries, run_series

FPS = 30
"""Frames/s of a film."""
TITLE = 150
"""Height in px of the title above a recording."""
LONGEST_GIF_S = 20
#: A film is at most 10 MB (with room for the container), or has this rate in bit/s if that is more.
_BYTES, _LEAST_BPS = 9_500_000, 300_000
_SOUND_BPS = 96_000
_GIF_FPS = 2
#: Few colours and no dithering: a GIF stores noise badly.
_GIF = (
    "scale='min(iw,720)':-2:flags=area,split[a][b];[a]palettegen=max_colors=80[p];"
    "[b][p]paletteuse=dither=none:diff_mode=rectangle"
)
#: Evens out a recording for a GIF, but no edges: its lettering stays readable. One stronger filter would blur it.
_EVEN = ",".join(["bilateral=sigmaS=12:sigmaR=0.15:planes=7"] * 2)
_SCALE = 1.25  # px of the film per px of its plots
_STATE = 260, 56  # width and height in px of the quality shown, at the right of the title
_CURSOR = 4  # width in px
_CHARACTER = 7.6  # px: the average width of a character of an outcome
#: What titles add to the pages' rules; the words for harm have the colours of its badges.
_STYLE = """
.plot .ground { fill: none }
.plot .queue, .plot .state { font-size: 36px; font-weight: 600; fill: var(--ink) }
.plot .state, .plot .harm { text-anchor: end }
.plot .now, .plot .harm { font-size: 22px; font-weight: 600; fill: var(--ink) }
.plot .none { fill: #116329 }
.plot .some { fill: var(--some) }
.plot .severe { fill: var(--bad) }
.plot .outcome { font-size: 15px; fill: var(--ink) }
.plot .name { font-size: 13px; fill: var(--ink) }
.plot .small { font-size: 12px }
.plot.shown .ground { fill: #fff }
.plot.unsound .ground, .plot.stalled .ground { fill: var(--bad) }
.plot.unsound text, .plot.stalled text { fill: #fff }
.plot .reason { font-size: 15px; font-weight: 600 }
"""


class RunFilmError(RuntimeError):
    """A film cannot be made; the message names the file and the problem."""


@dataclass(frozen=True)
class Layout:
    """Width in px of a run's column, and height of its plots; the recording fills the width at 16:9."""

    width: int
    plots: int

    @property
    def picture(self) -> int:
        """Height in px of the recording."""
        return self.width * 9 // 16

    @property
    def height(self) -> int:
        """Height in px of the column."""
        return TITLE + self.picture + self.plots


ONE, TWO = Layout(1280, 480), Layout(960, 390)
"""A film of one run; of two, 1920x1080."""

Times = Sequence[tuple[float, float]]
"""Spans as (start, end), s of the run."""


@dataclass(frozen=True)
class Overlay:
    """An image over a column: its drawing, left edge in px, and the times at which it is shown."""

    drawing: str
    left: int
    times: Times


@dataclass(frozen=True)
class FilmedRun:
    """A run of a film: its recording, which covers `begin` to `end` (s of the run), and what is drawn over it."""

    video: Path
    begin: float
    end: float
    view: RunSeries
    scores: Scores
    run: Path

    @classmethod
    def of_run(cls, run: Path, scores: Scores) -> Self:
        """Read a run. Raises RunFilmError without a recording that says when it began, RecordingError."""
        video, described = run / "screen.mp4", run / "screen.json"
        if not video.exists():
            raise RunFilmError(f"{video}: is missing; only a run with a recording can be shown")
        try:
            begin = float(json.loads(described.read_text())["start"]) - scores.t0
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFilmError(f"{described}: has no start time of the recording: {error}") from error
        length = (frame_times(video)[-1:] or [0.0])[0]
        return cls(video, begin, begin + length, run_series(scores, run), scores, run)

    def heard(self, first: float, last: float) -> Samples | None:
        """Return what the client of a call heard from `first` to `last` (s of the run); None without sound.

        Raises RecordingError, RecordError.
        """
        file, log = self.run / SOUND, self.run / "player.jsonl"
        if not (file.exists() and log.exists()):
            return None
        return heard_from(records.read_lines(log, records.PLAYER), file, self.scores.t0 + first, last - first)

    def overlays(self, width: int) -> list[Overlay]:
        """Return the titles of a column of this width, one at a time, and the qualities shown over them."""
        status, reasons = status_of(self.scores, None)
        had = {outcome.name: outcome for outcome in outcomes(self.scores)} if status == "valid" else {}
        phases = [
            (f"with {p.contender}" if p.contender else "alone", p.start, p.end, had.get(p.name))
            for p in self.view.phases
        ]
        spans = [
            ("before the first phase", -1e6, 0.0, None),
            *phases,
            ("after the last phase", self.view.end, 1e6, None),
        ]
        titles = [
            Overlay(self._title(width, now, status, reasons, outcome), 0, [(begin, end)])
            for now, begin, end, outcome in spans
        ]
        pictures = pictures_of(self.view.parties)
        heights = [
            (
                _state(height_text(height, pictures), "shown"),
                [(begin, end) for begin, end, it in self.view.quality if it == height],
            )
            for height in self.view.heights
        ]
        stalls = [(it.start, it.start + it.length) for it in self.view.frozen if it.kind == "stall"]
        states = [*heights, *([(_state("stalled", "stalled"), stalls)] if stalls else [])]
        left = width - _STATE[0]
        return titles + ([Overlay(drawing, left, times) for drawing, times in states] if status == "valid" else [])

    def _title(self, width: int, now: str, status: str, reasons: Sequence[str], outcome: VictimOutcome | None) -> str:
        sound, setup = measurement(status).text, watched(self.scores, self.run)
        out = [start(width, TITLE, setup, "" if status == "valid" else " unsound")]
        out.append(f'<rect class="ground" width="{width}" height="{TITLE}"/>')
        out += [text("queue", 20, 44, queue(self.scores.lab)), text("now", 20, 78, now)]
        if outcome:
            out.append(text(f"harm {outcome.severity}", width - 20, 78, harm_badge(outcome).text))
            had = phrase(outcome)
            out.append(text("outcome" if len(had) * _CHARACTER <= width - 40 else "outcome small", 20, 102, had))
        wrapped = textwrap.wrap("; ".join(reasons), int((width - 40) / 8), max_lines=1, placeholder=" …")
        out += [text("reason", 20, 102, reason) for reason in wrapped if status != "valid"]
        out += [text("name", 20, 124, setup), text("name", 20, 142, f"{sound} · {self.run.name}")]
        return "".join([*out, "</svg>"])


def _state(words: str, kind: str) -> str:
    width, height = _STATE
    ground = f'<rect class="ground" width="{width}" height="{height}"/>'
    return f"{start(width, height, words, f' {kind}')}{ground}{text('state', width - 20, 44, words)}</svg>"


def write_film(
    runs: Sequence[tuple[Path, Scores]],
    output: Path | None,
    progress: ProgressCallback,
    begin: float | None = None,
    end: float | None = None,
    gif: bool = False,
) -> Path:
    """Write the film of one run, or of two next to each other (1920x1080), and return its path.

    Both runs are shown at the same time of the run, from `begin` to `end` s after the start of the first phase; by
    default, as long as every recording lasts. The sound of a call is what its client heard; of two calls, the first is
    on the left. A GIF is silent. The default path is next to the (first) run: `<run>-film.mp4`. H.264 in
    yuv420p, 30 frames/s, at most 10 MB up to four minutes; or a GIF of at most 720 px with 2 frames/s. `progress`
    receives the share.

    Raises RunFilmError if a recording is missing, `output` exists or lies in a run, the times are not in the
    recordings, or ffmpeg fails; RecordingError or RecordError if a recording or its log cannot be read.
    """
    folders = [run.resolve() for run, _ in runs]
    name = "-vs-".join(run.name for run in folders)
    output = output or folders[0].parent / f"{name}-film.{'gif' if gif else 'mp4'}"
    if output.exists():
        raise RunFilmError(f"{output}: exists; give another -o")
    if inside := next((run for run in folders if run in output.resolve().parents), None):
        raise RunFilmError(f"{output}: inside the run {inside.name}, whose files are sealed; give an -o elsewhere")
    sides = [FilmedRun.of_run(run, scores) for run, (_, scores) in zip(folders, runs, strict=True)]
    first, last = _cut(sides, begin, end)
    if gif and last - first > LONGEST_GIF_S:
        raise RunFilmError(f"--gif: {last - first:.0f} s; choose at most {LONGEST_GIF_S} s by --from and --to")
    layout = ONE if len(sides) == 1 else TWO
    partial = output.with_name(output.name + ".partial")
    try:
        with tempfile.TemporaryDirectory() as folder:
            drawn, graph = _drawn(sides, layout, first, Path(folder), gif)
            graph += f";[film]{_GIF if gif else 'format=yuv420p'}[out]"
            sounds = [] if gif else _sounds(sides, first, last, Path(folder))
            _encode(sides, drawn, sounds, graph, partial, (first, last), gif, progress)
        if output.exists():  # created meanwhile by another one
            raise RunFilmError(f"{output}: exists; give another -o")
        partial.rename(output)
    finally:
        partial.unlink(missing_ok=True)
    return output


def _cut(sides: Sequence[FilmedRun], begin: float | None, end: float | None) -> tuple[float, float]:
    """Return the first and last time that is shown. Raises RunFilmError unless the recordings have both."""
    earliest, latest = max(side.begin for side in sides), min(side.end for side in sides)
    first, last = earliest if begin is None else begin, latest if end is None else end
    if not earliest - 1e-6 <= first < last <= latest + 1e-6:
        has = "the recording has" if len(sides) == 1 else "both recordings have"
        raise RunFilmError(f"--from {first:g} --to {last:g}: {has} {earliest:.1f} to {latest:.1f} s of the run")
    return first, last


def _drawn(sides: Sequence[FilmedRun], layout: Layout, first: float, folder: Path, gif: bool) -> tuple[list[Path], str]:
    """Write the images of a film into `folder`; return them and the filters that make `[film]` of all inputs."""
    drawn: list[Path] = []

    def add(drawing: str, scale: float = 1) -> int:
        drawn.append(folder / f"{len(drawn)}.png")
        drawn[-1].write_bytes(png(drawing, scale, _STYLE))
        return len(sides) + len(drawn) - 1

    cursor, graphs = add(_cursor(layout)), []
    size = layout.width / _SCALE, layout.plots / _SCALE
    for number, side in enumerate(sides):
        stamp = "" if side.scores.validity.valid else "INVALID"
        plots = add(film_plot(side.view, size, stamp, [it.view for it in sides]), _SCALE)
        shown = [(add(it.drawing), it) for it in side.overlays(layout.width)]
        graphs.append(column(number, plots, cursor, shown, layout, first, side.view.end, gif=gif))
    names = "".join(f"[side{number}]" for number in range(len(sides)))
    joined = f"hstack=inputs={len(sides)}" if len(sides) > 1 else "null"
    return drawn, ";".join([*graphs, f"{names}{joined}[film]"])


def column(
    number: int,
    plots: int,
    cursor: int,
    shown: Sequence[tuple[int, Overlay]],
    layout: Layout,
    first: float,
    end: float,
    *,
    gif: bool = False,
) -> str:
    """Return ffmpeg's filters for a run's column, `[sideN]`, from the inputs with these numbers.

    `first` is the time of the first frame, `end` that of the end of the plots' time axis, both in s of the run. In a
    `gif`, the recording has few frames and no noise.
    """
    now, below = f"(t+{first:.4f})", TITLE + layout.picture
    left, right = LEFT * _SCALE, layout.width - RIGHT * _SCALE
    x = f"{left:.2f}+{now}/{end:.4f}*{right - left:.2f}-{_CURSOR / 2:g}"
    fitted = f"scale={layout.width}:{layout.picture}:force_original_aspect_ratio=decrease,setsar=1"
    # A frame of a GIF shows the picture of its time: by default, it would be one up to 1/4 s later.
    rate, fitted = (f"{_GIF_FPS}:round=up", f"{fitted},{_EVEN}") if gif else (f"{FPS}", fitted)
    steps = [
        f"[{number}:v]fps={rate}:start_time=0,{fitted},pad={layout.width}:{layout.height}:(ow-iw)/2:{TITLE}[film{number}]",
        f"[film{number}][{plots}:v]overlay=0:{below}[plotted{number}]",
        f"[plotted{number}][{cursor}:v]overlay='{x}':{below + TOP * _SCALE:.0f}:enable='between({now},0,{end:.4f})'"
        f"[at{number}.0]",
    ]
    for place, (image, it) in enumerate(shown):
        # Half-open intervals, so that no frame has two titles.
        times = "+".join(f"gte({now},{begin:.4f})*lt({now},{stop:.4f})" for begin, stop in _merged(it.times))
        steps.append(f"[at{number}.{place}][{image}:v]overlay={it.left}:0:enable='{times}'[at{number}.{place + 1}]")
    return ";".join([*steps, f"[at{number}.{len(shown)}]null[side{number}]"])


def _merged(times: Times) -> list[tuple[float, float]]:
    """Return spans in order, without the gaps of less than a frame between them."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(times):
        if merged and begin - merged[-1][1] < 1 / FPS:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _cursor(layout: Layout) -> str:
    height = layout.plots - (TOP + BOTTOM) * _SCALE
    return f'{start(_CURSOR, height, "cursor")}<rect width="{_CURSOR}" height="{height:g}"/></svg>'


def _sounds(sides: Sequence[FilmedRun], first: float, last: float, folder: Path) -> list[Path]:
    """Write what the clients of calls heard into `folder`, and return the files."""
    files = []
    for number, side in enumerate(sides):
        if (sound := side.heard(first, last)) is not None:
            files.append(folder / f"{number}.s16")
            files[-1].write_bytes((sound * 32767).astype("<i2").tobytes())
    return files


def _encode(
    sides: Sequence[FilmedRun],
    drawn: Sequence[Path],
    sounds: Sequence[Path],
    graph: str,
    output: Path,
    span: tuple[float, float],
    gif: bool,
    progress: ProgressCallback,
) -> None:
    folder, (first, last) = drawn[0].parent, span
    videos = [side.video for side in sides]
    with tempfile.TemporaryFile("w+") as said, decoder("ffmpeg", [*videos, folder], [output]) as ready:
        command = [*ready.command, *QUIET, "-nostdin", "-y", "-progress", "pipe:1", "-stats_period", "0.25"]
        for side in sides:
            command += ["-ss", f"{first - side.begin:.4f}", *input_options(ready.names[side.video])]
        for path in drawn:
            command += ["-i", f"file:{ready.names[folder]}/{path.name}"]
        for path in sounds:
            command += [
                "-f",
                "s16le",
                "-ar",
                str(code.RATE),
                "-ac",
                "1",
                "-i",
                f"file:{ready.names[folder]}/{path.name}",
            ]
        heard = [f"{len(sides) + len(drawn) + number}:a" for number in range(len(sounds))]
        if len(heard) == 2:
            graph, heard = f"{graph};[{heard[0]}][{heard[1]}]join=inputs=2:channel_layout=stereo[heard]", ["[heard]"]
        command += ["-filter_complex", graph, "-map", "[out]", "-t", f"{last - first:.4f}"]
        command += [word for stream in heard for word in ("-map", stream, "-c:a", "aac", "-b:a", str(_SOUND_BPS))]
        if not gif:
            rate = max(_LEAST_BPS, int(8 * _BYTES / (last - first)) - _SOUND_BPS * len(heard))
            command += ["-c:v", "libx264", "-preset", "veryfast", "-crf", "23"]
            command += ["-maxrate", str(rate), "-bufsize", str(rate), "-movflags", "+faststart"]
        command += ["-f", "gif" if gif else "mp4", ready.names[output]]
        ffmpeg = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            assert ffmpeg.stdout is not None
            for line in ffmpeg.stdout:
                key, _, value = line.strip().partition("=")
                if key == "out_time_us" and value.isdecimal():
                    progress(min(int(value) / 1e6 / (last - first), 1.0))
            failed = ffmpeg.wait()
        finally:
            ffmpeg.kill()
            ffmpeg.wait()
        if failed:
            said.seek(0)
            why = said.read().strip().splitlines()
            raise RunFilmError(f"{output}: ffmpeg failed: {why[-1] if why else f'exit code {failed}'}")
    progress(1.0)
