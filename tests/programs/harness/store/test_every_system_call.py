# SPDX-License-Identifier: Apache-2.0
"""A kill, a full disk or a broken one at each system call of commit, rescore, prune and import.

strace(1) makes the Nth call of a kind fail, or kills the process at it. Whatever comes of that: what was recorded is
still there, what is told as valid verifies, nothing gives another figure, and the same done again succeeds.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import BundleError, verify
from sojourn.harness.bundle.export import export
from sojourn.harness.report.index import read_folder
from sojourn.harness.store.loaded import LoadError, load_run
from sojourn.harness.store.manifest import PARTIAL, StoreError, read_manifest
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import SCORES, Scores

#: Calls by which something changes on the disk.
CALLS = (
    "openat", "write", "pwrite64", "rename", "mkdir", "unlink", "unlinkat", "rmdir", "ftruncate", "fsync", "syncfs",
    "chmod", "fchmod", "fchmodat", "copy_file_range", "sendfile", "flock",
)  # fmt: skip
FAULTS = {"killed": "signal=SIGKILL", "full": "error=ENOSPC", "broken": "error=EIO"}
#: Of all places how many an ordinary run of the tests tries; a night tries all.
SAMPLE = 8
RAW = {"client.pcapng.zst": b"packets" * 1000, "player.jsonl": b'{"t": 1}\n' * 50}
#: An operation on what lies in the working directory, between two calls that are found in the trace.
DO = """
import os, sys
from contextlib import suppress
from pathlib import Path
import sojourn.harness.bundle.archive, sojourn.harness.experiment.rescore, sojourn.harness.store.runs
from sojourn.harness.store.manifest import prune
from sojourn.scoring.schema.scores import Scores

(what,) = sys.argv[1:]
here = Path.cwd()
runs = [path for path in (here / "results").glob("*Z-*")] if (here / "results").exists() else []
scores = Scores.model_validate_json((here / "new.json").read_bytes())
sojourn.harness.store.runs.git_state = lambda: None
with suppress(OSError):
    os.stat("/begin")
if what == "commit":
    with sojourn.harness.store.runs.RunStore(here / "results").create("t", "c") as run:
        for name in ("client.pcapng.zst", "player.jsonl"):
            (run.path / name).write_bytes((here / name).read_bytes())
        (run.path / "scores.json").write_text(scores.model_dump_json())
        run.commit()
elif what == "rescore":
    sojourn.harness.experiment.rescore.replace(runs[0], scores)
elif what == "prune":
    prune(runs[0], "client.pcapng.zst")
elif what == "import":
    sojourn.harness.bundle.archive.import_bundle(here / "run.tar.zst", here / "results")
with suppress(OSError):
    os.stat("/end")
