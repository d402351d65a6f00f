# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.scoring.packets.queue_series import QueueSeries, read_queue

# The shape of `tc -s -j qdisc show dev lan` behind HTB with a shaped and an unshaped class.
HTB = {"kind": "htb", "handle": "1:", "root": True, "bytes": 900, "drops": 99, "backlog": 70_000}


def leaf(handle: str, **more: object) -> dict[str, object]:
    return {
        "kind": "fq_codel",
        "handle": handle,
        "parent": "1:10",
        "drops": 0,
        "ecn_mark": 0,
        "backlog": 0,
    } | more


def write(file: Path, samples: list[tuple[float, list[dict[str, object]]]]) -> Path:
    lines = [json.dumps({"t": t, "dev": "lan", "qdiscs": qdiscs}) for t, qdiscs in samples]
    other = json.dumps({"t": 0.0, "dev": "wan", "qdiscs": [leaf("10:", bytes=1e9)]})
    file.write_text("\n".join([other, *lines, lines[-1][:20]]))
    return file


def test_the_busiest_leaf_is_read_and_counters_become_rates(tmp_path: Path) -> None:
    samples = [
        (100.0, [HTB, leaf("10:", bytes=1000, backlog=12_500, drops=5, ecn_mark=10), leaf("20:", bytes=9)]),
        (100.25, [HTB, leaf("10:", bytes=5000, backlog=50_000, drops=7, ecn_mark=20), leaf("20:", bytes=9)]),
        (100.5, [HTB, leaf("10:", bytes=9000, backlog=25_000, drops=10, ecn_mark=30), leaf("20:", bytes=9)]),
        (101.5, [HTB, leaf("10:", bytes=99_000, backlog=0, drops=10, ecn_mark=35), leaf("20:", bytes=9)]),
    ]
    series = read_queue(write(tmp_path / "qdisc.jsonl", samples), "lan", lambda t: 10e6)
    assert series.kind == "fq_codel"
    # 12 500 bytes at 10 Mbit/s are 10 ms; the second point holds the worst of two samples.
    assert series.backlog_ms == [(100.0, 10.0), (100.5, 40.0), (101.5, 0.0)]
    assert series.marks_per_s == [(100.5, 40.0), (101.5, 5.0)]
    assert series.drops_per_s == [(100.5, 10.0), (101.5, 0.0)]


def test_marks_of_sce_stand_beside_those_of_ce(tmp_path: Path) -> None:
    counts = ((0.0, 3, 7), (0.5, 4, 57))
    queue = [(t, [leaf("10:", kind="deltic", bytes=9, ecn_mark=ce, sce_mark=sce)]) for t, ce, sce in counts]
    series = read_queue(write(tmp_path / "q", queue), "lan", lambda t: 1e6)
    assert series.marks_per_s == [(0.5, 2.0)] and series.sce_per_s == [(0.5, 100.0)]


def test_counters_that_restart_lift_the_pen(tmp_path: Path) -> None:
    samples = [(0.0, [leaf("10:", bytes=9, drops=50)]), (1.0, [leaf("10:", bytes=9, drops=3)])]
    series = read_queue(write(tmp_path / "q", samples), "lan", lambda t: 1e6)
    assert series.drops_per_s == [(1.0, None)] and series.marks_per_s == [(1.0, 0.0)]


def test_a_qdisc_that_tells_its_delay_is_believed(tmp_path: Path) -> None:
    samples = [(0.0, [leaf("10:", kind="dualpi2", bytes=9, delay_l=900, delay_c=15_000)])]
    series = read_queue(write(tmp_path / "q", samples), "lan", lambda t: 1e6)
    assert series.delays_ms == {"delay_l": [(0.0, 0.9)], "delay_c": [(0.0, pytest.approx(15))]}


def test_no_file_gives_empty_series(tmp_path: Path) -> None:
    assert read_queue(tmp_path / "none", "lan", lambda t: 1e6) == QueueSeries()
