# SPDX-License-Identifier: Apache-2.0
"""A file in scoring/gates/ judges every run, without a line elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.plugins import Broken
from sojourn.scoring import gates
from sojourn.scoring.gates import gate, gate_of_runs, registry
from sojourn.scoring.gates.advertisements import advertisements
from sojourn.scoring.gates.base import RunGate
from sojourn.scoring.run_evidence import RunEvidence
from sojourn.scoring.validity import Gate

GATE = """
from sojourn.scoring.gates import gate, gate_of_runs

@gate_of_runs("run-length")
def short(run):
    seconds = run.setting.span[1] - run.setting.span[0]
    return [gate("run-length", "length", seconds >= 30, f"{seconds:g} s", "at least 30 s")]
"""


def recorded(folder: Path, **of_lab: object) -> RunEvidence:
    """A run of 20 s of which nothing but its setting is recorded."""
    phases = [{"name": "solo", "contender": None, "start": 100.0, "end": 120.0}]
    ends = {"client": "10.42.1.10", "receiver": "10.42.1.20", "server": "10.42.2.10", "sender": "10.42.2.20"}
    lab = {
        "addresses": ends, "ports": {"origin": 443}, "rtt_ms": 20, "rate_down_bps": 1e7, "rate_up_bps": 1e7,
        "qdisc_down": "pfifo", "qdisc_up": "pfifo", **of_lab,
    }  # fmt: skip
    (folder / "timeline.json").write_text(json.dumps({"phases": phases}))
    (folder / "lab.json").write_text(json.dumps(lab))
    return RunEvidence(folder)


def judged(run: RunEvidence) -> dict[str, Gate]:
    return {gate.code: gate for gate in registry.judged(run)}


def test_a_new_file_is_a_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "short_run.py").write_text(GATE)
    monkeypatch.setattr(gates, "__path__", [*gates.__path__, str(tmp_path)])
    found = judged(recorded(tmp_path))["run-length"]
    assert not found.ok and found.reason == "length: 20 s; at least 30 s"


def test_each_code_is_kebab_case_has_one_judge_and_is_documented() -> None:
    codes = [code for judge in registry.judges() if isinstance(judge, RunGate) for code in judge.codes]
    assert len(codes) == len(set(codes)) >= 29
    page = (CHECKOUT / "docs" / "measurement.md").read_text()
    assert [code for code in (*codes, registry.UNLOADED) if f"`{code}`" not in page] == []


@pytest.mark.parametrize("codes", [(), ("",), ("Two Words",), ("under_score",), ("good", "-bad")])
def test_a_code_that_is_not_kebab_case_is_refused(codes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="kebab-case"):
        gate_of_runs(*codes)


def test_a_gate_with_another_code_than_its_judge_registered_is_refused(tmp_path: Path) -> None:
    judge = gate_of_runs("one", "two")(lambda run: [gate("three", "x", True, "", "")])
    with pytest.raises(ValueError, match="'three' is none of one, two"):
        list(judge(recorded(tmp_path)))


def test_what_another_gate_finds_damaged_fails_too(tmp_path: Path) -> None:
    (tmp_path / "player.jsonl").write_bytes(b"\xff\xfe\n{}\n")
    assert judged(recorded(tmp_path))["file-whole"].name == "player.jsonl whole"
    assert [gate.code for gate in registry.judged(recorded(tmp_path))][-1] == "file-whole"


@pytest.mark.parametrize(
    ("of_lab", "told", "measured"),
    [
        ({}, [(90, True), (97, False)], "0.0 s in 0"),  # before the film
        ({}, [(110, True), (116.5, False)], "6.5 s in 1"),
        ({}, [(90, True), (103, False), (118, True)], "5.0 s in 2"),
        ({"own_folder": "0"}, [(110, True)], None),
        ({"clip": {}}, [(110, True)], None),
        ({"live": True, "clip": {}, "call": {"client_port": 1}}, [(110, True)], None),
    ],
)
def test_an_advertisement_in_the_timeline_of_a_live_film_is_told(
    tmp_path: Path, of_lab: dict[str, object], told: list[tuple[float, bool]], measured: str | None
) -> None:
    lines = [{"t": t, "event": "ad", "detail": on} for t, on in told]
    (tmp_path / "player.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = list(advertisements(recorded(tmp_path, **of_lab)))
    assert [(gate.measured, gate.ok) for gate in found] == ([(measured, measured == "0.0 s in 0")] if measured else [])


def test_a_gate_that_cannot_be_loaded_is_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Broken("loud", "sojourn-example 1.0", "ModuleNotFoundError: No module named 'sounds'")
    monkeypatch.setattr(registry, "named", lambda group, kind: [broken])
    assert judged(recorded(tmp_path))["gate-loaded"].reason == (
        "gate loud: cannot be judged: ModuleNotFoundError: No module named 'sounds'; "
        "repair or remove sojourn-example 1.0"
    )