"""


@dataclass(frozen=True)
class Bench:
    """Where an operation is done, over and over, each time from the same state."""

    folder: Path
    scores: Scores
    """Those that are there, or come to be."""
    other: Scores

    def fresh(self, what: str) -> Path:
        """Return a working directory as the operation finds it."""
        place = self.folder / "place"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder / what, place)
        return place


def run_in(results: Path, scores: Scores) -> Path:
    with RunStore(results).create("t", "c") as run:
        for name, content in RAW.items():
            (run.path / name).write_bytes(content)
        (run.path / SCORES).write_text(scores.model_dump_json())
        return run.commit()


@pytest.fixture
def bench(scores: Scores, tmp_path: Path) -> Bench:
    folder = tmp_path
    other = scores.model_copy(update={"scorer": "another"})
    for what in ("commit", "rescore", "prune", "import"):
        (place := folder / what).mkdir()
        (place / "new.json").write_text(other.model_dump_json())
        for name, content in RAW.items():
            (place / name).write_bytes(content)
        if what in ("rescore", "prune"):
            run_in(place / "results", scores)
        if what == "import":
            run = run_in(folder / "elsewhere", scores)
            export(run, place / "run.tar.zst")
    return Bench(folder, scores, other)


def perform(place: Path, what: str, *strace: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PYTHONPATH": str(CHECKOUT / "harness" / "api"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }
    return subprocess.run(
        [*strace, sys.executable, "-c", DO, what], cwd=place, capture_output=True, text=True, env=environment
    )


def places(bench: Bench, what: str) -> list[tuple[str, int]]:
    """Each call of the operation: its name, and which of its name it is since the process began."""
    log = bench.folder / f"{what}.trace"
    # With its own filter strace is quick, and injects nothing.
    only = f"trace={','.join((*CALLS, 'newfstatat', 'stat'))}"
    traced = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(log), "-e", only]
    done = perform(bench.fresh(what), what, *traced)
    assert done.returncode == 0, done.stderr
    counts, inside, chosen = Counter[str](), False, []
    lines = log.read_text().splitlines()
    (doer,) = {line.split()[0] for line in lines if '"/begin"' in line}
    # strace counts for each process alone.
    for line in (line for line in lines if line.split()[0] == doer):
        name = line.split(None, 1)[1].partition("(")[0]
        if '"/begin"' in line or '"/end"' in line:
            inside = '"/begin"' in line
        elif name in CALLS:
            counts[name] += 1
            if inside:
                chosen.append((name, counts[name]))
    assert len(chosen) > 5
    return chosen


def judge_commit(place: Path, bench: Bench, ended_well: bool) -> None:
    runs = list((place / "results").glob("*Z-t-c*")) if (place / "results").exists() else []
    assert len(runs) <= 1
    for run in runs:
        if run.suffix == PARTIAL:
            with pytest.raises(StoreError):
                load_run(run)
        else:
            assert verify(run).status == "valid" and load_run(run).scores == bench.other
    assert not ended_well or (runs and runs[0].suffix != PARTIAL)
    with suppress(OSError):
        read_folder(place / "results")
    assert perform(place, "commit").returncode == 0
    kept = [run for run in (place / "results").iterdir() if (run / "player.jsonl").exists()]
    assert any(run.suffix != PARTIAL and verify(run).status == "valid" for run in kept)


def judge_rescore(place: Path, bench: Bench, ended_well: bool) -> None:
    (run,) = (place / "results").iterdir()
    assert {name: (run / name).read_bytes() for name in RAW} == RAW
    try:
        told = load_run(run).scores
        assert told in (bench.scores, bench.other) and (told == bench.other or not ended_well)
    except LoadError as refused:
        assert "does not match the manifest" in str(refused) and not ended_well
    assert perform(place, "rescore").returncode == 0
    assert load_run(run).scores == bench.other


def judge_prune(place: Path, bench: Bench, ended_well: bool) -> None:
    (run,) = (place / "results").iterdir()
    verify(run)
    assert load_run(run).scores == bench.scores and (run / "player.jsonl").read_bytes() == RAW["player.jsonl"]
    manifest = read_manifest(run)
    assert "client.pcapng.zst" in (manifest.pruned if not (run / "client.pcapng.zst").exists() else {
        **manifest.files, **manifest.pruned
    })  # fmt: skip
    assert perform(place, "prune").returncode == 0
    assert not (run / "client.pcapng.zst").exists() and verify(run).pruned.keys() == {"client.pcapng.zst"}


def judge_import(place: Path, bench: Bench, ended_well: bool) -> None:
    runs = list((place / "results").glob("[!.]*")) if (place / "results").exists() else []
    for run in runs:
        assert verify(run).status == "valid" and load_run(run).scores == bench.scores
    assert runs or not ended_well
    shutil.rmtree(runs[0]) if runs else None
    assert perform(place, "import").returncode == 0
    (run,) = (place / "results").iterdir()  # what the killed one left is gone
    assert verify(run).status == "valid"


JUDGES: dict[str, Callable[[Path, Bench, bool], None]] = {
    "commit": judge_commit, "rescore": judge_rescore, "prune": judge_prune, "import": judge_import,
}  # fmt: skip


def attempt(bench: Bench, what: str, name: str, nth: int, fault: str) -> str:
    """Do it with a fault at one call and judge what is left; return how it ended."""
    place = bench.fresh(what)
    injected = f"inject={name}:{FAULTS[fault]}:when={nth}"
    done = perform(place, what, "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={name}", "-e", injected)
    assert (done.returncode == -9) == (fault == "killed"), f"{what}, {fault} at {name} {nth}: {done.returncode}"
    try:
        JUDGES[what](place, bench, done.returncode == 0)
    except (AssertionError, StoreError, BundleError, OSError, ValueError) as wrong:
        raise AssertionError(f"{what}, {fault} at {name} {nth}: {wrong}; it said: {done.stderr[-600:]}") from wrong
    return "ended well" if done.returncode == 0 else "killed" if fault == "killed" else "refused"


@pytest.mark.parametrize("what", JUDGES)
def test_a_fault_at_some_call(bench: Bench, what: str) -> None:
    """A kill before the last name is put in place, which comes of a wrong order, and others at random."""
    everywhere = [(name, nth, fault) for name, nth in places(bench, what) for fault in FAULTS]
    last = max(place for place in everywhere if place[0] == "rename" and place[2] == "killed")
    tried = [last, *random.Random(20).sample(everywhere, SAMPLE // len(JUDGES) - 1)]
    print(what, len(everywhere), Counter(attempt(bench, what, *fault) for fault in tried))


@pytest.mark.nightly
@pytest.mark.parametrize("what", JUDGES)
def test_a_fault_at_each_call(bench: Bench, what: str) -> None:
    everywhere = [(name, nth, fault) for name, nth in places(bench, what) for fault in FAULTS]
    print(what, len(everywhere), Counter(attempt(bench, what, *fault) for fault in everywhere))
