# SPDX-License-Identifier: Apache-2.0
"""The test clip: encoded once into a DASH ladder, cached, and laid out as a film of many minutes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.apps.standins.film import Film, FilmError
from sojourn.apps.standins.ladder import DEFAULT, Rung
from sojourn.hardware.build_tool import started
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.errors import CodedError
from sojourn.scoring.picture import strip

FPS = 30
SEGMENT_SECONDS = 2
"""The default length of a segment, s."""
Progress = Callable[[float], None]  # share done, 0..1


class ClipError(CodedError):
    """The clip cannot be made: ffmpeg is missing or failed."""


DELIMITERS = ("<|sojourn:", ":sojourn|>")
"""What begins and ends an action in a segment that is a template (text/template of Go, in Caddy)."""

#: Rungs from here on use a fast preset: much faster to encode, and to decode while everything else runs.
_FAST = 4
#: With more, x264's rate control sees how far the other threads are, and each encoding has other bytes.
_THREADS = 1


@dataclass(frozen=True)
class Encoder:
    """The ffmpeg that encodes films."""

    command: tuple[str, ...] = ("ffmpeg",)
    version: str = ""
    """What decides its bytes; empty: not known."""


@dataclass(frozen=True)
class Clip:
    """A packaged clip: `folder` holds manifest.mpd and its segments; repeated segments are templates for Caddy."""

    folder: Path
    ladder: tuple[Rung, ...]
    frames: int  # after which the strip's frame number wraps
    fps: int
    seconds: int  # of the whole film
    rates: tuple[int, ...]  # bit/s of each rendition, measured on the packaged segments
    film: str = ""  # SHA-256 of the user's film that it was made from
    segment_s: float = SEGMENT_SECONDS  # a profile's film has its own

    @property
    def loop(self) -> int:
        """The number of segments after which the pictures repeat."""
        return int(self.frames / self.fps / self.segment_s)

    @property
    def segments(self) -> int:
        """The number of segments of the whole film."""
        return int(self.seconds / self.segment_s)

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.mpd"


def ensure_clip(
    progress: Progress | None = None,
    seconds: int = 60,
    ladder: Sequence[Rung] = DEFAULT,
    film_seconds: int = 660,
    own: Film | None = None,
    encoder: Encoder = Encoder(),
    segment_s: float = SEGMENT_SECONDS,
) -> Clip:
    """Return the packaged clip, encoding it first if it is not in the cache (1 min on two cores, 3 up to 2160p).

    Its pictures are those of `own`, if given, for as long as that film lasts. The same pictures, ladder, `encoder`
    and `segment_s` give the same bytes.

    `seconds` of pictures (a multiple of `segment_s`) are repeated to a film of at least `film_seconds`. The cache takes
    0.7 MB per second of pictures, 4 MB up to 2160p, and 16 KB per segment of the film.
    Raises ClipError if ffmpeg is missing or fails, ValueError for lengths that do not fit.
    """
    try:
        seconds = own.seconds if own else seconds
        return _ensured(progress or (lambda share: None), seconds, tuple(ladder), film_seconds, own, encoder, segment_s)
    except FilmError as wrong:
        raise ClipError(str(wrong), code=wrong.code) from wrong


def _ensured(
    progress: Progress,
    seconds: int,
    ladder: tuple[Rung, ...],
    film_seconds: int,
    own: Film | None,
    encoder: Encoder,
    segment_s: float,
) -> Clip:
    if seconds <= 0 or seconds % segment_s:
        raise ValueError(f"clip seconds={seconds} is invalid; give a positive multiple of {segment_s:g}")
    strips = [_strip(index, seconds * FPS) for index in range(len(ladder))]
    from sojourn.apps.standins import scenes  # with OpenCV, which loads slowly

    size = (ladder[-1].width, ladder[-1].height) if own else (scenes.WIDTH, scenes.HEIGHT)
    recipe = hashlib.sha256(repr((_options(Path(), ladder, size, segment_s), strips, encoder.version)).encode())
    recipe.update(own.digest.encode() if own else Path(scenes.__file__).read_bytes())
    base = cache.root() / "clip" / recipe.hexdigest()[:16]

    def encode(work: Path) -> None:
        command = [*encoder.command, *_options(work, ladder, size, segment_s)]
        _encode(command, work, _pictures(seconds, size, own), strips, progress)

    cache.build_once(base, encode)
    loops = max(1, -(-film_seconds // seconds))
    film = base.with_name(f"{base.name}-x{loops}-templates")
    cache.build_once(film, lambda work: _lengthen(base, work, seconds, loops, len(ladder), int(seconds / segment_s)))
    rates = tuple(_rate(base / str(index), seconds) for index in range(len(ladder)))
    return Clip(film, ladder, seconds * FPS, FPS, seconds * loops, rates, own.digest if own else "", segment_s)


def _pictures(seconds: int, size: tuple[int, int], own: Film | None) -> Iterator[Any]:
    """Raw yuv420p pictures, one per frame of the clip."""
    if own:
        return own.pictures(*size, FPS)
    import cv2

    from sojourn.apps.standins import scenes

    return (cv2.cvtColor(frame, cv2.COLOR_RGB2YUV_I420).data for frame in scenes.frames(seconds, FPS))


def _options(
    folder: Path, ladder: Sequence[Rung], size: tuple[int, int], segment_s: float = SEGMENT_SECONDS
) -> list[str]:
    """Options of the ffmpeg that scales, adds the strips, encodes all rungs and cuts them into DASH segments."""
    inputs = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{size[0]}x{size[1]}"]
    inputs += ["-r", f"{FPS}", "-i", "pipe:0"]
    graph = [f"[0:v]split={len(ladder)}" + "".join(f"[in{i}]" for i in range(len(ladder)))]
    coding: list[str] = []
    for i, rung in enumerate(ladder):
        inputs += ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{strip.CELLS}x2", "-r", f"{FPS}"]
        inputs += ["-i", str(folder / f"strip{i}.yuv")]
        box = strip.Box.bottom(rung.width, rung.height)
        graph.append(
            f"[in{i}]scale={rung.width}:{rung.height}:flags=area,crop={rung.width}:{box.y}:0:0[top{i}];"
            f"[{i + 1}:v]scale={rung.width}:{box.height}:flags=neighbor[strip{i}];"
            f"[top{i}][strip{i}]vstack,setdar=16/9[out{i}]"
        )
        coding += ["-map", f"[out{i}]", f"-b:v:{i}", f"{rung.bps}"]
        coding += [f"-maxrate:v:{i}", f"{rung.bps * 5 // 4}", f"-bufsize:v:{i}", f"{rung.bps * 2}"]
        coding += [f"-preset:v:{i}", "veryfast" if i < _FAST else "ultrafast"]
        coding += [f"-threads:v:{i}", f"{_THREADS}"]
    gop = str(round(FPS * segment_s))
    coding += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-g", gop, "-keyint_min", gop]
    coding += ["-sc_threshold", "0", "-color_range", "tv", "-colorspace", "smpte170m"]
    coding += ["-color_trc", "smpte170m", "-color_primaries", "smpte170m"]
    dash = ["-f", "dash", "-seg_duration", f"{segment_s:g}", "-use_template", "1", "-use_timeline", "0"]
    dash += ["-adaptation_sets", "id=0,streams=v", "-init_seg_name", "$RepresentationID$/init.mp4"]
    dash += ["-media_seg_name", "$RepresentationID$/$Number$.m4s", str(folder / "manifest.mpd")]
    start = ["-hide_banner", "-nostdin", "-loglevel", "error", "-y"]
    return [*start, *inputs, "-filter_complex", ";".join(graph), *coding, *dash]


def _strip(rendition: int, frames: int) -> bytes:
    """The strips of all frames as raw yuv420p pictures of 40x2 px."""
    import numpy as np

    cells = np.array([strip.pattern(number, rendition) for number in range(frames)])
    luma = np.where(cells, strip.WHITE, strip.BLACK).astype(np.uint8)
    chroma = np.full_like(luma, 128)  # two planes of 20x1
    return np.hstack([luma, luma, chroma]).tobytes()


def _encode(command: list[str], folder: Path, pictures: Iterator[Any], strips: list[bytes], progress: Progress) -> None:
    frames = len(strips[0]) // (strip.CELLS * 3)
    for i, cells in enumerate(strips):
        (folder / str(i)).mkdir()
        (folder / f"strip{i}.yuv").write_bytes(cells)
    log = folder / "ffmpeg.log"
    with open(log, "wb") as errors:
        if not shutil.which(command[0]):
            raise ClipError(
                "ffmpeg is missing, which encodes the test clip (apt install ffmpeg)", code="missing-program"
            )
        with started(command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, text=False) as ffmpeg:
            assert ffmpeg.stdin
            try:
                for number, picture in enumerate(pictures):
                    ffmpeg.stdin.write(picture)
                    progress((number + 1) / frames)
                ffmpeg.stdin.close()
                status = ffmpeg.wait()
            except BrokenPipeError:
                status = ffmpeg.wait() or 1
    if status:
        reason = log.read_text(errors="replace").strip().splitlines() or [f"exit code {status}"]
        raise ClipError(f"ffmpeg could not encode the test clip: {reason[-1]}")
    for leftover in (log, *folder.glob("strip*.yuv")):
        leftover.unlink()


def _rate(folder: Path, seconds: int) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.m4s")) * 8 // seconds


def _lengthen(base: Path, film: Path, seconds: int, loops: int, renditions: int, count: int) -> None:
    """Repeat the `count` segments within one period: the copies differ only in number and decode time.

    Real segments rather than a multi-period manifest, so that a player sees an ordinary film: no period
    change resets its buffer or its ABR. The pictures are stored once: a repeated segment is a template with its own
    head, into which the origin puts the rest of the original.
    """
    for rendition in range(renditions):
        source, target = base / str(rendition), film / str(rendition)
        target.mkdir()
        os.link(source / "init.mp4", target / "init.mp4")
        ticks = seconds * timescale((source / "init.mp4").read_bytes())
        for number in range(1, count + 1):
            os.link(source / f"{number}.m4s", target / f"{number}.m4s")
            segment = (source / f"{number}.m4s").read_bytes()
            if DELIMITERS[0].encode() in segment:
                raise ClipError(f"segment {number} of rendition {rendition} contains {DELIMITERS[0]}", code="damaged")
            for loop in range(1, loops):
                copy = shift(segment, loop * ticks, loop * count)
                head = copy.index(b"mdat")
                rest = f'{DELIMITERS[0]}substr {head} -1 (include "/{rendition}/{number}.m4s"){DELIMITERS[1]}'
                (target / f"{number + loop * count}.m4s").write_bytes(copy[:head] + rest.encode())
    length = f'mediaPresentationDuration="PT{seconds * loops}S"'
    text = re.sub(r'mediaPresentationDuration="[^"]*"', length, (base / "manifest.mpd").read_text())
    (film / "manifest.mpd").write_text(re.sub(r'(<Period [^>]*?) duration="[^"]*"', r"\1", text))
    cache.normalise_mtimes(film)


def timescale(init: bytes) -> int:
    """Return the ticks per second of an initialisation segment's track (ISO/IEC 14496-12, 8.4.2)."""
    at = init.index(b"mdhd") + 4
    return int.from_bytes(init[at + 20 : at + 24] if init[at] else init[at + 12 : at + 16], "big")


def shift(segment: bytes, ticks: int, numbers: int) -> bytes:
    """Shift a media segment by `ticks` of its timescale in time and by `numbers` in sequence.

    Changes the times in sidx and tfdt and the number in mfhd (ISO/IEC 14496-12, 8.16.3, 8.8.12, 8.8.5).
    Raises ValueError if the segment has no tfdt.
    """
    data = bytearray(segment)

    def add(at: int, size: int, amount: int) -> None:
        data[at : at + size] = (int.from_bytes(data[at : at + size], "big") + amount).to_bytes(size, "big")

    head = data.index(b"mdat")  # boxes come before the pictures
    add(data.index(b"mfhd", 0, head) + 8, 4, numbers)
    tfdt = data.index(b"tfdt", 0, head) + 4
    add(tfdt + 4, 8 if data[tfdt] else 4, ticks)
    at = data.find(b"sidx", 0, head) + 4
    if at >= 4:
        add(at + 12, 8 if data[at] else 4, ticks)
    return bytes(data)
