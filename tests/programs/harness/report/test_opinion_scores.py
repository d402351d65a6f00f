# SPDX-License-Identifier: Apache-2.0
"""The reference software may not be passed on: a program that answers in its documented form stands in for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.harness.report import opinion_scores
from sojourn.harness.store.loaded import LoadError
from sojourn.scoring.schema.scores import SCORES, Scores
from tests.refusals import refusal
from tests.unit.harness.sealed import seal

ANSWER = """#!/bin/sh
grep -q '"I13"' "$1" && echo '{"'"$1"'": {"O23": 5.0, "O34": [4.1], "O35": 4.1, "O46": 3.9, "mode": 0, "streamId": 1}}'
"""


@pytest.fixture
def run(tmp_path: Path, scores: Scores) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    heights = [720.0] * 10 + [240.0] * 10 + [720.0] * 10
    series = scores.series.model_copy(update={"t": [float(t) for t in range(30)], "step_s": 1.0, "height": heights})
    (run / SCORES).write_text(scores.model_copy(update={"series": series}).model_dump_json())
    clip = {"frames": 1800, "fps": 30, "heights": [240, 720], "rates_bps": [300e3, 4e6]}
    (run / "lab.json").write_text(json.dumps({"clip": clip}))
    return seal(run)


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / opinion_scores.PROGRAM
    file.write_text(text)
    file.chmod(0o755)
    monkeypatch.setattr(opinion_scores, "find", lambda name: str(folder / name))


def test_each_phase_is_asked_for_and_its_input_is_kept(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, ANSWER, monkeypatch)
    found = opinion_scores.scores(run, tmp_path / "inputs")
    assert found == dict.fromkeys(("solo-1", "prague", "solo-2"), (4.1, 3.9))
    kept = json.loads((tmp_path / "inputs" / "prague.json").read_text())
    assert {segment["resolution"] for segment in kept["I13"]["segments"]} == {"426x240"}


def test_a_missing_program_is_told_with_its_terms(run: Path) -> None:
    with refusal(opinion_scores.MosError, "missing-program", "ITU-T P.1203"):
        opinion_scores.scores(run)


def test_a_program_that_fails_is_told(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "#!/bin/sh\necho 'no display size' >&2\nexit 1\n", monkeypatch)
    with refusal(opinion_scores.MosError, "failed", "solo-1.json: ", "display size"):
        opinion_scores.scores(run)


def test_a_void_run_has_none(run: Path, scores: Scores) -> None:
    void = scores.model_copy(update={"validity": scores.validity.model_copy(update={"valid": False})})
    (run / SCORES).write_text(void.model_dump_json())
    seal(run)
    with refusal(LoadError, "invalid-run"):
        opinion_scores.scores(run)


def test_a_call_has_no_renditions(run: Path) -> None:
    clip = {"frames": 1800, "fps": 30, "heights": [], "rates_bps": [2.5e6]}
    (run / "lab.json").write_text(json.dumps({"clip": clip}))
    seal(run)
    with refusal(opinion_scores.MosError, "unsupported", run, "bit rates of its renditions"):
        opinion_scores.scores(run)


def test_the_name_of_a_phase_is_no_path(run: Path, tmp_path: Path) -> None:
    scores = Scores.model_validate_json((run / SCORES).read_bytes())
    phases = [phase.model_copy(update={"name": f"../../{tmp_path}/{phase.name}"}) for phase in scores.phases]
    (run / SCORES).write_text(scores.model_copy(update={"phases": phases}).model_dump_json())
    seal(run)
    before = {*tmp_path.iterdir()}
    with refusal(opinion_scores.MosError, "missing-program", "ITU-T P.1203"):
        opinion_scores.scores(run, tmp_path / "inputs")
    assert {*tmp_path.iterdir()} - before == {tmp_path / "inputs"}
    assert all(file.parent == tmp_path / "inputs" for file in (tmp_path / "inputs").rglob("*"))
