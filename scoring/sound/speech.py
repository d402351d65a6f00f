# SPDX-License-Identifier: Apache-2.0
"""The speech of a call: when each of its segments was spoken, and which of the listener's samples are that segment.

A segment is two sentences of one voice, as ITU-T P.800 has them, with pauses before, between and after. Correlation
with what was spoken finds the segment at the listener, part by part: a receiver stretches speech, cuts it short and
conceals losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.scoring.sound import code
from sojourn.scoring.sound.ear import UNDER_WAY_S, excerpts

Samples = NDArray[np.float32]

SEGMENTS = 16
SEGMENT: int = code.SLOTS * code.SLOT // SEGMENTS
"""Samples of a segment at `code.RATE`: 5.76 s. Their loop is as long as that of the tones."""
SEGMENT_S = SEGMENT / code.RATE
RATE = 16_000
"""Samples per second of wideband speech, at which it is found and judged."""
EXCERPT_THINNED = 16
"""An excerpt of the microphone has every 16th sample (captures/speech.js)."""
LATEST_S = 10.0
"""The longest delay at which a segment is found."""
_PART = round(0.48 * RATE)
#: The correlation with which a part is found. Through Opus at 32 kbit/s, it is 0.93 and more, and 0.90 at 12 kbit/s;
#: at most 0.83 with other parts of the speech, which has the same sounds again and again.
_FOUND = 0.85
_LEAST_PARTS = 2
#: A part is compared if it has this share of the segment's level as RMS.
_AUDIBLE = 0.3
#: Parts of a segment whose delays differ by more from the median are chance, s.
_APART_S = 1.5
#: The quietest sound, as RMS of full scale: below it, there is nothing to compare.
_QUIET = 0.0005
#: The correlation with which an excerpt of the microphone has a place, which is exact.
_PLACED = 0.95


class Spoken(NamedTuple):
    """A segment that was spoken: when (Unix s), which of SEGMENTS, and from when to when it is not silent."""

    t: float
    number: int
    begins: float
    ends: float


class Heard(NamedTuple):
    """A segment that was heard: its delay (s, the median over its parts), and the listener's samples at `RATE`."""

    delay: float
    samples: Samples


def wideband(samples: Samples) -> Samples:
    """Return samples of `code.RATE` at `RATE`."""
    from scipy.signal import resample_poly  # type: ignore[import-untyped]  # slow to import

    return np.asarray(resample_poly(samples, 1, code.RATE // RATE), np.float32)


def anchors(lines: Sequence[Mapping[str, Any]], loop: Samples) -> list[tuple[float, float]]:
    """Return, for every excerpt of a microphone that has a place, its time and when the loop had begun for it (Unix s).

    `lines` are those of the speaker's player.jsonl, `loop` has the samples of the loop at `code.RATE`.
    """
    found = excerpts(lines)
    spoken = {rate: _at_rate(loop, rate) for rate in {it.rate for it in found}}
    places = [(it, _place(it.samples, spoken[it.rate])) for it in found]
    return [(it.t, it.t - place / it.rate) for it, place in places if place is not None]


def spoken(begun: Sequence[tuple[float, float]], loop: Samples, start: float, end: float) -> Iterator[Spoken]:
    """Yield the segments that are spoken from `start` to `end` (Unix s), in order, by the `anchors` of the speaker."""
    speech = [_audible(loop[number * SEGMENT : (number + 1) * SEGMENT]) for number in range(SEGMENTS)]
    at = np.array([t for t, _ in begun])
    count = int((start - begun[0][1]) // SEGMENT_S)
    while (t := begun[0][1] + count * SEGMENT_S) < end:
        origin = begun[max(int(np.searchsorted(at, t, "right")) - 1, 0)][1]
        t = origin + round((t - origin) / SEGMENT_S) * SEGMENT_S
        first, last = speech[number := round((t - origin) / SEGMENT_S) % SEGMENTS]
        segment = Spoken(t, number, t + first / code.RATE, t + last / code.RATE)
        if start <= segment.begins and segment.ends <= end:
            yield segment
        count += 1


def find(segment: Samples, heard: Samples) -> Heard | None:
    """Return a segment at the listener; None if it was not heard: a single part may be chance. Both have `RATE`.

    `heard` begins when the segment began to be spoken, and ends LATEST_S after its end.
    """
    level = _rms(segment)
    delays: list[int] = []
    for begins in range(0, len(segment) - _PART + 1, _PART):
        part = segment[begins : begins + _PART]
        if _rms(part) < _AUDIBLE * level or len(heard) < begins + _PART:
            continue
        likeness = correlation(part, heard[begins:])
        if likeness[best := int(likeness.argmax())] >= _FOUND:
            delays.append(best)
    middle = float(np.median(delays)) if delays else 0.0
    near = [delay for delay in delays if abs(delay - middle) <= _APART_S * RATE]
    if len(near) < _LEAST_PARTS:
        return None
    # From its begin, as late as its first part, to its end, as late as its last one.
    return Heard(float(np.median(near)) / RATE, heard[near[0] : len(segment) + near[-1]])


def is_judged(segment: Spoken, end: float) -> bool:
    """Whether a segment may have been heard whole in sound that ends at `end` (Unix s)."""
    return segment.ends + UNDER_WAY_S <= end


def correlation(part: Samples, whole: Samples) -> NDArray[np.float64]:
    """Return the normalised correlation of `part` with each stretch of `whole` of its length, -1 to 1."""
    from scipy.signal import correlate

    product = correlate(whole.astype(np.float64), part.astype(np.float64), "valid", "fft")
    summed = np.concatenate([[0.0], np.cumsum(np.square(whole, dtype=np.float64))])
    energy = np.maximum(summed[len(part) :] - summed[: -len(part)], len(part) * _QUIET**2)
    return np.asarray(product / np.sqrt(energy * float(np.square(part, dtype=np.float64).sum())), np.float64)


def _place(excerpt: Samples, loop: Samples) -> int | None:
    """Return the place of a thinned excerpt in the loop, in samples, both of one rate; None if it has none."""
    if _rms(excerpt) < _QUIET:
        return None
    endless = np.concatenate([loop, loop[: len(excerpt) * EXCERPT_THINNED]])
    alike = [correlation(excerpt, endless[phase::EXCERPT_THINNED]) for phase in range(EXCERPT_THINNED)]
    phase = int(np.argmax([it.max() for it in alike]))
    best = int(alike[phase].argmax())
    return (best * EXCERPT_THINNED + phase) % len(loop) if alike[phase][best] >= _PLACED else None


def _at_rate(loop: Samples, rate: float) -> Samples:
    """Return the loop with `rate` samples per second, as a microphone of that rate hears it."""
    from scipy.signal import resample_poly

    part = math.gcd(round(rate), code.RATE)
    return np.asarray(resample_poly(loop, round(rate) // part, code.RATE // part), np.float32)


def _audible(segment: Samples) -> tuple[int, int]:
    """Return the first and the last sample of a segment that is not silent."""
    loud = np.flatnonzero(segment)
    return (int(loud[0]), int(loud[-1])) if loud.size else (0, len(segment))


def _rms(samples: Samples) -> float:
    return float(np.sqrt(np.square(samples, dtype=np.float64).mean())) if len(samples) else 0.0
