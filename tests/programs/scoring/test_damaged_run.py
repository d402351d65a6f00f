# SPDX-License-Identifier: Apache-2.0
"""A run whose records are damaged in any way is void or says which file is at fault."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.scoring.schema.records import RecordError
from sojourn.scoring.score import score_run
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


#: What a small file could make a scorer hold: a place in a record, and the value that asks for much.
BOMBS = {
    "timeline.json": [
        (["phases", 0, "end"], 1e11),
        (["phases", -1, "end"], 2e9 + 1e9),
        (["phases", 0, "start"], 0.0),
        (["phases", 0, "contender"], "+".join(["cubic*9999"] * 30_000)),
    ],
    "lab.json": [
        (["clip", "frames"], 10**15),
        (["clip", "fps"], 1e-9),
        (["rate_down_bps"], 1e300),
        (["rtt_ms"], 1e300),
    ],
    "screen.json": [(["start"], -1e11), (["expected"], 10**18), (["fps"], 1e-300)],
    "bulk.json": [(["flows", 0, "end"], 1e11), (["flows", 0, "start"], -1e11)],
    "host.jsonl": [([-1, "t"], 2e11)],
    "player.jsonl": [([-1, "t"], 2e11), ([-1, "totalFrames"], 1e300)],
    "qdisc.jsonl": [([-1, "t"], 2e11)],
    "ss.jsonl": [([-1, "t"], 2e11)],
}
SCORE = """
import resource, sys
from pathlib import Path
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.scoring.schema.records import RecordError
from sojourn.scoring.score import score_run
from tests.processes import peak_mb

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
for name in sys.argv[1:]:
    try:
        scores = score_run(Path(name))
        verdict = "VALID" if scores.validity.valid or scores.harm else "void"
        print(verdict, peak_mb())
    except RecordError as error:
        print("refused", error)
"""


def test_small_records_do_not_take_much_memory(light: Path, tmp_path: Path) -> None:
    runs = []
    for name, bombs in BOMBS.items():
        for where, value in bombs:
            run = Path(shutil.copytree(light, tmp_path / f"run{len(runs)}"))
            runs.append(run)
            text = (run / name).read_text()
            values = [json.loads(line) for line in text.splitlines()] if name in LINES else json.loads(text)
            part = values
            for key in where[:-1]:
                part = part[key]
            part[where[-1]] = value
            (run / name).write_text("\n".join(map(json.dumps, values)) if name in LINES else json.dumps(values))
    done = subprocess.run([sys.executable, "-c", SCORE, *map(str, runs)], capture_output=True, text=True, cwd=CHECKOUT)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-2000:]
    told = done.stdout.splitlines()
    assert len(told) == len(runs) and not [line for line in told if line.startswith("VALID")]
    assert all(int(line.split()[1]) < 1500 for line in told if line.startswith("void"))  # MiB


def test_a_file_beyond_any_runs_is_not_read(light: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(light, tmp_path / "run"))
    with (run / "lab.json").open("ab") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(RecordError, match=r"lab\.json has 1099511627776 bytes; none of a run has more"):
        score_run(run)


@pytest.mark.parametrize("name", ["lab.json", "player.jsonl", "irtt.json.gz"])
def test_what_would_become_much_is_not_parsed(name: str, recorded: Path, tmp_path: Path) -> None:
    """Of 3 bytes each there would be gigabytes of objects."""
    run = Path(shutil.copytree(recorded, tmp_path / "run"))
    bomb = b'{"round_trips": [' + b"[]," * (20 << 20) + b"[]]}"
    if name.endswith("l"):
        bomb = (b"[" + b"{}," * 63 + b"{}]\n") * (18 << 14)
    (run / name).write_bytes(gzip.compress(bomb, 1) if name.endswith("gz") else bomb)
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from sojourn.scoring.packets import latency\nfrom sojourn.scoring.schema import records\n"
        "from tests.processes import peak_mb\nfile = Path(sys.argv[1])\n"
        "shapes = {'.json': records.LAB, '.jsonl': records.PLAYER}\n"
        "reads = {'.json': records.read, '.jsonl': records.read_lines}\n"
        "try:\n"
        "    reads[file.suffix](file, shapes[file.suffix]) if file.suffix in reads else latency.read_irtt(file)\n"
        "except RuntimeError as refused:\n    print(peak_mb(), refused)\n"
    )
    words = [sys.executable, "-c", script, str(run / name)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=CHECKOUT, check=False)
    megabytes, _, why = done.stdout.partition(" ")
    assert "more than" in why and "values" in why, done.stderr[-2000:]
    assert int(megabytes) < 1800
