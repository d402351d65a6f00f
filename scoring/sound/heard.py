# SPDX-License-Identifier: Apache-2.0
"""Where in the speaker's sound every millisecond of a listener's sound comes from.

A receiver cuts sound out, repeats it and bridges losses, and otherwise plays it as it was: so its place in the
speaker's sound runs ahead of its own time by a lead that is constant between such moments. A window of three tones has
its lead where the correlation with the speaker's sound is largest. A millisecond is the speaker's while the samples
around it are the tone that was spoken there, in whichever phase: what Opus restores of a lost packet from the next one
is poor. Otherwise it is a gap: silence, or the receiver's concealment, which holds the last tone.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from sojourn.scoring.sound import code

MS = code.RATE // 1000
#: Samples around a millisecond that must correlate: the shortest stretch that tells two tones apart.
_PROOF = 5 * MS
_MARGIN = 2 * MS  # of them before and after it
#: The correlation with which a lead holds, and that with a tone of any phase with which a millisecond is that tone.
_PROVEN, _TONE = 0.7, 0.5
#: Samples of a window whose lead is sought close to the last one (three tones), and further away (five are unique).
_CLOSE, _FAR = 3 * code.SLOT, 5 * code.SLOT
_PLACED = 0.8
#: The share of five tones that must correlate at a lead found by three.
_HOLDS = 0.75
#: How far from the last lead each is sought; the longest queue holds some seconds.
_CLOSE_MS, _FAR_MS = 60, 10_000
#: A search takes every fourth sample: the tones are below its Nyquist frequency of 6 kHz.
_COARSE = 4
#: The quietest sound, as RMS of full scale: below it, there is nothing to compare.
_AUDIBLE = 0.002
_HOP_MS, _FAR_HOP_MS, _STRETCH_MS, _BACK_MS = 10, 50, 2000, 60
#: The shortest silence that is a pause of the speaker: a lost packet or two are concealed, or shorter.
_SILENCE_MS = 60
#: Within this time, the old lead is preferred to any other: most gaps are losses, which do not change it.
_BRIDGED_MS = 180

Samples = NDArray[np.float32]


def places(ear: Samples) -> NDArray[np.float64]:
    """Return the place in the speaker's loop (ms) of every ms of the listener's samples at `code.RATE`; NaN: a gap."""
    count = len(ear) // MS
    found = np.full(count, np.nan)

    def mark(start: int, end: int, lead: int) -> None:
        found[start:end] = np.where(_spoken(ear, start, end, lead), _ms(start, end, lead), np.nan)

    at, lead = 0, None  # ms, samples
    while at < count:
        if lead is not None:
            end = min(count, at + _STRETCH_MS)
            proven = _proven(ear, at, end, lead)
            held = at + (len(proven) if proven.all() else int(proven.argmin()))
            found[at:held] = _ms(at, held, lead)
            at = held
            if held == end:
                continue
            if resumed := _resumed(_proven(ear, at, min(count, at + _BRIDGED_MS), lead)):
                mark(at, at + resumed, lead)
                at += resumed
                continue
        ahead, new = _next(ear, at, lead)
        if new is None:
            if lead is not None:
                mark(at, count, lead)
            break
        # The new lead holds from before the window that showed it, and the old one up to there.
        since = _silence_end(ear, at, ahead)
        if since is None:
            begun = max(at, ahead - _BACK_MS)
            proven = _proven(ear, begun, ahead, new)
            since = begun if proven.all() else ahead - int(proven[::-1].argmin())
        if lead is not None:
            mark(at, since, lead)
        end = min(count, ahead + _CLOSE // MS)
        mark(since, end, new)
        at, lead = end, new
    return found


def _ms(start: int, end: int, lead: int) -> NDArray[np.float64]:
    at: NDArray[np.float64] = np.mod(np.arange(start, end) + lead / MS, code.LOOP_S * 1e3)
    return at


def _silence_end(ear: Samples, start: int, end: int) -> int | None:
    """Return the ms after the longest silence between two ms, in which a receiver changes its delay; None if short."""
    silent = _sums(np.square(_around(ear, start, end))) < _PROOF * _AUDIBLE**2
    edges = np.flatnonzero(np.diff(silent, prepend=False, append=False)).reshape(-1, 2)
    if not len(edges):
        return None
    first, after = edges[np.argmax(edges[:, 1] - edges[:, 0])]
    return start + int(after) if after - first >= _SILENCE_MS else None


def _resumed(proven: NDArray[np.bool_]) -> int:
    """Return after how many ms the first stretch of three tones that is proven begins; 0 if there is none."""
    least = 3 * code.SLOT // MS
    summed = np.concatenate([[0], np.cumsum(proven)])
    return int(np.argmax(summed[least:] - summed[:-least] == least)) if len(proven) >= least else 0


def _next(ear: Samples, at: int, lead: int | None) -> tuple[int, int | None]:
    """Return the first ms from `at` on at which a window has a lead (samples), and that; None if there is none."""
    began = at  # after so long without any, a lead may be anywhere
    while at * MS + _CLOSE <= len(ear):
        start = at * MS
        window = ear[start : start + _CLOSE]
        if _rms(window) >= _AUDIBLE:
            new = None if lead is None else _lead(window, start, lead, _CLOSE_MS)
            # Three tones may be like three others close by; five are not.
            if new is not None and _proven(ear, at, at + _FAR // MS, new).mean() >= _HOLDS:
                return at, new
            window = ear[start : start + _FAR]
            if len(window) == _FAR and not (at - began) % _FAR_HOP_MS:
                anywhere = None if at - began > _FAR_MS else lead
                if (new := _lead(window, start, anywhere, _FAR_MS)) is not None:
                    return at, new
        at += _HOP_MS
    return at, None


def _lead(window: Samples, start: int, near: int | None, within_ms: int) -> int | None:
    """Return the lead of a window that starts at sample `start`, at most `within_ms` from `near` (samples) if given."""
    if near is None:
        first, count = 0, len(code.waveform())
    else:
        first, count = start + near - within_ms * MS, 2 * within_ms * MS
    stretch = _speaker(first, count + len(window))
    rough = first + _COARSE * int(_correlated(stretch[::_COARSE], window[::_COARSE]).argmax())
    fine = np.correlate(_speaker(rough - _COARSE, len(window) + 2 * _COARSE), window, "valid")
    place = rough - _COARSE + int(fine.argmax())
    own = _speaker(place, len(window))
    return place - start if float(own @ window) >= _PLACED * _norm(own) * _norm(window) else None


def _correlated(long: Samples, short: Samples) -> Samples:
    """Return the products of `short` with each stretch of `long` of its length."""
    import cv2  # a quarter of the time of NumPy's transforms

    return np.asarray(cv2.matchTemplate(long[None], short[None], cv2.TM_CCORR)[0], np.float32)


def _proven(ear: Samples, start: int, end: int, lead: int) -> NDArray[np.bool_]:
    """Return for the ms from `start` to `end` whether they correlate with the speaker's sound at this lead."""
    heard = _around(ear, start, end)
    spoken = _speaker(start * MS - _MARGIN + lead, len(heard))
    product, ours, theirs = (_sums(it) for it in (heard * spoken, heard * heard, spoken * spoken))
    return (product >= _PROVEN * np.sqrt(np.maximum(ours * theirs, 0))) & (ours >= _PROOF * _AUDIBLE**2)


