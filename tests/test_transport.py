# SPDX-License-Identifier: Apache-2.0
"""The transport check of a lab: shares that the published tables know, an exact shaper, and the delay asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck.spec import Bottleneck
from harness.lab.contract import Lab
from harness.lab.idle_path import added_rtt_ms, race

pytestmark = pytest.mark.experiment

# The shaper counts Ethernet frames of 1514 bytes, goodput the 1448 bytes of payload in them.
PAYLOAD_SHARE = 1448 / 1514


@pytest.mark.parametrize("mbps", [5, 10, 20, 50, 100])
def test_shaper_rate(virtual_lab: Lab, tmp_path: Path, mbps: int) -> None:
    """One CUBIC flow through pfifo fills the rate asked for to within 1 %."""
    bottleneck = Bottleneck.symmetric(mbps * 10**6, "pfifo limit 200", 20_000)
    (share,) = race(virtual_lab, bottleneck, ["cubic"], tmp_path, seconds=22, window=15)
    print(f"shaper {mbps} Mbit/s: goodput {share.d_ss_bps / 1e6:.3f}, expected {PAYLOAD_SHARE * mbps:.3f} Mbit/s")
    assert share.d_ss_bps == pytest.approx(PAYLOAD_SHARE * mbps * 1e6, rel=0.01)


def test_added_rtt(virtual_lab: Lab, tmp_path: Path) -> None:
    """The delay asked for is the round trip to within 0.3 ms (median of 500 probes)."""
    found = {
        ms: added_rtt_ms(
            virtual_lab, Bottleneck.symmetric(50_000_000, "fq_codel", ms * 1000), tmp_path / f"{ms}.json.gz"
        )
        for ms in (0, 20, 80, 160)
    }
    print("median RTT by RTT asked, ms:", {ms: round(rtt, 3) for ms, rtt in found.items()})
    for asked, rtt in found.items():
        assert rtt == pytest.approx(asked, abs=0.3)


@pytest.mark.parametrize(
    ("qdisc", "contenders"),
    [
        ("fq_codel flows 1", ("prague", "cubic")),
        ("dualpi2", ("prague", "cubic")),
        ("dualpi2", ("prague", "prague")),
    ],
)
def test_shares(virtual_lab: Lab, tmp_path: Path, qdisc: str, contenders: tuple[str, str]) -> None:
    """50 Mbit/s, 20 ms, 60 s: the published contrast of Prague and CUBIC (fairness_rfc3168.csv, fairness_rtt.csv)."""
    first, second = race(virtual_lab, Bottleneck.symmetric(50_000_000, qdisc, 20_000), contenders, tmp_path)
    a, b = first.d_ss_bps / 1e6, second.d_ss_bps / 1e6
    print(f"{qdisc}: {contenders[0]} {a:.2f} : {contenders[1]} {b:.2f} Mbit/s; {first.proof}")
    assert first.proof["accecn_syn"] and first.proof["ect1"] and first.proof["ce"], "no proof of Prague"
    if qdisc == "fq_codel flows 1":
        assert a >= 40 and b <= 5
    elif contenders[1] == "cubic":
        assert 1.2 <= a / b <= 5
    else:
        assert abs(a - b) / max(a, b) <= 0.15
