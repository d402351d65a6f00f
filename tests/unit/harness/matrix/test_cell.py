# SPDX-License-Identifier: Apache-2.0
"""What a cell refuses, what a run of it is expected to take, and which sources decide it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from harness.matrix import dumbbell
from harness.matrix.cell import Cell, Flow, Hop, ShortFlows
from harness.matrix.cell_run import Job


def cell(hop: Hop, **fields: object) -> Cell:
    return Cell.model_validate(
        {"name": "a", "flows": dumbbell.flows(["cubic"], 20), "hops": (hop,), "seconds": 60} | fields
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"flows": (Flow(contender="cubic", rtt_us=0, start_s=60),)}, "a flow cannot start at 60 s of 60"),
        ({"short_flows": ShortFlows(rtt_us=0, start_s=70)}, "a flow cannot start at 70 s of 60"),
        ({"seconds": 30}, "a rate cannot change at 30 s of 30"),
    ],
)
def test_nothing_begins_when_the_cell_has_ended(fields: dict[str, object], told: str) -> None:
    hop = dumbbell.bottleneck(50, "pie", steps=[(30, 5)])
    assert cell(hop)
    with pytest.raises(ValidationError, match=told):
        cell(hop, **fields)


@pytest.mark.parametrize(
    ("hop", "mbit"),
    [
        (dumbbell.bottleneck(50, "pie"), 60 * 50),
        (dumbbell.bottleneck(1000, "cake bandwidth 2mbit flowblind"), 60 * 2),
        (dumbbell.bottleneck(50, "pie", steps=[(30, 5)]), 30 * 50 + 30 * 5),
    ],
)
def test_the_work_of_a_run_is_what_its_queue_lets_through(hop: Hop, mbit: float) -> None:
    assert Job(cell(hop), 1, 40, 2, "x").work == mbit + 200
