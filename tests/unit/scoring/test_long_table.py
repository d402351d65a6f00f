# SPDX-License-Identifier: Apache-2.0
"""The long table holds the figures of scores of any kind, and nothing that is no figure."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from sojourn.scoring.long_table import ALONE, COLUMNS, frame, rows_of
from sojourn.scoring.schema.metric import unit_of
from sojourn.scoring.schema.scores import LayerStep, PartyScores, Scores
from tests.unit.harness.conftest import scores

__all__ = ["scores"]  # a fixture


def test_a_victims_run_has_a_row_a_phase_and_metric(scores: Scores) -> None:
    rows = rows_of(scores)
    beside = next(phase for phase in scores.phases if phase.contender)
    found = {(row.phase, row.contender, row.metric): row.value for row in rows}
    assert found[beside.name, beside.contender, "victim_mbps"] == beside.victim_mbps
    assert scores.baseline and found[ALONE, None, "victim_mbps"] == scores.baseline.victim_mbps
    harm = scores.harm[0]
    assert found[harm.phase, harm.contender, f"harm.{harm.metric}"] == harm.harm
    assert not {"start", "end", "height_seconds", "name"} & {row.metric for row in rows}


def test_a_room_has_rows_of_every_party(scores: Scores) -> None:
    step = LayerStep(
        t=1,
        direction="down",
        mbps=8,
        seconds=9,
        first_drop_s=None,
        lowest_height=360,
        before_height=720,
        recovery_s=inf,
    )
    party = PartyScores(
        party=3, first_picture_s=0.2, phases=scores.phases, harm=scores.harm, renditions=[], freezes=[], steps=[step]
    )
    rows = rows_of(scores.model_copy(update={"parties": [party]}))
    found = {(row.phase, row.metric): (row.value, row.unit) for row in rows if row.metric.startswith("parties.3.")}
    first = scores.phases[0]
    assert found[first.name, "parties.3.victim_mbps"] == (first.victim_mbps, "Mbit/s")
    steps = {name: found[first.name, f"parties.3.steps.0.{name}"] for name in ("mbps", "seconds", "before_height")}
    assert steps == {"mbps": (8, "Mbit/s"), "seconds": (9, "s"), "before_height": (720, "lines")}
    assert found[first.name, "parties.3.steps.0.recovery_s"] == (inf, "s")
    assert found[scores.harm[0].phase, f"parties.3.harm.{scores.harm[0].metric}"] == (scores.harm[0].harm, "")


def test_a_cells_run_has_a_row_a_path() -> None:
    document = {
        "window_s": [2.0, 4.0],
        "flows": [{"flow": 0, "contender": "cubic", "rtt_ms": 20.0, "up": False, "d_ss_mbps": 8.0}],
        "last": {"d_ss_mbps": 8.0},
        "probes": [{"probe": 0, "p99_ms": "Infinity", "loss": None, "ccdf": {"ms": [1.0], "percent": [50.0]}}],
        "jain": 0.5,
    }
    rows = {row.metric: (row.value, row.unit) for row in rows_of(document)}
    assert rows == {"flows.0.d_ss_mbps": (8.0, "Mbit/s"), "probes.0.p99_ms": (inf, "ms"), "jain": (0.5, "")}


@pytest.mark.parametrize("odd", [{"a\x1b": 1}, {"x": nan}, {"x": True}, {"x": [1, 2]}, {"A" * 50: 1}, {"x": "12"}])
def test_what_is_no_figure_is_no_row(odd: dict[str, Any]) -> None:
    assert rows_of(odd) == []


def test_a_document_without_end_has_an_end() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    assert rows_of(deep) == []


def test_the_frame_names_experiment_run_and_unit(scores: Scores) -> None:
    table = frame([("m: a", "run", 3, rows_of({"call": [{"loss": 0.5, "p50_ms": 3}]}))])
    assert table.columns == list(COLUMNS)
    assert table.rows()[1] == ("m: a", "run", 3, "", None, "call.0.p50_ms", 3.0, "ms")
    assert unit_of("harm.rtt_p99_ms") == "" and unit_of("mean_height") == "lines"
