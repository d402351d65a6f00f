# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.matrix import dumbbell
from harness.matrix.campaign import Campaign, prepare
from harness.matrix.cell import Call, Cell
from harness.matrix.engine import EngineError
from harness.matrix.matrix import Matrix

FLOWS = {"flows": dumbbell.flows(["cubic"], 20)}


@pytest.mark.parametrize(
    ("lab", "what", "says"),
    [
        ("virtual", FLOWS, "--pcap: the virtual lab keeps captures anyway"),
        ("sim", {"call": Call(rtt_us=20_000)}, "--pcap: matrix m, whose calls are of browsers, keeps captures anyway"),
    ],
)
def test_captures_are_refused_where_there_are_some_anyway(
    lab: str, what: dict[str, Any], says: str, tmp_path: Path
) -> None:
    cell = Cell(name="c", hops=(dumbbell.bottleneck(10, "fq_codel"),), seconds=10, **what)
    plan = Campaign(Matrix(name="m", title="m", cells=(cell,)), (cell,), (1,), tmp_path, lab=lab, pcap=True)
    with pytest.raises(EngineError, match=says):
        prepare(plan)
    assert not list(tmp_path.iterdir()), "before anything starts"
