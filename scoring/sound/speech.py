# SPDX-License-Identifier: Apache-2.0
"""The speech of a call: when each of its segments was spoken, and which of the listener's samples are that segment.

A segment is two sentences of one voice, as ITU-T P.800 has them, with pauses before, between and after. Correlation
with what was spoken finds the segment at the listener, part by part: a receiver stretches speech, cuts it short and
conceals losses. So a part may correlate better elsewhere than where it was heard; but there, the delays of its
neighbours agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.scoring.sound import code
from sojourn.scoring.sound.ear import excerpts

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
_BLOCK = RATE // 100
#: A part is compared if this many of its blocks have this share of the segment's level as RMS: 0.25 s of sound. A sound
#: that is shorter is elsewhere in the speech too.
_AUDIBLE_BLOCKS, _AUDIBLE = 25, 0.1
#: Parts in a row whose mean correlation decides, and the least that it is where they were heard. docs/calls.md has what
#: was measured.
_ROW, _ALIKE = 4, 0.5
#: Samples by which the delays of neighbours differ at most, and those of a leap, as after a stall. A leap is taken if
#: it raises the sum of the correlations by more than its cost.
_NEAR, _FAR, _LEAP_COST = round(0.3 * RATE), round(1.5 * RATE), 1.0
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
    """A segment that was heard: delays (s) and the listener's samples at `RATE`."""

    delay: float
    """The median over the parts that were found."""
    last_delay: float
    """That of the last part that was found."""
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
    """Return a segment at the listener; None if it was not heard. Both have `RATE`.

    `heard` begins when the segment began to be spoken; what is later than LATEST_S after its end does not count.
    """
    latest = round(LATEST_S * RATE)
    heard = np.pad(heard, (0, max(len(segment) + latest - len(heard), 0)))
    likeness = [correlation(segment[at : at + _PART], heard[at : at + _PART + latest]) for at in _parts(segment)]
    if len(likeness) < _ROW:
        return None
    delays = _path(likeness)
    alike = np.array([it[delay] for it, delay in zip(likeness, delays, strict=True)])
    leaps = np.abs(np.diff(delays)) > _NEAR
    rows = [alike[at : at + _ROW].mean() for at in range(len(alike) - _ROW + 1) if not leaps[at : at + _ROW - 1].any()]
    if max(rows, default=0.0) < _ALIKE:
        return None
    known = delays[alike >= _ALIKE]
    # A part that was not found is as late as the nearest one that was.
    return Heard(float(np.median(known)) / RATE, known[-1] / RATE, heard[known[0] : len(segment) + known[-1]])


def _parts(segment: Samples) -> list[int]:
    """Return where the parts of a segment that are compared begin, in samples, from its first sound on."""
    blocks = np.square(segment[: len(segment) // _BLOCK * _BLOCK], dtype=np.float64).reshape(-1, _BLOCK)
    audible = np.sqrt(blocks.mean(axis=1)) > _AUDIBLE * _rms(segment)
    per_part = _PART // _BLOCK
    begins = range(int(audible.argmax()), len(audible) - per_part + 1, per_part)
    return [at * _BLOCK for at in begins if audible[at : at + per_part].sum() >= _AUDIBLE_BLOCKS]


def _path(likeness: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """Return the delays of parts, in samples, that together are most alike; `likeness` has those of every delay."""
    from scipy.ndimage import maximum_filter1d  # type: ignore[import-untyped]  # slow to import

    best = [likeness[0]]
    for one in likeness[1:]:
        near = maximum_filter1d(best[-1], 2 * _NEAR + 1)
        best.append(one + np.maximum(near, maximum_filter1d(best[-1], 2 * _FAR + 1) - _LEAP_COST))
    delays = [int(best[-1].argmax())]
    for one in best[-2::-1]:
        apart = np.abs(np.arange(len(one)) - delays[-1])
        cost = np.select([apart <= _NEAR, apart <= _FAR], [0.0, _LEAP_COST], np.inf)
        delays.append(int((one - cost).argmax()))
    return np.array(delays[::-1])


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
