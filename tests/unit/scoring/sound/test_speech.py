# SPDX-License-Identifier: Apache-2.0
"""Segments of speech are found at the listener, late, quiet, stretched or in parts, and not where they are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import resample_poly

from sojourn.scoring.sound import code, speech
from sojourn.scoring.sound.speech import Samples, Spoken

T0 = 1.8e9


def sound(seconds: float, seed: int, rate: int = speech.RATE) -> Samples:
    """Return what has a level and a place as speech does: noise of a voice's band."""
    rng = np.random.default_rng(seed)
    spectrum = np.fft.rfft(rng.normal(size=round(seconds * rate)))
    hz = np.fft.rfftfreq(round(seconds * rate), 1 / rate)
    spectrum[(hz < 100) | (hz > 3000)] = 0
    wave = np.fft.irfft(spectrum)
    return np.asarray(0.05 * wave / wave.std(), np.float32)


def segment(seed: int = 1) -> Samples:
    """Two sentences of 2 s with pauses before, between and after."""
    parts = [np.zeros(4800), sound(2, seed), np.zeros(8000), sound(2, seed + 50), np.zeros(11_200 + 4160)]
    return np.concatenate(parts).astype(np.float32)


def ear(*parts: tuple[float, Samples]) -> Samples:
    """Return what is heard while a segment may come: sounds that begin at these times, s."""
    heard = np.zeros(round((speech.SEGMENT_S + speech.LATEST_S) * speech.RATE), np.float32)
    for at, part in parts:
        first = round(at * speech.RATE)
        heard[first : first + len(part)] += part[: len(heard) - first]
    return heard


def test_the_segments_fill_the_loop() -> None:
    assert speech.SEGMENT * speech.SEGMENTS == code.SLOTS * code.SLOT and len(segment()) == speech.SEGMENT // 3
    assert speech.SEGMENT_S == 5.76


@pytest.mark.parametrize(("delay", "gain"), [(0.0, 1.0), (0.0655, 0.3), (1.25, 1.0), (9.0, 0.1)])
def test_it_is_found_however_late_and_quiet(delay: float, gain: float) -> None:
    noise = sound(15, 9)[: len(ear())] * np.float32(0.1 * gain)
    found = speech.find(segment(), ear((delay, segment() * np.float32(gain)), (0, noise)))
    assert found and found.delay == pytest.approx(delay, abs=1 / speech.RATE)
    assert len(found.samples) == len(segment())


def test_one_that_was_stretched_is_heard_from_its_begin_to_its_end() -> None:
    half = len(segment()) // 2
    found = speech.find(segment(), ear((0.1, segment()[:half]), (0.1 + half / speech.RATE + 0.4, segment()[half:])))
    assert found and len(found.samples) == pytest.approx(len(segment()) + 0.4 * speech.RATE, abs=1)
    assert 0.1 <= found.delay <= 0.5


def test_one_of_which_a_part_was_heard_is_found_by_it() -> None:
    heard = segment().copy()
    heard[: 3 * speech.RATE] = 0
    found = speech.find(segment(), ear((0.2, heard)))
    assert found and found.delay == pytest.approx(0.2, abs=1 / speech.RATE)


def test_what_was_never_heard_is_not_found() -> None:
    assert speech.find(segment(), ear()) is None
    assert speech.find(segment(), ear((0.1, segment(2)), (5.9, segment(3)))) is None
    assert speech.find(segment(), ear((0, sound(15, 9)))) is None


def loop() -> Samples:
    """A loop of segments that differ, at 48 kHz."""
    silent = np.zeros(speech.SEGMENT - 4 * code.RATE, np.float32)
    lead = silent[:14_400]
    one = [np.concatenate([lead, sound(4, n, code.RATE), silent[14_400:]]) for n in range(speech.SEGMENTS)]
    return np.concatenate(one)


LOOP = loop()


def mouth(t: float, place: float, rate: int = 44_100) -> dict[str, object]:
    """Return the line of a microphone that speaks from place `place` (s) of the loop at `t` (Unix s) on."""
    heard = resample_poly(LOOP, 147, 160) if rate == 44_100 else LOOP
    once = np.roll(heard, -round(place * rate))[: 96_000 : speech.EXCERPT_THINNED]
    pcm = np.rint(once * 32767).astype(int).tolist()
    detail = {"rate": rate, "count": 96_000, "marks": [[0, 5e6, t * 1e3]], "excerpts": [[0, pcm]]}
    return {"t": t + 2, "event": "spoken", "detail": detail}


@pytest.mark.parametrize(("place", "rate"), [(0.0, 44_100), (7.0, 44_100), (91.9, 44_100), (7.0, code.RATE)])
def test_an_excerpt_of_the_microphone_tells_when_the_loop_began(place: float, rate: int) -> None:
    """Chromium's fake microphone has 44.1 kHz."""
    ((t, begun),) = speech.anchors([mouth(T0, place, rate)], LOOP)
    assert (t, begun) == pytest.approx((T0, T0 - place), abs=1e-6)
    assert speech.anchors([], LOOP) == []


def test_the_segments_of_a_time_are_those_that_are_spoken_in_it_whole() -> None:
    begun = [(T0, T0 - 90.0)]
    found = list(speech.spoken(begun, LOOP, T0, T0 + 14))
    assert [it.number for it in found] == [0, 1]
    assert [it.t - T0 for it in found] == pytest.approx([2.16, 7.92])
    assert [(it.begins - it.t, it.ends - it.t) for it in found] == [pytest.approx((0.3, 4.3), abs=1e-3)] * 2
    assert [it.number for it in speech.spoken(begun, LOOP, T0 + 2.4, T0 + 12.3)] == [0, 1]


def test_a_segment_that_may_still_be_on_its_way_is_not_judged() -> None:
    one = Spoken(T0, 0, T0 + 0.3, T0 + 5)
    assert speech.is_judged(one, T0 + 7.1) and not speech.is_judged(one, T0 + 6.9)
