# SPDX-License-Identifier: Apache-2.0
"""Short cells in the virtual lab: the files of the simulated lab, from packets and clocks that are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from harness import dumbbell
from harness.cell import Cell, Flow, Hop, Probe
from harness.lab import Lab
from harness.live_cell import run_cell
from scoring.transport import FLOWS, PROBES, WIRE, score

pytestmark = pytest.mark.lab


def scored(cell: Cell, folder: Path) -> dict[str, Any]:
    flows = pl.read_csv(folder / "flows.csv", schema=FLOWS)
    probes = pl.read_csv(folder / "probes.csv", schema=PROBES) if cell.probes else None
    wire = pl.read_csv(folder / "wire.csv", schema=WIRE)
    queues = [json.loads(line) for line in (folder / "queues.jsonl").read_text().splitlines()]
    dump = cell.model_dump(mode="json")
    return score(dump, flows, probes, wire=wire, queues=queues, window_s=4, tail_s=0.5)


def test_flows_probes_and_queues_of_a_step(lab: Lab, tmp_path: Path) -> None:
    """Prague from the start, CUBIC in the middle, 20 then 10 Mbit/s, a probe through the queue."""
    hop = dumbbell.bottleneck(20, "fq_codel flows 1", steps=[(3, 10)])
    flows = (
        Flow(contender="prague", rtt_us=20_000),
        Flow(contender="cubic-noecn", rtt_us=20_000, start_s=1, stop_s=5),
    )
    cell = Cell(name="step", flows=flows, hops=(hop,), seconds=8, probes=(Probe(rtt_us=20_000),))
    run_cell(lab, cell, tmp_path, seed=1)
    told = scored(cell, tmp_path)
    print(json.dumps({**told, "probes": []}))


@pytest.mark.parametrize("kind", ["wireguard", "fou", "fou-auto"])
def test_a_tunnel(lab: Lab, tmp_path: Path, kind: Any) -> None:
    flows = dumbbell.flows(["prague", "cubic-noecn"], 20)
    cell = Cell(name="t", flows=flows, hops=(Hop(), dumbbell.bottleneck(20, "fq_codel"), Hop()), seconds=6, tunnel=kind)
    run_cell(lab, cell, tmp_path, seed=1)
    print(json.dumps(scored(cell, tmp_path)))
    print((tmp_path / "wire.csv").read_text())
