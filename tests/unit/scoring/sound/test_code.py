# SPDX-License-Identifier: Apache-2.0
"""The speaker's tones."""

from __future__ import annotations

import numpy as np

from sojourn.scoring.sound import code


def test_four_tones_in_a_row_name_a_place_and_no_tone_follows_itself_also_where_the_loop_begins_again() -> None:
    tones = code.tones()
    assert len(tones) == code.SLOTS == 4608
    endless = np.concatenate([tones, tones[: code.ORDER]])
    assert (np.diff(endless) != 0).all()
    assert len({tuple(endless[at : at + code.ORDER]) for at in range(code.SLOTS)}) == code.SLOTS


def test_the_sound_has_no_clicks_and_its_length_fits_any_device() -> None:
    sound = code.waveform()
    assert len(sound) / code.RATE == code.LOOP_S == 92.16
    steps = np.abs(np.diff(np.concatenate([sound, sound[:1]])))
    assert steps.max() <= 2 * np.pi * max(code.TONES_HZ) / code.RATE
    assert all(len(sound) % buffer == 0 for buffer in (480, 512, 1024, 2048, 4096, 32768))
