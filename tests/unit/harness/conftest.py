# SPDX-License-Identifier: Apache-2.0
"""A small scored run for the tests of report, view and figure: what the scorer writes, in round numbers."""

from __future__ import annotations

from typing import Any

import pytest

from scoring.score import Scores

_T0 = 1_700_000_000.0


@pytest.fixture
def scores() -> Scores:
    """30 s: 10 s alone at 720p, 10 s beside Prague with a drop to 240p and a stall, 10 s alone."""
    seconds = list(range(30))

    def phase(name: str, contender: str | None, start: float, **metrics: Any) -> dict[str, Any]:
        return {
            "name": name,
            "contender": contender,
            "start": start,
            "end": start + 10,
            "seconds": 10,
        } | metrics

    alone = {
        "victim_mbps": 2.5,
        "fps": 30,
        "dominant_height": 720,
        "lowest_height": 720,
        "stalls": 0,
        "stall_s": 0,
    }
    hurt = {
        "victim_mbps": 0.4,
        "contender_mbps": 9.1,
        "fps": 21.5,
        "dominant_height": 240,
        "lowest_height": 240,
    }
    base: dict[str, Any] = {
        "t0": _T0,
        "lab": {
            "name": "virtual", "rate_down_bps": 10e6, "rate_up_bps": 10e6, "rtt_ms": 20.0,
            "qdisc_down": "fq_codel flows 1", "qdisc_up": "fq_codel flows 1",
        },
        "picture": "strip",
        "validity": {
            "valid": True,
            "gates": [{"name": "host stalls", "ok": True, "measured": "worst 3.1 ms", "limit": "20 ms"}],
        },
        "phases": [
            phase("solo-1", None, 0, **alone),
            phase("prague", "prague", 10, **hurt, drops=1, stalls=2, stall_s=3.5, rtt_p99_ms=61.5),
            phase("solo-2", None, 20, **alone),
        ],
        "baseline": {"seconds": 10} | alone,
        "baseline_windows": [(0, 10)],
        "harm": [
            {
                "phase": "prague", "contender": "prague", "metric": "victim_mbps", "better": "more",
                "solo": 2.5, "value": 0.4, "harm": 0.84,
            }
        ],
        "renditions": [
            {"t": 13.0, "before": 720, "after": 240, "drop": True, "phase": "prague"},
            {"t": 25.0, "before": 240, "after": 720, "drop": False, "phase": "solo-2"},
        ],
        "freezes": [
            {"t": 14.0, "length": 2.5, "kind": "stall", "phase": "prague", "uncertain": False},
            {"t": 14.0, "length": 2.5, "kind": "webrtc", "phase": "prague", "uncertain": False},
            {"t": 18.0, "length": 0.3, "kind": "webrtc", "phase": "prague", "uncertain": False},
        ],
        "flows": [
            {
                "phase": "prague", "contender": "prague", "sport": 40001, "data_packets": 8000,
                "bytes": 11_000_000,
                "not_ect": 0, "ect0": 0, "ect1": 8000, "ce": 412, "resent": 3, "accecn_syn": True,
                "d_ss_mbps": 9.08,
            }
        ],
        "series": {
            "step_s": 1.0, "t": seconds,
            "victim_mbps": [0.4 if 10 <= t < 20 else 2.5 for t in seconds],
            "contender_mbps": [9.1 if 10 <= t < 20 else 0.0 for t in seconds],
        },
        "goodput_100ms": {"step_s": 0.1, "t": []},
        "ccdf": [
            {"name": "solo-1", "ms": [20, 21], "percent": [50, 0], "probes": 1000},
            {"name": "prague", "ms": [25, 61.5, 70], "percent": [90, 1, 0], "probes": 1000},
            {"name": "solo", "ms": [20, 21], "percent": [50, 0], "probes": 1000},
        ],
    }  # fmt: skip
    return Scores.model_validate(base)
