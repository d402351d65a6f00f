# SPDX-License-Identifier: Apache-2.0
"""Segments of speech are found at the listener, late, quiet, damaged or in parts, and not where they are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.signal import resample_poly

from sojourn.scoring.sound import code, speech
from sojourn.scoring.sound.speech import Samples

T0 = 1.8e9


def sound(seconds: float, seed: int, rate: int = speech.RATE) -> Samples:
    """Return what has a level and a place as speech does: noise of a voice's band."""
    rng = np.random.default_rng(seed)
    spectrum = np.fft.rfft(rng.normal(size=round(seconds * rate)))
    hz = np.fft.rfftfreq(round(seconds * rate), 1 / rate)
    spectrum[(hz < 100) | (hz > 3000)] = 0
    wave = np.fft.irfft(spectrum)
    return np.asarray(0.05 * wave / wave.std(), np.float32)


def voice(seconds: float, seed: int) -> Samples:
    """Return what sounds as speech does: a pitch that moves, and another colour in each syllable of 0.16 s."""
    rng, t = np.random.default_rng(seed), np.arange(round(seconds * speech.RATE)) / speech.RATE
    pitch = 120 + sum(15 * np.sin(2 * np.pi * (rng.uniform(0.3, 2) * t + rng.random())) for _ in range(3))
    phase = 2 * np.pi * np.cumsum(pitch) / speech.RATE
    syllables = np.arange(0, seconds + 0.16, 0.16)
    loud = (np.interp(t, syllables, rng.exponential(number**-0.5, len(syllables))) for number in range(1, 25))
    wave = sum(it * np.sin(number * phase + rng.random()) for number, it in enumerate(loud, 1))
    return np.asarray(0.05 * wave / np.std(wave), np.float32)


def segment(seed: int = 1, speak: Callable[[float, int], Samples] = sound) -> Samples:
    """Two sentences of 2 s with pauses before, between and after."""
    parts = [np.zeros(4800), speak(2, seed), np.zeros(8000), speak(2, seed + 50), np.zeros(11_200 + 4160)]
    return np.concatenate(parts).astype(np.float32)


VOICE = segment(1, voice)


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


def test_one_whose_begin_was_heard_badly_and_then_leaps_is_whole() -> None:
    """The part before the leap is found by its neighbours: it is no loss of the begin."""
    third, rng = len(segment()) // 3, np.random.default_rng(5)
    begin = segment()[:third] + rng.normal(0, 0.05, third).astype(np.float32)
    found = speech.find(segment(), ear((0.1, begin), (0.1 + third / speech.RATE + 0.9, segment()[third:])))
    assert found and len(found.samples) == pytest.approx(len(segment()) + 0.9 * speech.RATE, abs=1)
    assert (found.delay, found.last_delay) == pytest.approx((1.0, 1.0), abs=1e-3)


def zeroed(sound: Samples, share: float) -> Samples:
    """Return sound of which this share of 20 ms was lost."""
    frames = sound[: len(sound) // 320 * 320].reshape(-1, 320).copy()
    frames[np.random.default_rng(4).random(len(frames)) < share] = 0
    return frames.ravel()


def repeated(sound: Samples, share: float) -> Samples:
    """Return sound of which this share of 20 ms was concealed by what was before."""
    frames = sound[: len(sound) // 320 * 320].reshape(-1, 320).copy()
    for number in np.flatnonzero(np.random.default_rng(4).random(len(frames)) < share):
        frames[number] = frames[max(number - 1, 0)]
    return frames.ravel()


def noisy(sound: Samples, snr_db: float) -> Samples:
    """Return sound in white noise."""
    level = np.sqrt(np.square(sound).mean()) * 10 ** (-snr_db / 20)
    return sound + np.random.default_rng(4).normal(0, level, len(sound)).astype(np.float32)


def restretched(sound: Samples, longer: bool) -> Samples:
    """Return sound of which a receiver plays a period of the voice twice, or skips it, 5 to 10 times a second."""
    rng, parts, at = np.random.default_rng(4), [], 0
    while at < len(sound):
        last = at + round(rng.uniform(0.1, 0.2) * speech.RATE)
        parts.append(sound[at:last])
        now = sound[last : last + 240]
        alike = [now[:40] @ now[lag : lag + 40] for lag in range(80, 200)] if len(now) == 240 else [0]
        period = 80 + int(np.argmax(alike))
        at = last + (-period if longer else period)
    return np.concatenate(parts)


@pytest.mark.parametrize(
    "damaged",
    [
        *(zeroed(VOICE, share) for share in (0.1, 0.3, 0.5)),
        *(repeated(VOICE, share) for share in (0.1, 0.3)),
        *(noisy(VOICE, snr_db) for snr_db in (10, 5, 0)),
        *(restretched(VOICE, longer) for longer in (False, True)),
    ],
)
def test_what_sounds_bad_is_heard(damaged: Samples) -> None:
    found = speech.find(VOICE, ear((0.5, damaged), (6.5, segment(2, voice)), (12.2, segment(3, voice))))
    assert found and found.delay == pytest.approx(0.5, abs=0.2)
    assert len(found.samples) == pytest.approx(len(VOICE), abs=0.4 * speech.RATE)


def test_one_of_which_a_part_was_heard_is_found_by_it() -> None:
    heard = segment().copy()
    heard[: 3 * speech.RATE] = 0
    found = speech.find(segment(), ear((0.2, heard)))
    assert found and found.delay == pytest.approx(0.2, abs=1 / speech.RATE)


def test_what_was_never_heard_is_not_found() -> None:
    assert speech.find(segment(), ear()) is None
    assert speech.find(segment(), ear((0.1, segment(2)), (5.9, segment(3)))) is None
    assert speech.find(segment(), ear((0, sound(15, 9)))) is None
    others = [segment(number, voice) for number in (2, 3, 4)]
    assert speech.find(VOICE, ear((0.1, others[0]), (5.9, others[1]), (11.7, others[2]))) is None
    assert speech.find(VOICE, ear((0.1, zeroed(others[0], 0.3)), (5.9, noisy(others[1], 5)))) is None
    one_part = np.where(np.arange(len(segment())) < 4800 + 0.48 * speech.RATE, segment(), 0).astype(np.float32)
    assert speech.find(segment(), ear((0.1, one_part))) is None, "which may be chance"


def test_parts_begin_with_the_first_sound_and_skip_pauses() -> None:
    begins = speech._parts(segment())
    assert begins[0] == 4800 and len(begins) == 8
    assert all(np.square(segment()[at : at + 7680]).mean() > 0.04**2 / 2 for at in begins)
    assert speech._parts(np.zeros(92_160, np.float32)) == []


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
