# SPDX-License-Identifier: Apache-2.0
"""The table of calls by sender, queue and contender."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest

from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.media_table import media_table
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import Scores

Series = Callable[..., Path]


@pytest.fixture
def calls(scores: Scores, tmp_path: Path) -> Series:
    """Make runs of a call with Prague, a run for each P99 in the queue with it, ms."""

    def make(p99_ms: list[float], rate: int = 5_000_000, qdisc: str = "dualpi2", **options: Any) -> Path:
        for seed, p99 in enumerate(p99_ms, 1):
            document = scores.model_dump(mode="json")
            document["lab"] |= {"qdisc_down": qdisc, "qdisc_up": qdisc, "rate_down_bps": rate, "rate_up_bps": rate}
            document["primary"] = "frames_in_time"
            for phase in document["phases"]:
                phase |= {"frames_in_time": 0.5 if phase["contender"] else 1, "foreign_rpm": 900, "frame_p50_ms": 55}
            document["baseline"] |= {"frames_in_time": 1, "foreign_rpm": 1000, "frame_p50_ms": 40}
            queue = {"of": "victim", "p50_ms": 1, "p90_ms": 1, "max_ms": 9}
            document["sojourn"] = [
                {**queue, "phase": "solo-1", "queue": "L", "packets": 1000, "p99_ms": 2},
                {**queue, "phase": "solo-2", "queue": "L", "packets": 1000, "p99_ms": 4},
                {
                    **queue,
                    "phase": "prague",
                    "queue": "L",
                    "packets": 1000,
                    "p99_ms": "Infinity" if p99 == inf else p99,
                },
                {**queue, "phase": "prague", "queue": "C", "packets": 10, "p99_ms": 500},
                {**queue, "phase": "prague", "queue": "L", "packets": 9000, "p99_ms": 700, "of": "contender"},
            ]
            asked = {"service": "call", "seed": seed, "rate_down_bps": rate, "qdisc_down": qdisc, "call_ecn": "not-ect"}
            asked |= {
                "phases": [{"name": p["name"], "contender": p["contender"], "seconds": 10} for p in document["phases"]]
            }
            with RunStore(tmp_path / "results").create("call", "call", seed=seed) as run:
                (run.path / "options.json").write_text(json.dumps(asked | options))
                (run.path / "timeline.json").write_text(json.dumps({"phases": asked["phases"]}))
                (run.path / "scores.json").write_text(Scores.model_validate(document).model_dump_json())
                run.void()
                run.commit()
        return tmp_path / "results"

    return make


def test_a_row_has_a_sender_with_a_contender_and_alone(calls: Series) -> None:
    calls([10, 20])
    calls([3, inf, 5], call_cc="scream")
    folder = calls([7], rate=20_000_000, call_ecn="ect1", qdisc="pfifo")
    five, twenty = media_table(experiments(find_runs([folder]))).split("\n\n**20 Mbit/s**\n\n")
    title, _, head, _, *rows = five.splitlines()
    assert title == "**5 Mbit/s**" and head.startswith("| queue | with | sender | call, Mbit/s | frames in time |")
    # By hand: alone, 2.5 Mbit/s, P99 of both solo phases (2 + 4) / 2; with Prague the mean 15, and a median.
    assert [row.split(" | ")[:3] for row in rows] == [
        ["| `dualpi2`", who, sender] for who in ("alone", "prague") for sender in ("GCC", "SCReAM")
    ]
    assert rows[0] == "| `dualpi2` | alone | GCC | 2.50 | 1 | 3 | 40 | 1000 |"
    assert "| 0.40 | 0.50 | 15 (" in rows[2] and rows[2].endswith(" | 55 | 900 |")
    assert "| 0.40 | 0.50 | 5 (" in rows[3]
    assert "| `pfifo` | prague | GCC as ECT(1) | 0.40 | 0.50 | 7 | 55 | 900 |" in twenty
