# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.bottleneck.shaper import RateStep
from sojourn.harness.matrix import dumbbell


@pytest.mark.parametrize("burstiness", ["clean", "bursty"])
def test_a_rate_changes_both_ways_under_one_flow_that_begins_late(burstiness: str) -> None:
    row = {"burstiness": burstiness, "cc": "prague", "rate_initial_mbps": "50", "rtt_ms": "80"}
    cell = dumbbell.rate_change("x", row, "pie", [(25, 5), (30, 0.5)], burst_packets=16)
    (flow,), (hop,), (probe,) = cell.flows, cell.hops, cell.probes
    assert (flow.contender, flow.start_s, flow.rtt_us, cell.seconds) == ("prague-2020", 5, 80_000, 65)
    assert probe.round_trip and probe.rtt_us == 80_000
    steps = (RateStep(at_s=25, rate_bps=5_000_000), RateStep(at_s=30, rate_bps=500_000))
    assert hop.schedule == hop.schedule_up == steps and hop.down == hop.up and hop.down
    assert hop.down.rate_bps == 50_000_000 and hop.down.path.slot_packets == (16 if burstiness == "bursty" else None)


def test_dctcps_marks_of_sce_are_cleared_before_the_receiver_and_no_others() -> None:
    (hop,) = dumbbell.before_sce_receiver(["reno-sce", "dctcp"])
    assert (hop.mangle, hop.mangled_flows, hop.down) == ("ect1-to-not-ect", (1,), None)
    assert dumbbell.before_sce_receiver(["cubic", "dctcp-sce"]) == ()
