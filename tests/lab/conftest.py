# SPDX-License-Identifier: Apache-2.0
"""What tests look at together: a virtual lab, two runs of the main job; tests that break a lab make their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bottleneck.router import Router
from harness.lab import Lab
from harness.run import virtual_lab
from harness.store import MANIFEST, read_manifest
from tests.lab.bench import Bench, bench
from tests.lab.main_job import run_main_job


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where what a test starts has its scratch folders, and nobody else; the path is short, as sockets in it need."""
    with TemporaryDirectory(prefix="s") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A virtual lab that is up."""
    with virtual_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="session")
def harm_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid run of the main job through fq_codel with one queue."""
    return valid_run(tmp_path_factory, "--timeline=solo:8,cubic:10,solo:4,prague:10,solo:3")


@pytest.fixture(scope="session")
def l4s_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid run of the main job through dualpi2, by the other driver and the other recorder."""
    programs = "--driver=selenium", "--recorder=obs"
    return valid_run(tmp_path_factory, "--qdisc=dualpi2", "--timeline=solo:6,cubic:7,prague:10", *programs)


def valid_run(tmp_path_factory: pytest.TempPathFactory, *arguments: str) -> Path:
    """Make a run in simulated time, valid whatever else this machine does, and return its directory."""
    done = run_main_job(results := tmp_path_factory.mktemp("results"), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (manifest.parent for manifest in results.glob(f"*/{MANIFEST}"))
    assert str(path) in done.stdout and read_manifest(path).status == "valid"
    return path


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A virtual lab whose nodes stand for hardware."""
    with bench(tmp_path_factory.mktemp("bench")) as nodes:
        yield nodes


@pytest.fixture
def router(lab: Lab) -> Iterator[Router]:
    """The lab's router, clean before and after."""
    lab.router.clear()
    yield lab.router
    lab.router.clear()
