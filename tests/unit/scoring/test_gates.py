# SPDX-License-Identifier: Apache-2.0
"""A file in scoring/gates/ judges every run, without a line elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.hardware.machine.plugins import Broken
from sojourn.scoring import gates
from sojourn.scoring.evidence import RawFiles, RecordedPhase, Setting
from sojourn.scoring.validity import Limits

GATE = """
from sojourn.scoring.gates.base import gate_of_runs
from sojourn.scoring.validity import gate

@gate_of_runs
def short(files, setting, limits):
    seconds = setting.span[1] - setting.span[0]
    return [gate("length", seconds >= 30, f"{seconds:g} s", "at least 30 s")]
"""


def test_a_new_file_is_a_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "short_run.py").write_text(GATE)
    monkeypatch.setattr(gates, "__path__", [*gates.__path__, str(tmp_path)])
    setting = Setting((RecordedPhase("solo", None, 100.0, 120.0),), {})
    judged = {gate.name: gate for gate in gates.further_gates(RawFiles(tmp_path, []), setting, Limits())}
    assert not judged["length"].ok and judged["length"].reason == "length: 20 s; at least 30 s"


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
    setting = Setting((RecordedPhase("solo", None, 100.0, 120.0),), of_lab)
    found = [g for g in gates.further_gates(RawFiles(tmp_path, []), setting, Limits()) if g.name == "no advertisement"]
    assert [(gate.measured, gate.ok) for gate in found] == ([(measured, measured == "0.0 s in 0")] if measured else [])


def test_a_gate_that_cannot_be_loaded_is_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Broken("loud", "sojourn-example 1.0", "ModuleNotFoundError: No module named 'sounds'")
    monkeypatch.setattr(gates, "named", lambda group, kind: [broken])
    setting = Setting((RecordedPhase("solo", None, 100.0, 120.0),), {})
    judged = {gate.name: gate for gate in gates.further_gates(RawFiles(tmp_path, []), setting, Limits())}
    assert judged["gate loud"].reason == (
        "gate loud: cannot be judged: ModuleNotFoundError: No module named 'sounds'; mend or remove sojourn-example 1.0"
    )
