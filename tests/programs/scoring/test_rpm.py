# SPDX-License-Identifier: Apache-2.0
"""The known run with foreign probes: their figures and harm, their gate and table; without them nothing of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.scoring.score import score_run
from sojourn.scoring.tables import TABLES
from tests.programs.scoring.conftest import BESIDE, SOLO, START

CODE = "rpm-measured"


def add_probes(run: Path, alone_ms: float = 20, loaded_ms: float | None = 120) -> None:
    """Add a probe every half second, of which each part takes as long as that."""
    (run / "options.json").write_text(json.dumps({"rpm": True}))
    lines = []
    for n in range(round((SOLO + BESIDE + 2) * 2)):
        t, took = START - 1 + n / 2, alone_ms if n / 2 < SOLO + 1 else loaded_ms
        times = {"tcp_ms": took, "tls_t": t, "tls_ms": took, "http_t": t, "http_ms": took}
        lines.append(json.dumps({"probe": "foreign", "t": t, "port": 40_000, **times}) + "\n")
    (run / "rpm.jsonl").write_text("".join(lines))


def test_each_phase_has_its_responsiveness_and_the_second_one_its_harm(run: Path) -> None:
    before = score_run(run)
    add_probes(run)
    scores = score_run(run)
    alone, loaded = scores.phases
    assert (alone.foreign_rpm, loaded.foreign_rpm) == (3000, 500)
    assert (loaded.foreign_tcp_ms, loaded.foreign_tls_ms, loaded.foreign_http_ms) == (120, 120, 120)
    (harm,) = [it for it in scores.harm if it.metric == "foreign_rpm"]
    assert (harm.solo, harm.value, harm.better) == (3000, 500, "more") and harm.harm == pytest.approx(5 / 6, abs=1e-4)
    assert {gate.code for gate in scores.validity.gates} == {gate.code for gate in before.validity.gates} | {CODE}
    assert scores.validity.failed == before.validity.failed
    rows = TABLES["responsiveness"].of(run)
    assert rows.height == (SOLO + BESIDE + 2) * 2 and set(rows["probe"]) == {"foreign"}


def test_a_run_without_them_has_no_word_of_them(run: Path) -> None:
    text = score_run(run).model_dump_json()
    assert "rpm" not in text and "foreign" not in text


@pytest.mark.parametrize("gone", [False, True])
def test_only_a_run_in_which_nothing_was_measured_is_void(run: Path, gone: bool) -> None:
    failed = score_run(run).validity.failed
    add_probes(run, loaded_ms=None)
    scores = score_run(run)
    assert scores.validity.failed == failed
    assert scores.phases[1].foreign_rpm == 0 and scores.phases[1].foreign_answered_share == 0
    add_probes(run, alone_ms=None, loaded_ms=None)
    if gone:
        (run / "rpm.jsonl").write_text("")
    assert score_run(run).validity.failed == [*failed, CODE]
