# SPDX-License-Identifier: Apache-2.0
"""The scores of a cell's run are those of its packets, its queue's protection and its call's sound."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.scoring.schema.columns import ESTIMATES, TALKS, TONES
from sojourn.scoring.score_cell import score_cell
from sojourn.traffic.spec import Call

SECONDS = 4.0
CELL = Cell(name="c", hops=(dumbbell.bottleneck(50, "dualpi2"),), seconds=SECONDS, call=Call(rtt_us=20_000, sound=True))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    columns = {name: kind for name, kind in TALKS.items() if name != "delay_us"}
    packets = [(t / 10, talk, 1000, 0) for t in range(40) for talk in range(2)]
    pl.DataFrame(packets, schema=columns, orient="row").write_csv(tmp_path / "talks.csv")
    allowed = [(0.5, 0, 2e6), (0.5, 1, 2e6)]
    pl.DataFrame(allowed, schema=ESTIMATES, orient="row").write_csv(tmp_path / "estimates.csv")
    said = [(n / 50, talk, 60.0 + 40 * talk, 5.0 * talk, 20.0 + 5 * talk) for n in range(200) for talk in range(2)]
    pl.DataFrame(said, schema=TONES, orient="row").write_csv(tmp_path / "tones.csv")
    protected = {"kind": "dualpi2_qprot", "sanctioned": 3, "pkts-in-l": 97, "sanctioned_flows": 1}
    (tmp_path / "queues.jsonl").write_text(json.dumps({"t": 1.0, "hop": 0, "dev": "lan", "qdiscs": [protected]}) + "\n")
    return tmp_path


def test_each_way_of_a_call_has_the_sound_at_its_end(run: Path) -> None:
    document = score_cell(CELL, run, window_s=2, tail_s=0).document()
    assert [(way["ear_p50_ms"], way["ear_gap_share"], way["ear_loss"]) for way in document["call"]] == [
        (60, 0, 0), (100, 0.2, 0),
    ]  # fmt: skip
    assert document["call"][0]["mbps"] == 0.08 and document["protection"]["sanctioned"] == 3


def test_gaps_of_an_earlier_version_are_shares_of_the_tones(run: Path) -> None:
    pl.read_csv(run / "tones.csv").drop("ear_ms").write_csv(run / "tones.csv")
    document = score_cell(CELL, run, window_s=2, tail_s=0).document()
    assert [way["ear_gap_share"] for way in document["call"]] == [0, 0.25]


def test_without_sound_the_document_has_no_figures_of_it(run: Path) -> None:
    whole = score_cell(CELL, run, window_s=2, tail_s=0).document()
    (run / "tones.csv").unlink()
    silent = score_cell(CELL, run, window_s=2, tail_s=0).document()
    assert not any(name.startswith(("ear", "r_factor")) for way in silent["call"] for name in way)
    kept = [{name: value for name, value in way.items() if name in silent["call"][0]} for way in whole["call"]]
    assert silent == {**whole, "call": kept}
