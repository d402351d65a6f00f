# SPDX-License-Identifier: Apache-2.0
"""Power cuts: an ext4 of its own is shut down at a moment, without what it had not written, and mounted again.

The shutdown is the one by which file systems test themselves (EXT4_IOC_SHUTDOWN, with its journal not flushed): what
was in memory alone is gone, and the journal is recovered at the next mount.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from sojourn.hardware.machine import cache
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import import_bundle, verify
from sojourn.harness.bundle.export import export
from sojourn.harness.experiment.rescore import replace
from sojourn.harness.store.claim import claim
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.manifest import PARTIAL, StoreError, read_manifest
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import SCORES, Scores
from tests.unit.harness.conftest import scores

__all__ = ["scores"]

pytestmark = pytest.mark.lab

#: Cuts at any moment, after one at the end of each step.
FEW, MANY = 2, 200
#: Not before it is asked to does ext4 write its journal, or a file that replaces another: nothing is kept by luck.
MOUNT = "loop,commit=300,noauto_da_alloc"
_SHUTDOWN, _WITHOUT_THE_JOURNAL = 0x8004587D, 2


#: What is done in turn, and said to be done.
STEPS = "committed", "rescored", "built", "cell", "exported", "imported"


def at_work(place: Path, scores: Scores, said: Path, last: str) -> None:
    """Make runs, cells, bundles, runs of these and cache entries, and say of each that it is done.

    It goes on until the power goes, or waits for that once the step `last` is done.
    """
    os.environ["SOJOURN_CACHE"] = str(place / "cache")
    sys.stdout, sys.stderr = said.open("w"), open(os.devnull, "w")  # noqa: SIM115 (until it is killed)
    results = place / "results"
    (place / "bundles").mkdir()

    def done(step: str, name: str) -> None:
        print(json.dumps([step, name]), flush=True)
        if step == last:
            signal.pause()

    for number in range(10_000):
        with RunStore(results).create("t", f"c{number}") as run:
            for name in ("client.pcapng.zst", "player.jsonl"):
                (run.path / name).write_bytes(random.randbytes(200_000))
            (run.path / SCORES).write_text(scores.model_dump_json())
            path = run.commit()
        done("committed", path.name)
        replace(path, scores.model_copy(update={"scorer": "another"}))
        done("rescored", path.name)
        entry = cache.build_once(place / "cache" / f"entry{number}", _fill)
        done("built", entry.name)
        cell = claim(place / "cells" / f"cell{number}")
        assert cell
        _fill(cell.folder)
        done("cell", cell.commit().name)
        archive = export(path, place / "bundles" / f"{path.name}.tar.zst")
        done("exported", archive.name)
        done("imported", import_bundle(archive, place / "imported").name)


def _fill(work: Path) -> None:
    (work / "made").write_bytes(b"whole" * 50_000)


def survey(place: Path, told: list[tuple[str, str]]) -> Counter[str]:
    """Judge what is there after the power is back; `told` is what had been said to be done."""
    seen = Counter[str]()
    done = {what: {name for kind, name in told if kind == what} for what in STEPS}

    def there(folder: str, step: str) -> dict[str, Path]:
        """What is in a folder by its final name, among it all that was said to be."""
        found = {path.name: path for path in (place / folder).glob("[!.]*")}
        assert done[step] <= set(found), f"what was {step} is gone"
        return found

    runs = there("results", "committed")
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
    for name, cell in there("cells", "cell").items():
        assert name.endswith(PARTIAL) or (cell / "made").read_bytes() == b"whole" * 50_000
    for path in (*there("bundles", "exported").values(), *there("imported", "imported").values()):
        assert path.name.endswith(PARTIAL) or verify(path).status == "valid"
    os.environ["SOJOURN_CACHE"] = str(place / "cache")
    for entry in there("cache", "built").values():
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
    last = STEPS[seed] if seed < len(STEPS) else ""
    worker = multiprocessing.get_context("fork").Process(target=at_work, args=(there, scores, said, last))
    worker.start()
    while f'["{last}' not in said.read_text():
        assert worker.is_alive()
        time.sleep(0.01)
    time.sleep(0 if last else random.Random(seed).uniform(0, 0.5))
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
    assert cuts(tmp_path, scores, len(STEPS) + FEW)["valid"] >= len(STEPS)


@pytest.mark.nightly
def test_a_night_of_power_cuts(tmp_path: Path, scores: Scores) -> None:
    assert cuts(tmp_path, scores, MANY)["valid"] >= MANY


if __name__ == "__main__":
    where, count = Path(sys.argv[1]), int(sys.argv[2])
    known = Scores.model_validate_json((where / "scores.json").read_text())
    for seed in range(count):
        trial(where, known, seed)
