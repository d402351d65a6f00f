# SPDX-License-Identifier: Apache-2.0
"""The speaker's sound: a tone every 20 ms, none like its predecessor; each four in a row occur once in the loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

RATE = 48_000
"""Samples per second, those of Opus."""
SLOT = 960
"""Samples of a tone: 20 ms, the length of an Opus packet."""
TONES_HZ = tuple(range(600, 3401, 350))
"""Within the telephone band, and multiples of 50 Hz: every slot has whole periods, so the sound has no clicks."""
ORDER = 4
"""Tones in a row that name a place."""
SLOTS = len(TONES_HZ) * (len(TONES_HZ) - 1) ** (ORDER - 1)
"""Of a loop, 92.16 s: 2^15 x 135 samples, a multiple of every size that a sound device's buffer has."""
LOOP_S = SLOTS * SLOT / RATE


@cache
def tones() -> NDArray[np.int64]:
    """Return the index of every slot's tone: an Eulerian circuit over the words of `ORDER` tones (Hierholzer, 1873)."""
    count = len(TONES_HZ)
    rng = np.random.default_rng(20)
    left: dict[tuple[int, ...], list[int]] = {}
    path, circuit = [tuple(i % 2 for i in range(ORDER - 1))], list[int]()
    while path:
        word = path[-1]
        if word not in left:
            left[word] = [int(tone) for tone in rng.permutation(count) if tone != word[-1]]
        if left[word]:
            path.append((*word[1:], left[word].pop()))
        else:
            circuit.append(path.pop()[-1])
    return np.array(circuit[:0:-1])


@cache
def waveform() -> NDArray[np.float32]:
    """Return the loop's samples, between -1 and 1."""
    return _oscillation(np.sin)


@cache
def quadrature() -> NDArray[np.float32]:
    """Return the loop's samples a quarter of each tone's period earlier."""
    return _oscillation(np.cos)


def _oscillation(wave: Callable[..., NDArray[np.float64]]) -> NDArray[np.float32]:
    slots = wave(2 * np.pi * np.outer(TONES_HZ, np.arange(SLOT) / RATE)).astype(np.float32)
    return slots[tones()].ravel()
