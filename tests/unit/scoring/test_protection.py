# SPDX-License-Identifier: Apache-2.0
"""Scores of queue protection from samples of its counters."""

from __future__ import annotations

from typing import Any

from sojourn.scoring.protection import protection_scores


def sample(t: float, sanctioned: int, in_l: int, flows: int = 0, hop: int = 0, dev: str = "lan") -> dict[str, Any]:
    counters = {"sanctioned": sanctioned, "pkts-in-l": in_l, "sanctioned_flows": flows}
    return {"t": t, "hop": hop, "dev": dev, "qdiscs": [{"kind": "htb"}, {"kind": "dualpi2_qprot", **counters}]}


def test_shares_are_of_the_packets_for_l() -> None:
    lines = [sample(0, 0, 0), sample(10, 30, 70, 2), sample(20, 30, 170, 2), sample(30, 80, 220, 3)]
    scores = protection_scores(lines, (10, 30))
    assert scores is not None
    assert (scores.sanctioned, scores.sanctioned_flows) == (80, 3)
    assert scores.sanctioned_share == round(80 / 300, 6)
    assert scores.window_sanctioned_share == 50 / 200
    quiet = protection_scores(lines, (10.5, 20.9))
    assert quiet is not None and quiet.window_sanctioned_share == 0


def test_it_is_of_the_first_queue_down_with_protection() -> None:
    lines = [sample(1, 5, 5, 1, hop=1), sample(1, 7, 0, 1, dev="wan"), sample(1, 9, 1, 1, hop=2)]
    scores = protection_scores(lines, (0, 1))
    assert scores is not None and scores.sanctioned == 5 and scores.sanctioned_share == 0.5


def test_an_idle_queue_has_no_share_and_other_queues_no_scores() -> None:
    idle = protection_scores([sample(1, 0, 0)], (0, 1))
    assert idle is not None and idle.sanctioned == 0 and idle.sanctioned_share is None
    assert protection_scores([{"t": 1, "hop": 0, "dev": "lan", "qdiscs": [{"kind": "dualpi2"}]}], (0, 1)) is None
    assert protection_scores([], (0, 1)) is None
