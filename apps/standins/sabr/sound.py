# SPDX-License-Identifier: Apache-2.0
"""The sound of the SABR stand-in's film: noise, encoded once to AAC, in segments that repeat without a gap."""

from __future__ import annotations

from pathlib import Path

from sojourn.apps.standins.clip import ClipError, Encoder
from sojourn.hardware.build_tool import ended
from sojourn.hardware.machine import cache

RATE_BPS = 128_000
MIME = 'audio/mp4; codecs="mp4a.40.2"'
_HERTZ, _SAMPLES = 48_000, 1024  # of AAC
_FRAMES, _SEGMENTS = 200, 15
SEGMENT_S = _FRAMES * _SAMPLES / _HERTZ
"""A whole number of AAC's frames, so that each segment begins when the last one ends; about 4.27 s."""
LOOP = _SEGMENTS
"""Segments until the sound repeats."""


def ensure_sound(encoder: Encoder) -> Path:
    """Return the folder of the sound's segments, encoding it first if it is not in the cache. Raises ClipError."""
    options = _options(Path())
    recipe = cache.digest([("options", repr(options).encode()), ("encoder", encoder.version.encode())])

    def encode(folder: Path) -> None:
        done = ended([*encoder.command, *_options(folder)])
        if done.returncode:
            raise ClipError(f"ffmpeg could not encode the sound: {done.stderr.strip().splitlines()[-1:]}")
        (folder / "manifest.mpd").unlink()
        for number in range(1, _SEGMENTS + 1):
            if not (folder / f"{number}.m4s").is_file():
                raise ClipError(f"ffmpeg made no segment {number} of the sound")
        (folder / f"{_SEGMENTS + 1}.m4s").unlink(missing_ok=True)  # what the encoder's delay leaves
        cache.normalise_mtimes(folder)

    return cache.build_once(cache.root() / "clip" / f"sound-{recipe[:16]}", encode)


def _options(folder: Path) -> list[str]:
    # Without instructions that only some processors have, for the encoder computes in floating point.
    start = ["-cpuflags", "0", "-hide_banner", "-nostdin", "-loglevel", "error", "-y"]
    seconds = f"{_SEGMENTS * SEGMENT_S:.6f}"
    noise = f"anoisesrc=sample_rate={_HERTZ}:amplitude=0.1:color=pink:seed=1:duration={seconds}"
    # A moment less than a segment's length: a segment ends with the first frame from a multiple of it on.
    dash = ["-f", "dash", "-seg_duration", f"{SEGMENT_S - 1e-6:.6f}", "-use_template", "1", "-use_timeline", "0"]
    dash += ["-init_seg_name", "init.mp4", "-media_seg_name", "$Number$.m4s", str(folder / "manifest.mpd")]
    return [
        *start, "-f", "lavfi", "-i", noise, "-c:a", "aac", "-b:a", str(RATE_BPS), "-threads", "1",
        "-fflags", "+bitexact", "-flags:a", "+bitexact", *dash,
    ]  # fmt: skip
