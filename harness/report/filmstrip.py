# SPDX-License-Identifier: Apache-2.0
"""The telling moments of a run, and their pictures from its recording, for its page."""

from __future__ import annotations

import base64
import re
import subprocess
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from sojourn.hardware.confine.decoder import DecoderError, decoder
from sojourn.harness.report.grids import height_text, mean_of, pictures_of
from sojourn.scoring.picture.recording import QUIET, RecordingError, frame_times, input_options, picture_size
from sojourn.scoring.time_series import RunSeries

MOST = 8
"""Pictures of a strip."""
_WIDE, _POSTER_WIDE = 200, 480  # px
_QUALITY = 60
#: The least distance of two moments, in s, and as a share of the run.
_APART_S, _APART = 1.0, 0.02
_MIDDLE, _PEAK, _FREEZE, _FALL, _STALL = 0.5, 1.0, 2.0, 4.0, 6.0
_DECODE_S = 120.0
#: Where to begin to read for the frame of a time, s before it: ffmpeg drops those before where it begins.
_BEFORE_S = 2e-4
_Picture = npt.NDArray[np.uint8]
#: The parts of a page that name the recording.
_RECORDING = re.compile(
    r'<video [^>]*id="screen"[^>]*>\s*</video>(\s*<audio [^>]*></audio>)?(\s*<output [^>]*>[^<]*</output>)?'
    r'|<li><a href="screen\.mp4">.*?</li>'
)
_PICTURE = re.compile(r'"data:image/jpeg;base64,[A-Za-z0-9+/=]*"')
#: A moment of the strip in `templates/report.html.j2`.
_MOMENT = re.compile(
    r'data-phase="(?P<phase>[^"]*)"(?P<worst> class="worst")?>'
    r'<img src="(?P<data>data:image/jpeg;base64,[A-Za-z0-9+/=]+)"'
)
#: The caption of the recording's first picture there, and when the recording begins.
_CAPTION = re.compile(
    r'data-offset="(?P<offset>-?[\d.]+)".*?id="at"[^>]*>Picture: (?P<t>[\d.]+) s, (?P<what>[^<]+)<', re.DOTALL
)
#: Size in bytes up to which a page is searched for its pictures.
_LARGEST_PAGE = 4 << 20


@dataclass(frozen=True)
class Moment:
    """A moment of the run, in s; what happens; its weight: the heaviest is the worst."""

    t: float
    words: str
    weight: float


def moments(view: RunSeries) -> list[Moment]:
    """Return at most `MOST` moments of a run in order: stalls, falls of the picture, freezes, peaks of delay.

    There is at least one per phase, as far as they fit.
    """
    apart = max(_APART_S, _APART * view.end)
    found = [
        Moment(frozen.start + frozen.length / 2, f"{words} of {frozen.length:.1f} s", least + min(frozen.length, 10))
        for frozen in view.frozen
        for words, least in [("stall", _STALL) if frozen.kind == "stall" else ("freeze", _FREEZE)]
    ]
    highest = max((height for *_, height in view.quality), default=1)
    pictures = pictures_of(view.parties)
    mean = f" ({mean_of(pictures)})" if pictures > 1 else ""
    for (_, at, before), (_, _, after) in pairwise(view.quality):
        if after < before:
            fall = f"falls to {height_text(after, pictures)}{mean}"
            found.append(Moment(at + 0.5, fall, _FALL + 1 - after / highest))
    for phase in view.phases:
        delays = [
            (ms, t)
            for probe in view.rtts
            for t, ms in probe.largest
            if ms is not None and phase.start + 0.5 <= t < phase.end - 0.5
        ]
        if phase.contender and delays:
            ms, t = max(delays)
            found.append(Moment(t, f"delay {ms:.0f} ms", _PEAK + min(ms, 1e3) / 1e3))
    inside = [moment for moment in found if 0 <= moment.t < view.end]
    must = [Moment((phase.start + phase.end) / 2, "", _MIDDLE) for phase in view.phases]
    chosen: list[Moment] = []
    for phase, middle in zip(view.phases, must, strict=True):
        own = [moment for moment in inside if phase.start <= moment.t < phase.end]
        chosen.append(max(own, key=lambda moment: moment.weight, default=middle))
    chosen = sorted(chosen, key=lambda moment: -moment.weight)[:MOST]
    for moment in sorted([*inside, *must], key=lambda moment: -moment.weight):
        if len(chosen) < MOST and all(abs(moment.t - other.t) >= apart for other in chosen):
            chosen.append(moment)
    spare = [Moment(p.start + share * (p.end - p.start), "", 0) for p in view.phases for share in (0.2, 0.8)]
    while spare and len(chosen) < MOST:
        lonely = max(spare, key=lambda moment: min(abs(moment.t - other.t) for other in chosen))
        spare.remove(lonely)
        if any(abs(lonely.t - other.t) < apart for other in chosen):
            break
        chosen.append(lonely)
    return sorted(chosen, key=lambda moment: moment.t)


