# SPDX-License-Identifier: Apache-2.0
"""What a receiver does to sound is found to the millisecond: delay, cuts, repeats, gaps and concealment."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.scoring.sound import code, heard

MS = heard.MS
START_MS = 1000


def spoken(seconds: float, start_ms: float = START_MS) -> heard.Samples:
    first = round(start_ms * MS)
    loop = np.tile(code.waveform(), 2) * np.float32(0.25)
    return loop[first : first + round(seconds * code.RATE)]


def leads(ear: heard.Samples) -> np.ndarray:
    places = heard.places(ear)
    return places - np.arange(len(places))


@pytest.mark.parametrize("start_ms", [0, 7.0, 19 + 5 / MS, 91_500 + 1 / MS])
def test_untouched_sound_has_its_place_to_the_sample_across_the_loops_end_too(start_ms: float) -> None:
    found = np.mod(leads(spoken(2, start_ms)) - start_ms + 1, code.LOOP_S * 1e3) - 1
    assert np.abs(found).max() < 0.5 / MS


def test_other_sound_has_no_place() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.1, code.RATE).astype(np.float32)
    tone = np.sin(2 * np.pi * 600 * np.arange(code.RATE) / code.RATE).astype(np.float32)
    for ear in (noise, tone, np.zeros(code.RATE, np.float32), np.zeros(0, np.float32)):
        assert np.isnan(heard.places(ear)).all()


def test_a_cut_and_a_repeat_change_the_lead_where_they_are() -> None:
    sound = spoken(3)
    cut = np.concatenate([sound[: 1000 * MS], sound[1010 * MS :]])
    both = np.concatenate([cut[: 2000 * MS], cut[1985 * MS :]])
    found = leads(both)
    assert np.nanmedian(found[:990]) == START_MS and np.nanmedian(found[1020:1990]) == START_MS + 10
    assert np.nanmedian(found[2020:]) == START_MS - 5
    for at in (1000, 2000):
        assert np.isnan(found[at - 8 : at + 8]).sum() <= 8, "the change itself is at most some ms"


def test_lost_sound_is_a_gap_and_so_is_a_held_tone_until_the_next_would_begin() -> None:
    sound = spoken(3)
    sound[500 * MS : 560 * MS] = 0
    begun = 1500 * MS  # where a tone begins
    sound[begun : begun + 20 * MS] = np.tile(sound[begun - 10 * MS : begun], 2)
    gaps = np.flatnonzero(np.isnan(heard.places(sound)))
    silent, held = gaps[gaps < 1000], gaps[gaps > 1000]
    assert len(silent) == pytest.approx(60, abs=4) and silent[0] == pytest.approx(500, abs=2)
    assert len(held) == pytest.approx(20, abs=4) and held[0] == pytest.approx(1500, abs=2)


def test_a_long_silence_and_a_jump_of_seconds_are_survived() -> None:
    sound = spoken(6)
    late = np.concatenate([sound[: 2000 * MS], np.zeros(1500 * MS, np.float32), sound[2500 * MS :]])
    found = leads(late)
    assert np.isnan(found[2010:3490]).all()
    assert np.nanmedian(found[3600:]) == START_MS - 1000 and np.isnan(found[3520:]).sum() == 0


def test_after_a_pause_sound_has_its_new_place_from_the_start_though_a_packet_is_lost() -> None:
    sound = spoken(3)
    sound[1000 * MS : 1600 * MS] = 0
    sooner = np.concatenate([sound[: 1300 * MS], sound[1330 * MS :]])  # the receiver shortens the pause by 30 ms
    sooner[1600 * MS : 1640 * MS] = 0
    found = leads(sooner)
    assert np.nanmedian(found[1575:1595]) == np.nanmedian(found[1650:]) == START_MS + 30
    gaps = np.isnan(found)
    assert gaps[980:].sum() == pytest.approx(570 + 40, abs=8) and gaps[:980].sum() == 0


def test_an_excerpt_has_its_place_and_noise_none() -> None:
    assert heard.place(spoken(0.13, 20_000)) == 20_000 * MS
    assert heard.place(np.random.default_rng(2).normal(0, 0.1, 6000).astype(np.float32)) is None
