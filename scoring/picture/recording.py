# SPDX-License-Identifier: Apache-2.0
"""Read a screen recording with ffmpeg: the times of its frames, its size, and its pictures."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sojourn.hardware.confine.decoder import decoder

_ADDRESS = re.compile(" @ 0x[0-9a-f]+")  # ffmpeg prints memory addresses, which vary
#: Of a recording, and of its frames as ffprobe lists them (a day at 60 a second).
_LARGEST, _LONGEST_LISTING = (7680, 4320), 128 << 20
_SAID_BYTES = 4096
QUIET = ("-v", "error")
"""Options of ffmpeg and ffprobe: print only errors."""


class RecordingError(RuntimeError):
    """A recording that ffmpeg cannot read; the message has the file and ffmpeg's output."""


def frame_times(video: Path) -> list[float]:
    """Return the presentation times of all frames in seconds, in order, without decoding. Raises RecordingError."""
    return [t for t, _ in frame_list(video)]


def frame_list(video: Path) -> list[tuple[float, bool]]:
    """Return presentation time in seconds of every frame, and whether it is a key frame, in order, without decoding.

    Raises RecordingError.
    """
    out = _run(["-select_streams", "v:0", "-show_entries", "packet=pts_time,flags"], video)
    lines = (line.split(",") for line in out.split())
    try:
        return sorted((float(t), "K" in flags) for t, flags, *_ in lines)
    except ValueError as error:  # N/A
        raise RecordingError(f"recording {video} cannot be read: it has frames without a time") from error


def picture_size(video: Path) -> tuple[int, int]:
    """Width and height of a recording in px. Raises RecordingError."""
    out = _run(["-select_streams", "v:0", "-show_entries", "stream=width,height"], video)
    width, height = (int(side) if side.isdecimal() else 0 for side in out.strip().split(",")[:2])
    if not (0 < width <= _LARGEST[0] and 0 < height <= _LARGEST[1]):
        most = "x".join(map(str, _LARGEST))
        raise RecordingError(f"recording {video} cannot be read: pictures of {width}x{height} px, at most {most} are")
    return width, height


def input_options(video: str) -> list[str]:
    """Return ffmpeg's or ffprobe's options up to `-i` that accept only the format of Sojourn's recorders.

    By default, ffmpeg detects the format from the content: a playlist would make it open other files and addresses.
    """
    kind = ["matroska"] if video.endswith(".mkv") else ["mov", "-enable_drefs", "0", "-use_absolute_path", "0"]
    only = ["-protocol_whitelist", "file", "-codec_whitelist", "h264"]
    return ["-f", *kind, *only, "-i", f"file:{video}"]


def _run(arguments: list[str], video: Path) -> str:
    with tempfile.TemporaryFile() as said, decoder("ffprobe", [video]) as ready:
        probe = [*ready.command, *QUIET, *arguments, "-of", "csv=p=0", *input_options(ready.names[video])]
        with subprocess.Popen(probe, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as ffprobe:
            assert ffprobe.stdout
            out = ffprobe.stdout.read(_LONGEST_LISTING + 1)
            if len(out) > _LONGEST_LISTING:
                ffprobe.kill()
                raise RecordingError(f"recording {video} cannot be read: it has more frames than a run")
        if ffprobe.returncode or not out.strip():
            said.seek(0)
            why = _ADDRESS.sub("", said.read(_SAID_BYTES).decode(errors="replace").strip())
            raise RecordingError(f"recording {video} cannot be read: {why or 'no video in it'}")
    return out.decode(errors="replace")


def decode(video: Path, filters: str, width: int, height: int, *before: str) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield grey pictures (rows, columns) of a recording after ffmpeg's `filters`; `before`: options for its input."""
    with decoder("ffmpeg", [video]) as ready:
        command = [
            *ready.command,
            *QUIET,
            "-nostdin",
            *before,
            *input_options(ready.names[video]),
            "-map",
            "0:v:0",
            "-an",
        ]
        command += ["-vf", filters, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "gray", "pipe:1"]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as ffmpeg:
            assert ffmpeg.stdout is not None
            size = width * height
            try:
                while len(raw := ffmpeg.stdout.read(size)) == size:
                    yield np.frombuffer(raw, np.uint8).reshape(height, width)
            finally:
                ffmpeg.kill()
