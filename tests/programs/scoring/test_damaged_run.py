# SPDX-License-Identifier: Apache-2.0
"""A run whose records are damaged in any way is void or says which file is at fault."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.records import RecordError
from scoring.score import score_run
from tests.unit.damage import EDITS, PART, TO, altered, damaged, fuzz

RECORDS = ("timeline.json", "lab.json", "bulk.json", "screen.json", "options.json")
LINES = ("host.jsonl", "player.jsonl", "qdisc.jsonl", "ss.jsonl")


@pytest.fixture(scope="module")
def light(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The known run without its recording and captures, which take long to read."""
    light = tmp_path_factory.mktemp("damage") / "light"
    run = Path(shutil.copytree(recorded, light, ignore=shutil.ignore_patterns("*.zst", "screen.mp4", "irtt*")))
    (run / "options.json").write_text('{"jitter_gate_ms": 2.0}')
    return run


@fuzz
@given(name=st.sampled_from(RECORDS + LINES), part=PART, to=TO, edits=st.one_of(st.none(), EDITS))
def test_a_run(light: Path, name: str, part: list[int], to: Any, edits: list[tuple[int, int, bytes]] | None) -> None:
    file = light / name
    whole = file.read_bytes()
    values = [json.loads(line) for line in whole.splitlines()] if name in LINES else json.loads(whole)
    changed = altered(values, part, to)
    lines = changed if name in LINES and isinstance(changed, list) else [changed]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    try:
        file.write_bytes(damaged(content, edits) if edits else content)
        scores = score_run(light)
        assert not scores.validity.valid and scores.harm == []
    except RecordError as error:
        assert ".json" in str(error)
    finally:
        file.write_bytes(whole)
