# SPDX-License-Identifier: Apache-2.0
"""Power cuts: an ext4 of its own is shut down at some moment, without what it had not written, and mounted again.

The shutdown is the one by which file systems test themselves (EXT4_IOC_SHUTDOWN, with its journal not flushed): what
was in memory alone is gone, and the journal is recovered at the next mount.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import random
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from sojourn.hardware.machine import cache
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import verify
from sojourn.harness.experiment.rescore import replace
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.manifest import PARTIAL, StoreError, read_manifest
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import SCORES, Scores
from tests.unit.harness.conftest import scores

__all__ = ["scores"]

pytestmark = pytest.mark.lab

FEW, MANY = 6, 200
#: Not before a record is asked for does ext4 write its journal: nothing is kept by luck.
MOUNT = "loop,commit=300"
_SHUTDOWN, _WITHOUT_THE_JOURNAL = 0x8004587D, 2


def at_work(place: Path, scores: Scores, said: Path) -> None:
    """Make runs, bundles' runs and cache entries, and tell of each once it is said to be done, until the power goes."""
    os.environ["SOJOURN_CACHE"] = str(place / "cache")
    sys.stdout, sys.stderr = said.open("w"), open(os.devnull, "w")  # noqa: SIM115 (until it is killed)
    results = place / "results"
    for number in range(10_000):
        with RunStore(results).create("t", f"c{number}") as run:
            for name in ("client.pcapng.zst", "player.jsonl"):
                (run.path / name).write_bytes(random.randbytes(200_000))
            (run.path / SCORES).write_text(scores.model_dump_json())
            path = run.commit()
        print(json.dumps(["committed", path.name]), flush=True)
        replace(path, scores.model_copy(update={"scorer": "another"}))
        print(json.dumps(["rescored", path.name]), flush=True)
        entry = cache.build_once(place / "cache" / f"entry{number}", _fill)
        print(json.dumps(["built", entry.name]), flush=True)


def _fill(work: Path) -> None:
    (work / "made").write_bytes(b"whole" * 50_000)


def survey(place: Path, told: list[tuple[str, str]]) -> Counter[str]:
    """Judge what is there after the power is back; `told` is what had been said to be done."""
    seen = Counter[str]()
    done = {what: {name for kind, name in told if kind == what} for what in ("committed", "rescored", "built")}
    runs = {run.name: run for run in (place / "results").iterdir()} if (place / "results").exists() else {}
    assert done["committed"] <= set(runs), "a committed run is gone"
    for name, run in runs.items():
        if run.suffix == PARTIAL:
            with pytest.raises(StoreError):
                load_run(run)
            seen["partial"] += 1
            continue
        assert read_manifest(run).status == "valid"
        verify(run, derived=(SCORES,))  # raw files are as recorded
        try:
            assert load_run(run).scores.scorer == "another" or name not in done["rescored"]
            seen["valid"] += 1
        except StoreError:  # the cut came between new scores and their seal: refused, not told
            assert name not in done["rescored"]
            seen["refused"] += 1
    os.environ["SOJOURN_CACHE"] = str(place / "cache")
    for entry in (place / "cache").glob("entry*") if (place / "cache").exists() else ():
        builds: list[int] = []

        def build(work: Path, builds: list[int] = builds) -> None:
            builds.append(1)
            _fill(work)

        whole = cache.build_once(entry, build)
        assert (whole / "made").read_bytes() == b"whole" * 50_000
        assert not builds or entry.name not in done["built"]
        seen["rebuilt" if builds else "whole"] += 1
    return seen


def trial(place: Path, scores: Scores, seed: int) -> None:
    """One power cut; runs in a mount namespace of its own, in which nothing is left."""
    image, there = place / "disk.img", place / "disk"
    subprocess.run(["mount", "-o", MOUNT, str(image), str(there)], check=True)
    said = place / "said"
    said.write_text("")  # not on the disk that loses its power
    worker = multiprocessing.get_context("fork").Process(target=at_work, args=(there, scores, said))
    worker.start()
    while not said.stat().st_size:
        assert worker.is_alive()
        time.sleep(0.01)
    time.sleep(random.Random(seed).uniform(0, 0.5))
    told = said.read_text()
    descriptor = os.open(there, os.O_RDONLY)
    fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_THE_JOURNAL))
    os.close(descriptor)
    worker.kill()
    worker.join()
    subprocess.run(["umount", str(there)], check=True)
    subprocess.run(["mount", "-o", MOUNT, str(image), str(there)], check=True)
    lines = [json.loads(line) for line in told.splitlines(keepends=True) if line.endswith("\n")]
    seen = survey(there, [(kind, name) for kind, name in lines])
    for left in there.iterdir():
        subprocess.run(["rm", "-rf", str(left)], check=True)
    subprocess.run(["umount", str(there)], check=True)
    print(json.dumps(seen), flush=True)


def cuts(place: Path, scores: Scores, count: int) -> Counter[str]:
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("needs root and loop devices: a file system of its own is mounted")
    (place / "scores.json").write_text(scores.model_dump_json())
    (place / "disk").mkdir()
    with (place / "disk.img").open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(place / "disk.img")], check=True)
    done = subprocess.run(
        ["unshare", "--mount", "--propagation=private", sys.executable, "-m", "tests.lab.test_power_cut", str(place),
         str(count)],
        capture_output=True, text=True, cwd=CHECKOUT,
    )  # fmt: skip
    cut = [Counter[str](json.loads(line)) for line in done.stdout.splitlines()]
    if not cut and "mount" in done.stderr and "loop" in done.stderr:
        pytest.skip(f"no loop device can be had here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0 and len(cut) == count, f"cut {len(cut)}: {done.stderr[-2000:]}"
    total = sum(cut, Counter[str]())
    print(dict(total))
    return total


def test_a_power_cut_takes_nothing_that_was_said_to_be_there(tmp_path: Path, scores: Scores) -> None:
    assert cuts(tmp_path, scores, FEW)["valid"] >= FEW


@pytest.mark.nightly
def test_a_night_of_power_cuts(tmp_path: Path, scores: Scores) -> None:
    assert cuts(tmp_path, scores, MANY)["valid"] >= MANY


if __name__ == "__main__":
    where, count = Path(sys.argv[1]), int(sys.argv[2])
    known = Scores.model_validate_json((where / "scores.json").read_text())
    for seed in range(count):
        trial(where, known, seed)
