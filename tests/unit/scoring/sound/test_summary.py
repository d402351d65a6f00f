# SPDX-License-Identifier: Apache-2.0
"""The fields of a call's sound in windows of time."""

from __future__ import annotations

from math import inf

import polars as pl
import pytest

from sojourn.scoring.sound.ear import Sound
from sojourn.scoring.sound.summary import sound_fields

#: 100 tones of 20 ms: 50 ms late, then ten never heard, then 300 ms, then 500 ms late.
DELAYS = [50.0] * 50 + [None] * 10 + [300.0] * 20 + [500.0] * 20
TONES = pl.DataFrame(
    {"t": [n / 50 for n in range(100)], "delay_ms": DELAYS}, schema={"t": pl.Float64, "delay_ms": pl.Float64}
)
EAR = pl.DataFrame({"t": [n / 1000 for n in range(2000)]}).with_columns(
    gap=pl.col("t").is_between(1.0, 1.2, closed="left"), repeated=pl.col("t").is_between(1.5, 1.51, closed="left")
)
SOUND = Sound(TONES, EAR)


def test_what_never_came_is_infinitely_late_and_counts_in_all_shares() -> None:
    all_of_it = sound_fields(SOUND, None, [(0.0, 2.0)])
    assert (all_of_it["ear_loss"], all_of_it["ear_interactive"], all_of_it["ear_in_time"]) == (0.1, 0.5, 0.7)
    assert (all_of_it["ear_p50_ms"], all_of_it["ear_p95_ms"], all_of_it["ear_heard_p95_ms"]) == (50.0, inf, 500.0)
    assert (all_of_it["ear_gap_share"], all_of_it["ear_repeated_share"]) == pytest.approx((0.1, 0.005))
    first = sound_fields(SOUND, None, [(0.0, 1.0)])
    assert (first["ear_p95_ms"], first["ear_loss"], first["ear_gap_share"]) == (50.0, 0.0, 0.0)
    assert "lip_sync_p50_ms" not in first and sound_fields(SOUND, None, [(9.0, 10.0)]) == {}


def test_the_rating_has_all_of_its_inputs_next_to_it() -> None:
    first, whole = (sound_fields(SOUND, None, [(0.0, end)]) for end in (1.0, 2.0))
    assert first["r_factor"] == pytest.approx(93.2, abs=0.05) and first["e_model"]["ppl"] == 0
    inputs = whole["e_model"]
    assert inputs["ppl"] == pytest.approx(10) and inputs["ta_ms"] == pytest.approx((50 * 50 + 20 * 300 + 20 * 500) / 90)
    assert first["r_factor_wb"] == pytest.approx(128.85, abs=0.01) and first["mos_cqe_wb"] > whole["mos_cqe_wb"] > 1
    assert inputs["burst_r"] == 2 and whole["r_factor"] < 60 and 1 < whole["mos_cqe"] < 3.1


def test_sound_of_which_nothing_is_heard_has_the_worst_rating() -> None:
    none = sound_fields(SOUND, None, [(1.0, 1.2)])
    assert (none["ear_loss"], none["r_factor"], none["mos_cqe"]) == (1, 0, 1)
    assert none["r_factor_wb"] == pytest.approx(38.3, abs=0.1) and none["e_model"]["ta_ms"] == 0


def test_lip_sync_is_the_lead_of_the_sound_over_the_picture() -> None:
    pictures = pl.DataFrame({"t": [0.1, 0.2, 0.3, 0.4, 1.1], "delay_ms": [90.0, 95.0, 100.0, None, 80.0]})
    fields = sound_fields(SOUND, pictures, [(0.0, 2.0)])
    assert fields["lip_sync_p50_ms"] == 45 and fields["lip_sync_in_limits"] == pytest.approx(2 / 3)
