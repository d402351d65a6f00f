# SPDX-License-Identifier: Apache-2.0
"""The policies of the SABR stand-in: each chooses by what its name says, and by nothing else."""

from __future__ import annotations

import pytest

from sojourn.apps.base import ServiceError
from sojourn.apps.options import SABR_POLICIES
from sojourn.apps.sabr import SabrStandIn
from sojourn.apps.standins.clip import SEGMENT_SECONDS
from sojourn.apps.standins.sabr.policies import (
    POLICIES,
    REQUEST_S,
    RESERVOIR,
    ClientState,
    backoff_s,
    by_buffer,
    least_readahead_s,
    pacing_bps,
)
from tests.refusals import refusal

RATES = (300_000, 700_000, 1_500_000, 2_900_000)
GOAL = 12.0


def chosen(policy: str, ahead_s: float, bandwidth_bps: int, current: int | None = 1) -> int:
    return POLICIES[policy](ClientState(ahead_s, GOAL, bandwidth_bps, current), RATES)


def test_the_option_offers_all() -> None:
    assert set(SABR_POLICIES) == set(POLICIES)


@pytest.mark.parametrize("policy", SABR_POLICIES)
def test_all_begin_with_a_modest_rendition(policy: str) -> None:
    assert RATES[chosen(policy, 0.0, 0, None)] <= 700_000


@pytest.mark.parametrize(("bandwidth_bps", "rung"), [(200_000, 0), (1_000_000, 1), (1_875_000, 2), (3_625_000, 3)])
def test_throughput_takes_80_percent_whatever_is_buffered(bandwidth_bps: int, rung: int) -> None:
    assert {chosen("throughput", ahead, bandwidth_bps) for ahead in (0.0, 5.0, 12.0)} == {rung}


def test_buffer_takes_the_film_ahead_whatever_the_throughput() -> None:
    assert {chosen("buffer", 2.9, bps) for bps in (0, 1_000_000, 50_000_000)} == {0}
    assert {chosen("buffer", GOAL - REQUEST_S, bps) for bps in (0, 100_000, 50_000_000)} == {3}


def test_buffer_keeps_a_rendition_between_its_neighbours() -> None:
    # At 5.5 s the map is half way, 1.6 Mbit/s: above the third rendition, below the fourth.
    assert [chosen("buffer", 5.5, 0, current) for current in (0, 1, 2, 3)] == [2, 2, 2, 3]


def test_hybrid_trusts_the_throughput_more_with_more_film_ahead() -> None:
    assert [chosen("hybrid", ahead, 3_000_000) for ahead in (0.0, 4.0, 8.0)] == [2, 2, 3]


@pytest.mark.parametrize(("ahead_s", "wait_s"), [(4.0, 0.0), (8.0, 0.0), (12.0, 4.0), (14.0, 6.0)])
def test_the_client_waits_until_it_has_room_for_an_answer(ahead_s: float, wait_s: float) -> None:
    assert backoff_s(ahead_s, GOAL) == wait_s


@pytest.mark.parametrize(
    ("ahead_s", "rate_bps"), [(0.0, 9_000_000), (6.0, 6_750_000), (12.0, 4_500_000), (20.0, 4_500_000)]
)
def test_sammy_paces_by_the_film_ahead(ahead_s: float, rate_bps: int) -> None:
    assert pacing_bps(ahead_s, GOAL, 3_000_000) == rate_bps


def test_with_the_least_readahead_a_client_holds_a_segment_when_it_asks_again() -> None:
    least = least_readahead_s(SEGMENT_SECONDS)
    for ahead in (0.0, 1.0, 2.0, 4.0, least - 0.1):
        after = ahead + REQUEST_S
        assert after - backoff_s(after, least) >= SEGMENT_SECONDS
    rungs = [by_buffer(ClientState(ahead, least, 0, 1), RATES) for ahead in (0.0, RESERVOIR * least, least - REQUEST_S)]
    assert rungs == [0, 0, 3]


@pytest.mark.parametrize("buffer", [2, 5.9])
def test_a_shorter_buffer_is_refused(buffer: float) -> None:
    with refusal(ServiceError, "out-of-range", f"--buffer={buffer:g}: ", "--buffer=6 or more"):
        SabrStandIn(buffer=buffer)
    assert SabrStandIn(buffer=6).buffer == 6
