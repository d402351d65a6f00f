# SPDX-License-Identifier: Apache-2.0
"""Runs of the main job that tests look at together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from sojourn.hardware.images.desktop import ensure_desktop
from sojourn.harness.store.manifest import MANIFEST, read_manifest
from sojourn.harness.store.runs import RunStore
from tests.lab.canaries import ENVIRONMENT, PROJECT
from tests.lab.main_job import run_harm, run_main_job

#: The player's buffer: each second of it is one more of the warm-up.
BUFFER = "--buffer=2"
#: Of the runs through dualpi2, which are compared.
L4S = BUFFER, "--qdisc=dualpi2", "--timeline=solo:5,cubic:4,prague:6"


@dataclass(frozen=True)
class Repeated:
    """A series of the main job: where its runs are, by seed, and what it printed."""

    results: Path
    runs: dict[int | None, Path]
    stdout: str


@pytest.fixture(scope="session")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Repeated:
    """Two valid runs through exactly fq_codel with one queue, side by side, with different orders of contenders."""
    options = BUFFER, "--timeline=solo:5,cubic:4,solo:2,prague:4,solo:2", "--exact", "--repeat=2", "--seed=3"
    done = run_harm(results := tmp_path_factory.mktemp(PROJECT), *options, **ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = {read_manifest(run).seed: run for run in RunStore(results).runs()}
    assert {tuple(read_manifest(run).command_line[:2]) for run in runs.values()} == {("sojourn", "harm")}
    assert set(runs) == {3, 4} and {read_manifest(run).status for run in runs.values()} == {"valid"}
    return Repeated(results, runs, done.stdout)


@pytest.fixture(scope="session")
def harm_run(repeated: Repeated) -> Path:
    """The one of them in which CUBIC comes before Prague."""
    (run,) = (run for run in repeated.runs.values() if contenders(run) == ["cubic", "prague"])
    return run


def contenders(run: Path) -> list[str]:
    """Return the contenders of a run in their order."""
    phases = json.loads((run / "timeline.json").read_text())["phases"]
    return [phase["contender"] for phase in phases if phase["contender"]]


@pytest.fixture(scope="session")
def l4s_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid run of the main job through dualpi2 on exactly its path, by the other driver and the other recorder."""
    ensure_desktop(["obs", "selenium"])  # with what is not there yet fetched by no canary's proxy
    programs = "--driver=selenium", "--recorder=obs"
    return valid_run(tmp_path_factory, *L4S, "--exact", *programs)


@pytest.fixture(scope="session")
def ipv6_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid run of the main job over IPv6, through dualpi2, the film by HTTP/3, until the picture has recovered."""
    over = "--ip-version=6", "--origin-protocol=h3"
    *options, timeline = L4S
    return valid_run(tmp_path_factory, *options, f"{timeline},solo:2+", *over)


def valid_run(tmp_path_factory: pytest.TempPathFactory, *arguments: str) -> Path:
    """Make a run in simulated time, valid whatever else this machine does, and return its directory."""
    done = run_main_job(results := tmp_path_factory.mktemp(PROJECT), *arguments, **ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (manifest.parent for manifest in results.glob(f"*/{MANIFEST}"))
    assert read_manifest(path).command_line[:2] == ["pytest", "tests/test_video_harm.py"]
    assert str(path) in done.stdout and read_manifest(path).status == "valid"
    return path
