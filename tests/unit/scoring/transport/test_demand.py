# SPDX-License-Identifier: Apache-2.0
"""When the path gave a victim all that it asked for."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.scoring.baseline import harms
from sojourn.scoring.schema.scores import Metrics, PhaseScores
from sojourn.scoring.transport.demand import (
    FALL_S,
    LEAST_SENT,
    MOST_USED,
    capacity_mbps,
    fair_share_mbps,
    largest_fall,
    met,
    with_fair_shares,
)

LINK = 9.56  # of 10 Mbit/s
ALONE = {"victim_mbps": 1.75, "dominant_height": 720, "lowest_height": 720, "stalls": 0, "stall_s": 0.0}
ALONE |= {"buffer_fall_s": 2.25}


def metrics(**given: Any) -> Metrics:
    return Metrics(seconds=10, **(ALONE | given))


@pytest.mark.parametrize(
    ("beside", "alone", "capacity", "is_met"),
    [
        ({"victim_mbps": 3.49}, {}, LINK, True),  # it fills its buffer, or rests: either is its own doing
        ({"victim_mbps": 0.9}, {}, LINK, True),
        ({"victim_mbps": 0.9, "buffer_fall_s": 2.25 + FALL_S}, {}, LINK, True),
        # The picture is kept, out of the buffer: the path gives less than is played.
        ({"victim_mbps": 0.9, "buffer_fall_s": 2.3 + FALL_S}, {}, LINK, False),
        ({"lowest_height": 480}, {}, LINK, False),
        ({"stalls": 1, "stall_s": 0.6}, {}, LINK, False),
        ({"stall_s": 0.6}, {}, LINK, False),  # one that began in the phase before
        # Alone it fills the bottleneck: what it gets less, the contender has taken.
        ({"victim_mbps": 7.0}, {"victim_mbps": MOST_USED * LINK + 0.01}, LINK, False),
        ({}, {}, None, False),
        ({"buffer_fall_s": None}, {}, LINK, False),  # a page that does not tell
        ({}, {"buffer_fall_s": None}, LINK, False),
        ({"stalls": None}, {}, LINK, False),
        ({"lowest_height": None}, {}, LINK, False),
        ({"victim_mbps": None}, {}, LINK, False),
    ],
)
def test_a_player_has_all_where_picture_and_buffer_are_as_alone(
    beside: dict[str, Any], alone: dict[str, Any], capacity: float | None, is_met: bool
) -> None:
    assert met(metrics(**beside), metrics(**alone), capacity, call=False) is is_met


@pytest.mark.parametrize(
    ("mbps", "alone", "is_met"),
    [(2.7, 2.6, True), (LEAST_SENT * 2.6, 2.6, True), (1.14, 2.6, False), (4.6, 4.7, False)],
)
def test_a_call_asks_for_the_same_all_the_time(mbps: float, alone: float, is_met: bool) -> None:
    """Its encoder gives up bit rate before lines: a resolution that is kept says nothing of its demand."""
    had = {"buffer_fall_s": None, "lowest_height": 720}
    assert met(metrics(victim_mbps=mbps, **had), metrics(victim_mbps=alone, **had), 4.78, call=True) is is_met


def test_the_bottleneck_is_as_slow_as_it_ever_was() -> None:
    lab = {"rate_down_bps": 10e6}
    assert capacity_mbps(lab) == pytest.approx(9.564, abs=0.001)
    steps = [{"t": 5.0, "direction": "down", "rate_bps": 4e6}, {"t": 6.0, "direction": "up", "rate_bps": 1e6}]
    assert capacity_mbps(lab | {"rate_steps": steps}) == pytest.approx(3.826, abs=0.001)
    of_ip = {"rate_down_bps": None, "most_down_bps": 10e6 * 1500 / 1514}
    assert capacity_mbps(of_ip) == pytest.approx(capacity_mbps(lab))
    assert capacity_mbps({"rate_down_bps": None}) is None
    assert capacity_mbps(lab | {"qdisc_down": "a queue of another version"}) == capacity_mbps(lab)


@pytest.mark.parametrize(
    ("queue", "mbps"),
    [
        ("cake bandwidth 5mbit", 5),
        ("cnq_cobalt bandwidth 5mbit", 5),
        ("cake bandwidth 20mbit", 10),
        ("cake", 10),
        ("red limit 150000 avpkt 1000 bandwidth 5mbit", 10),  # a parameter of its average
        ("sch_mine rate 5mbit", 10),  # what it means is unknown
    ],
)
def test_a_queue_that_shapes_itself_is_the_bottleneck_if_it_is_slower_than_the_link(queue: str, mbps: int) -> None:
    lab = {"rate_down_bps": 10e6, "qdisc_down": queue}
    assert capacity_mbps(lab) == pytest.approx(mbps * 1448 / 1514)
    assert fair_share_mbps(lab, 9.0) == pytest.approx(mbps * 1448 / 1514 / 2)


def test_a_victim_that_fills_the_rate_of_its_queue_alone_is_harmed_by_what_it_gets_less() -> None:
    """With the capacity of the link, 4.7 Mbit/s seemed to leave half of it unused."""
    row = PhaseScores(name="cubic", contender="cubic", start=0, end=9, **vars(metrics(victim_mbps=3.2)))
    capacity = capacity_mbps({"rate_down_bps": 10e6, "qdisc_down": "cake bandwidth 5mbit"})
    (found,) = [it for it in harms([row], metrics(victim_mbps=4.7), capacity, call=False) if it.metric == "victim_mbps"]
    assert found.harm == pytest.approx(0.32, abs=1e-2) and not found.demand_met


def test_a_buffer_falls_from_its_highest_to_its_lowest_after_it_within_a_window() -> None:
    saw = [(0, 8.0), (1, 12.0), (2, 11.0), (3, 10.0), (4, 12.5), (5, 3.0), (6, 12.0)]
    assert largest_fall(saw, [(0, 5)]) == 2.0, "a rise is no fall"
    assert largest_fall(saw, [(0, 6)]) == 9.5
    assert largest_fall(saw, [(0, 5), (5, 7)]) == 2.0, "what lies between windows is in none"
    assert largest_fall(saw, [(8, 9)]) is None and largest_fall([], [(0, 9)]) is None


def test_where_the_demand_is_met_goodput_alone_has_no_harm() -> None:
    phase = PhaseScores(name="cubic", contender="cubic", start=0, end=10, seconds=10, **ALONE | {"victim_mbps": 0.9})
    phase.mean_height = 700
    found = {it.metric: it for it in harms([phase], metrics(mean_height=720), LINK, call=False)}
    assert (found["victim_mbps"].harm, found["victim_mbps"].demand_met) == (0, True)
    assert (found["victim_mbps"].solo, found["victim_mbps"].value) == (1.75, 0.9), "what was measured is kept"
    assert found["mean_height"].harm == pytest.approx(20 / 720, abs=1e-4) and not found["mean_height"].demand_met
    (less,) = [it for it in harms([phase], metrics(), None, call=False) if it.metric == "victim_mbps"]
    assert less.harm == pytest.approx(0.85 / 1.75, abs=1e-4) and not less.demand_met


@pytest.mark.parametrize(
    ("lab", "solo", "flows", "share"),
    [
        ({"rate_down_bps": 10e6}, 7.0, 1, 9.564 / 2),
        ({"rate_down_bps": 10e6}, 7.0, 3, 9.564 / 4),
        ({"rate_down_bps": 10e6}, 2.5, 1, 2.5),  # it asks for less
        ({"rate_down_bps": 10e6, "rate_steps": [{"t": 30.0, "direction": "down", "rate_bps": 5e6}]}, 7.0, 1, None),
        ({"most_down_bps": 9e6}, 7.0, 1, None),  # a box whose rate nobody knows
        ({"rate_down_bps": 10e6}, None, 1, None),
    ],
)
def test_the_fair_share_is_as_much_as_each_flow_has(
    lab: dict[str, Any], solo: float | None, flows: int, share: float | None
) -> None:
    assert fair_share_mbps(lab, solo, flows) == (None if share is None else pytest.approx(share, rel=1e-3))


def test_what_a_victim_has_of_its_share_is_harmed_only_below_it() -> None:
    def row(contender: str | None, mbps: float) -> PhaseScores:
        return PhaseScores(name="p", contender=contender, start=0, end=9, **vars(metrics(victim_mbps=mbps, stalls=1)))

    rows = [row(None, 7.0), row("prague", 4.782), row("prague", 2.391), row("cubic*3", 2.391)]
    lab = {"rate_down_bps": 10e6}
    made, alone = with_fair_shares(rows, metrics(victim_mbps=7.0), lab, capacity_mbps(lab), call=False)
    assert [it.fair_share_met for it in made] == [None, 1.0, pytest.approx(0.5, abs=1e-3), 1.0]
    of_share = [it.harm for it in harms(made, alone, LINK, call=False) if it.metric == "fair_share_met"]
    assert of_share == [0.0, pytest.approx(0.5, abs=1e-3), 0.0]
    same, baseline = with_fair_shares(rows, metrics(), {}, None, call=False)
    assert same == rows and baseline.fair_share_met is None


def test_as_much_as_alone_meets_no_demand_of_which_the_capacity_is_not_given() -> None:
    row = PhaseScores(name="p", contender="cubic", start=0, end=9, **vars(metrics(victim_mbps=5.0)))
    lab, alone = {"rate_down_bps": 10e6}, metrics(victim_mbps=5.0)
    assert not met(row, alone, None, call=True) and met(row, alone, LINK, call=True)
    (shared,), _ = with_fair_shares([row], alone, lab, None, call=True)
    assert shared.fair_share_met == 1.0, "5.0 Mbit/s are more than the fair share"


@pytest.mark.parametrize("load", ["cubic@up", "cubic+call", "web*3", "video"])
def test_a_load_that_is_not_of_downloads_leaves_the_share_unknown(load: str) -> None:
    row = PhaseScores(name="p", contender=load, start=0, end=9, **vars(metrics(victim_mbps=2.0, stalls=1)))
    made, _ = with_fair_shares([row], metrics(victim_mbps=7.0), {"rate_down_bps": 10e6}, LINK, call=False)
    assert made[0].fair_share_met is None
