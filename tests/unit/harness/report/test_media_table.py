# SPDX-License-Identifier: Apache-2.0
"""The table of media by sender, queue and contender."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from sojourn.harness.report.media_table import LEGEND, media_table
from sojourn.harness.store.loaded import CellRun
from sojourn.harness.store.manifest import Manifest

ALONE = {"contender": None, "mbps": 2.5, "queue_p99_ms": 2.0, "frames_in_time": 1.0}


def run(*phases: dict[str, Any], mbps: int = 5, qdisc: str = "dualpi2", **media: Any) -> CellRun:
    cell = {"hops": [{"down": {"rate_bps": mbps * 1_000_000, "qdisc": qdisc}}], "flows": [], **media}
    return CellRun(Path("run"), {"cell": cell}, cast(Manifest, None), {"media": list(phases)})


def prague(mbps: float, p99: float | str, contender: float = 4.0, **frames: float) -> dict[str, Any]:
    return {"contender": "prague", "mbps": mbps, "queue_p99_ms": p99, "contender_mbps": contender, **frames}


def test_a_row_has_a_queue_and_a_contender_a_column_a_sender() -> None:
    gcc = {"call": {"ecn": "not-ect"}}
    runs = [
        run(ALONE, prague(1.0, 10, frames_in_time=0.5), **gcc),
        run(ALONE, prague(2.0, 20, frames_in_time=0.7), **gcc),
        run(ALONE, prague(0.5, 5), prague(0.5, 5), call=None),
        run(ALONE, prague(0.3, "Infinity"), call={"cc": "scream", "ecn": "not-ect"}, mbps=20),
    ]
    every, _, five, _, _, _, *rows, _, twenty, _, _, _, alone, with_prague = media_table(runs).splitlines()
    assert every == f"Every figure is of one run. {LEGEND}." and (five, twenty) == ("**5 Mbit/s**", "**20 Mbit/s**")
    # By hand: the mean of two runs, and what the program's cell has of Prague, twice.
    assert rows == [
        "| `dualpi2` | alone | 2.50 · 2.0 ms · 100 % (of 2 runs) | – | – | 2.50 · 2.0 ms · 100 % |",
        "| `dualpi2` | prague | 1.50 (1.00 to 2.00) · 15.0 ms · 60 % · 4.00 (of 2 runs) | – | – "
        "| 0.50 · 5.0 ms · 4.00 (of 2 runs) |",
    ]
    assert alone.endswith("| – | – | 2.50 · 2.0 ms · 100 % | – |")
    assert with_prague == "| `dualpi2` | prague | – | – | 0.30 · ∞ · 4.00 | – |"


def test_the_usual_number_of_runs_is_told_once() -> None:
    gcc = {"call": {"ecn": "ect1"}}
    text = media_table([run(ALONE, **gcc), run(ALONE, **gcc)])
    assert text.startswith("Every figure is the mean of 2 runs, P99 the median, the rate with the least and the most. ")
    assert text.count(" runs") == 1


def test_one_run_of_three_with_losses_has_no_weight_in_the_p99_and_nothing_is_below_zero() -> None:
    runs = [run(prague(1.0, p99), call={"ecn": "ect1"}) for p99 in (-2e-15, -1e-15, "Infinity")]
    assert "| 1.00 · 0.0 ms · 4.00 |" in media_table(runs)