def _spoken(ear: Samples, start: int, end: int, lead: int) -> NDArray[np.bool_]:
    """Return for the ms from `start` to `end` whether they are the tones that were spoken at this lead."""
    heard = _around(ear, start, end)
    at = (start * MS - _MARGIN + lead + np.arange(len(heard))) % len(code.waveform())
    sine, cosine = (_sums(heard * wave[at]) for wave in (code.waveform(), code.quadrature()))
    ours = _sums(heard * heard)
    return (sine**2 + cosine**2 >= _TONE**2 * ours * _PROOF / 2) & (ours >= _PROOF * _AUDIBLE**2)


def _around(ear: Samples, start: int, end: int) -> Samples:
    """Return the samples of the ms from `start` to `end`, and those around them that judge the first and the last."""
    first, count = start * MS - _MARGIN, (end - start) * MS + 2 * _MARGIN
    heard = np.zeros(count, np.float32)
    inside = ear[max(first, 0) : first + count]
    heard[max(-first, 0) : max(-first, 0) + len(inside)] = inside
    return heard


def _sums(values: Samples) -> NDArray[np.float64]:
    """Return the sums of `_PROOF` values, one for every ms."""
    summed = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    sums: NDArray[np.float64] = summed[_PROOF:] - summed[:-_PROOF]
    return sums[::MS]


@cache
def _twice() -> Samples:
    return np.tile(code.waveform(), 2)


def _speaker(start: int, count: int) -> Samples:
    """Return `count` samples of the endless loop, from `start` on; at most a loop and some."""
    length = len(code.waveform())
    start %= length
    if start + count <= 2 * length:
        return _twice()[start : start + count]
    return np.concatenate([_twice()[start:], _twice()[: start + count - 2 * length]])


def _rms(samples: Samples) -> float:
    return _norm(samples) / float(np.sqrt(len(samples)))


def _norm(samples: Samples) -> float:
    return float(np.sqrt(samples @ samples))


def place(samples: Samples) -> int | None:
    """Return the place of an excerpt of five tones or more in the speaker's loop, in samples; None if it has none."""
    return _lead(samples, 0, None, _FAR_MS)
