# SPDX-License-Identifier: Apache-2.0
"""The E-model, held against figures that ITU-T G.107 and G.108 publish."""

from __future__ import annotations

import pytest

from sojourn.scoring.sound.emodel import (
    EModelInputs,
    burst_ratio,
    equipment,
    mos,
    rating,
    wideband_mos,
    wideband_rating,
)


def test_the_default_connection_has_the_rating_of_the_recommendation() -> None:
    assert rating(EModelInputs()) == pytest.approx(93.2, abs=0.05)
    assert mos(93.2) == pytest.approx(4.41, abs=0.005)


def test_delay_costs_nothing_up_to_100_ms_little_up_to_150_and_much_at_400() -> None:
    none, little, much = (rating(EModelInputs()) - rating(EModelInputs(ta_ms=ms)) for ms in (100, 150, 400))
    assert none == 0 and 0 < little < 1 and much == pytest.approx(24, abs=1)


def test_loss_costs_by_the_codecs_robustness_and_bursts_cost_more() -> None:
    robust, fragile = (equipment(EModelInputs(ppl=2, bpl=bpl)) for bpl in (25.1, 4.3))
    assert robust == pytest.approx(95 * 2 / 27.1) and fragile == pytest.approx(95 * 2 / 6.3)
    assert equipment(EModelInputs(ppl=2, bpl=4.3, burst_r=2)) > fragile
    assert rating(EModelInputs(ppl=2, bpl=4.3)) == pytest.approx(93.2 - fragile, abs=0.05)


def test_echo_costs_even_where_delay_does_not() -> None:
    assert rating(EModelInputs(t_ms=50, tr_ms=100, ta_ms=50)) < 93.2 - 1


@pytest.mark.parametrize(
    ("r", "score"), [(-5, 1.0), (0, 1.0), (50, 2.575), (60, 3.1), (80, 4.024), (100, 4.5), (120, 4.5)]
)
def test_ratings_have_the_scores_of_annex_b(r: float, score: float) -> None:
    assert mos(r) == pytest.approx(score, abs=0.01)


def test_wideband_speech_has_a_longer_scale() -> None:
    """Figures of sipnab and loom, implementations of G.107.1 that cite its equations."""
    clean = wideband_rating(EModelInputs())
    assert (clean, wideband_mos(clean)) == (pytest.approx(128.846315, abs=1e-5), pytest.approx(4.499152, abs=1e-5))
    late = {ms: clean - wideband_rating(EModelInputs(ta_ms=ms)) for ms in (100, 150, 200)}
    assert late == {100: 0, 150: pytest.approx(0.210955, abs=1e-5), 200: pytest.approx(3.927294, abs=1e-5)}
    lost = clean - wideband_rating(EModelInputs(ie=20, bpl=4.3, ppl=2, burst_r=3))
    assert lost == pytest.approx(43.8095, abs=1e-4) and wideband_mos(129 - lost) == pytest.approx(3.4062, abs=1e-4)
    for r, score in ((-3, 1.0), (0, 1.0), (64.5, 2.575), (116.1, 4.339), (121, 4.4206), (129, 4.5), (150, 4.5)):
        assert wideband_mos(r) == pytest.approx(score, abs=1e-4)


def test_bursts_are_told_from_random_loss() -> None:
    assert burst_ratio([False, True] * 50) == 1.0
    assert burst_ratio([True, True, False, True] + [False] * 12) == pytest.approx(3 / 2 * 13 / 16)
    assert burst_ratio([True] * 10 + [False] * 90) == 2.0, "as much as the model permits"
    assert burst_ratio([False] * 10) == 1.0


def test_a_longer_outage_is_rated_no_better_and_none_is_below_zero() -> None:
    losses = [[True] * lost + [False] * (100 - lost) for lost in range(101)]
    inputs = [EModelInputs(ppl=sum(lost), bpl=25.1, burst_r=burst_ratio(lost)) for lost in losses]
    for rated in ([rating(it) for it in inputs], [wideband_rating(it) for it in inputs]):
        assert rated == sorted(rated, reverse=True) and min(rated) >= 0
    assert rating(inputs[-1]) == 0 == wideband_rating(EModelInputs(ppl=100, bpl=4.9, ta_ms=5000))
