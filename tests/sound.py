# SPDX-License-Identifier: Apache-2.0
"""The sound of a call as its pages tap it, made from the speaker's tones."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.scoring.sound import code
from sojourn.scoring.sound.heard import Samples

RATE = 44_100  # of the speaker's microphone


def spoken(seconds: float, start_s: float = 0.0) -> Samples:
    """Return `seconds` of the speaker's sound from a place of the loop on."""
    first, count = round(start_s * code.RATE), round(seconds * code.RATE)
    loop = code.waveform() * np.float32(0.25)
    return np.resize(np.roll(loop, -first), count)


def write_flac(sound: Samples, file: Path) -> None:
    """Write samples as a page's tap and captures/sound.py would."""
    raw = (sound * 32767).astype("<i2").tobytes()
    samples = ["-f", "s16le", "-ar", str(code.RATE), "-ac", "1", "-i", "-"]
    subprocess.run(["ffmpeg", "-v", "error", "-y", *samples, "-c:a", "flac", str(file)], input=raw, check=True)


def mouth_line(t: float, start_s: float = 0.0, clock_us: float = 5e6) -> dict[str, Any]:
    """Return a microphone's line of player.jsonl: it speaks from place `start_s` of the loop at `t` (Unix s) on."""
    once = spoken(0.2, start_s)
    at = np.arange(0, 0.13 * RATE, 4) / RATE * code.RATE  # every fourth sample
    excerpt = np.interp(at, np.arange(len(once)), once * 32767).astype(int).tolist()
    detail = {"rate": RATE, "count": RATE, "marks": [[0, clock_us, t * 1e3]], "excerpts": [[0, excerpt]]}
    return {"t": t + 1, "event": "spoken", "detail": detail}


def ear_line(t: float, index: int = 0, clock_us: float = 9e6) -> dict[str, Any]:
    """Return the line of player.jsonl of an ear that hears sample `index` at `t` (Unix s)."""
    detail = {"rate": code.RATE, "count": index + code.RATE, "marks": [[index, clock_us, t * 1e3]]}
    return {"t": t + 1, "event": "heard", "detail": detail}