def pictures(video: Path, times: Sequence[float], large: int) -> list[str]:
    """Return the pictures of a recording at times in s of it, as data URLs; that with the number `large` comes twice.

    The second, last, is larger. None if the recording cannot be read here. After its end, its last picture stays.
    """
    if not times:
        return []
    try:
        recorded = frame_times(video)
        frames = _frames(video, [recorded[max(bisect_right(recorded, t) - 1, 0)] for t in times])
    except (RecordingError, DecoderError, OSError):
        return []
    return [*(_jpeg(frame, _WIDE) for frame in frames), _jpeg(frames[large], _POSTER_WIDE)]


def picture_of(page: Path, phases: Collection[str]) -> str:
    """Return a picture of one of the phases from a run's report as a data URL, the worst moment if it is there.

    Empty without one. The report is the source: the recording may be pruned, and to decode it takes seconds.
    """
    found = [match for match in _MOMENT.finditer(_text(page)) if unescape(match["phase"]) in phases]
    return max(found, key=lambda match: bool(match["worst"]))["data"] if found else ""


@dataclass(frozen=True)
class ShownMoment:
    """The worst moment of a run by its report, in s of the run, and in words; `offset` is when the recording begins."""

    t: float
    words: str
    offset: float


def worst_moment(page: Path) -> ShownMoment | None:
    """Return the worst moment of a run from its report; None without pictures."""
    match = _CAPTION.search(_text(page))
    return ShownMoment(float(match["t"]), unescape(match["what"]), float(match["offset"])) if match else None


def _text(page: Path) -> str:
    try:
        return page.read_text(errors="replace") if page.stat().st_size <= _LARGEST_PAGE else ""
    except OSError:
        return ""


def without_pictures(page: str) -> str:
    """Return a page without the data of its pictures, for which their words then stand.

    Another version of ffmpeg decodes and shrinks them otherwise, and a bundle without the recording has none.
    """
    return _PICTURE.sub('"data:,"', page)


def without_recording(page: str) -> str:
    """Return a page without its pictures, its player and its link to the recording, for a run without that file."""
    return _RECORDING.sub("", without_pictures(page))


def _frames(video: Path, times: Sequence[float]) -> list[_Picture]:
    """Decode the frame of each time, reduced to the largest width needed. Raises RecordingError, DecoderError."""
    wide, high = picture_size(video)
    high = max(round(high * _POSTER_WIDE / wide / 2) * 2, 2)
    with decoder("ffmpeg", [video]) as ready:
        command = [*ready.command, *QUIET, "-nostdin"]
        for t in times:
            command += ["-ss", f"{max(t - _BEFORE_S, 0.0):.4f}", *input_options(ready.names[video])]
        scaled = "".join(
            f"[{n}:v:0]trim=end_frame=1,scale={_POSTER_WIDE}:{high}:flags=area,setsar=1,format=bgr24[v{n}];"
            for n in range(len(times))
        )
        joined = "".join(f"[v{n}]" for n in range(len(times))) + f"concat=n={len(times)}[out]"
        command += ["-filter_complex", scaled + joined, "-map", "[out]", "-an", "-fps_mode", "passthrough"]
        command += ["-f", "rawvideo", "-pix_fmt", "bgr24", "pipe:1"]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_DECODE_S, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise RecordingError(f"recording {video} cannot be read in {_DECODE_S:g} s") from late
    size = _POSTER_WIDE * high * 3
    if done.returncode or len(done.stdout) != size * len(times):
        raise RecordingError(f"recording {video} cannot be read: it has no picture at one of {len(times)} moments")
    return list(np.frombuffer(done.stdout, np.uint8).reshape(len(times), high, _POSTER_WIDE, 3))


def _jpeg(picture: _Picture, width: int) -> str:
    high = round(picture.shape[0] * width / picture.shape[1])
    small = cv2.resize(picture, (width, high), interpolation=cv2.INTER_AREA)
    data = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])[1]
    return f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"
