# SPDX-License-Identifier: Apache-2.0
"""What a caller's microphone hears: a tone every 20 ms, four of which in a row name their place in the file."""

from __future__ import annotations

import hashlib
import wave
from pathlib import Path

import numpy as np

from sojourn.hardware.machine import cache
from sojourn.scoring.sound import code

_LEVEL = 0.25
"""The peak of the tones, as a share of full scale: -15 dBov as RMS, the level of a loud voice (ITU-T P.56)."""


def ensure_voice() -> Path:
    """Return the WAV file for --use-file-for-fake-audio-capture, writing it first when the cache has none."""
    recipe = hashlib.sha256(repr(_LEVEL).encode())
    for source in (__file__, code.__file__):
        recipe.update(Path(source).read_bytes())
    folder = cache.build_once(cache.root() / "voice" / recipe.hexdigest()[:16], lambda work: _write(work / "voice.wav"))
    return folder / "voice.wav"


def _write(file: Path) -> None:
    with wave.open(str(file), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(code.RATE)
        out.writeframes(np.rint(code.waveform() * _LEVEL * 32767).astype("<i2").tobytes())
