# SPDX-License-Identifier: Apache-2.0
"""--lab=black-box: a router that somebody else has set up is measured from outside, and never asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bottleneck.spec import Bottleneck
from captures.packets import PacketCapture
from harness.store.manifest import MANIFEST, PARTIAL, read_manifest
from scoring.scores import SCORES, Scores
from tests.lab.real_time.bench import Bench, job, needs_root

pytestmark = [pytest.mark.lab, needs_root]

RATE_MBPS, TARGET_MS, RTT_MS = 10, 15, 20


@pytest.fixture
def vendor(nodes: Bench) -> Iterator[Bench]:
    """The bench, whose router has a shaper, a queue that marks, and a delay that no run asked for."""
    router = nodes.lab.router
    router.apply(Bottleneck.symmetric(RATE_MBPS * 1_000_000, f"codel target {TARGET_MS}ms ecn", RTT_MS * 1000))
    yield nodes
    router.clear()


def counted(nodes: Bench) -> dict[str, Any]:
    """What the queue on the way down tells by itself."""
    qdiscs = json.loads(nodes.lab.router.place.run(["tc", "-s", "-j", "qdisc", "show", "dev", "lan"]))
    return next(qdisc for qdisc in qdiscs if qdisc["kind"] == "codel")


def test_a_box_is_measured_from_outside(vendor: Bench, tmp_path: Path) -> None:
    # All that reaches the router's management port but by the vendor's own connection.
    asked = PacketCapture.start(vendor.hub, "mgmt-router", tmp_path / "asked.pcapng", only="not host 10.42.0.254")
    before = vendor.lab.router.state()
    with vendor.as_a_box() as file, job(file, tmp_path, "solo:5,cubic:10", "--lab=black-box") as process:
        said, _ = process.communicate(timeout=400)
    assert asked.stop().packets == 0 and vendor.lab.router.state() == before
    (run,) = (manifest.parent for manifest in tmp_path.glob(f"*/{MANIFEST}"))
    assert run.suffix != PARTIAL and "vendor-CPE" in run.name, said
    assert not (run / "qdisc.jsonl").exists() and not (run / "irtt-unshaped.json.gz").exists()
    print(read_manifest(run).status, read_manifest(run).reasons)
    scores = Scores.model_validate_json((run / SCORES).read_bytes())
    print(scores.lab, scores.phases, scores.sojourn, counted(vendor), sep="\n")
