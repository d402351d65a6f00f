# SPDX-License-Identifier: Apache-2.0
"""The sound that an end of a call heard, packed without loss once the call is over."""

from __future__ import annotations

from pathlib import Path

from sojourn.captures.player import SOUND_PCM
from sojourn.hardware.machine.place import LOCAL

SOUND = "sound.flac"
"""The sound that an end of a call heard, from the first sample of its tap on."""
RATE = 48_000
"""Samples per second: WebRTC decodes Opus at this rate."""


def pack_sound(folder: Path) -> None:
    """Replace the samples in `folder` by a FLAC file, if there are any. Raises CommandError."""
    raw = folder / SOUND_PCM
    if not raw.exists():
        return
    samples = ["-f", "s16le", "-ar", str(RATE), "-ac", "1", "-i", str(raw)]
    # One thread, and no version of the encoder in the file: the same samples give the same bytes.
    flac = ["-threads", "1", "-c:a", "flac", "-bitexact", "-map_metadata", "-1", str(folder / SOUND)]
    LOCAL.run(["ffmpeg", "-v", "error", "-nostdin", "-y", *samples, *flac])
    raw.unlink()
