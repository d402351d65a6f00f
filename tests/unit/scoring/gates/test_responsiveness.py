# SPDX-License-Identifier: Apache-2.0
"""What it takes to believe that a Responsiveness Test competed."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from sojourn.scoring.evidence import SideCapture
from sojourn.scoring.gates.responsiveness import rpm_proven
from sojourn.scoring.packets.pcapng import SCHEMA
from sojourn.scoring.validity import Limits
from sojourn.traffic import ports

WINDOW = (100.0, 160.0)
RECORD: dict[str, Any] = {"contender": "rpm", "responsiveness": {"Responsiveness": 500.0}}


def capture(times: list[float], sport: int = ports.RPM_LOAD) -> SideCapture:
    """What a capture has of contenders: packets at these times, Unix s."""
    rows = [{**dict.fromkeys(SCHEMA, 0), "t_ns": round(t * 1e9), "sport": sport} for t in times]
    table = pl.DataFrame(rows, SCHEMA)
    return SideCapture(1500, table, table[:0], table, table[:0], table[:0])


THROUGHOUT = [100 + n / 2 for n in range(120)]


def test_packets_throughout_and_a_result_prove_it() -> None:
    gate = rpm_proven("rpm", RECORD, WINDOW, capture(THROUGHOUT), Limits())
    assert gate.ok and gate.code == "contender-proven"


@pytest.mark.parametrize(
    ("record", "before"),
    [
        ({}, capture(THROUGHOUT)),
        (RECORD, None),
        ({**RECORD, "responsiveness": None}, capture(THROUGHOUT)),
        (RECORD, capture([t for t in THROUGHOUT if not 110 < t < 120])),
        (RECORD, capture(THROUGHOUT[:80])),
        (RECORD, capture(THROUGHOUT, ports.BULK)),
    ],
)
def test_a_gap_another_port_or_no_result_does_not(record: dict[str, Any], before: SideCapture | None) -> None:
    gate = rpm_proven("rpm", record, WINDOW, before, Limits())
    assert not gate.ok and gate.code == "contender-proven" and gate.reason
