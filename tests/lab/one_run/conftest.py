# SPDX-License-Identifier: Apache-2.0
"""Runs of the main job that tests look at together."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardware.images.desktop import ensure_desktop
from harness.store.manifest import MANIFEST, read_manifest
from tests.lab.canaries import ENVIRONMENT, PROJECT
from tests.lab.main_job import run_main_job


@pytest.fixture(scope="session")
def harm_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid run of the main job through fq_codel with one queue."""
    return valid_run(tmp_path_factory, "--timeline=solo:8,cubic:10,solo:4,prague:10,solo:3")


@pytest.fixture(scope="session")
def l4s_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid run of the main job through dualpi2, by the other driver and the other recorder."""
    ensure_desktop(["obs"])  # with what is not there yet fetched by no canary's proxy
    programs = "--driver=selenium", "--recorder=obs"
    return valid_run(tmp_path_factory, "--qdisc=dualpi2", "--timeline=solo:6,cubic:7,prague:10", *programs)


@pytest.fixture(scope="session")
def ipv6_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid run of the main job over IPv6, through dualpi2, the film by HTTP/3."""
    over = "--ip-version=6", "--origin-protocol=h3"
    return valid_run(tmp_path_factory, "--qdisc=dualpi2", "--timeline=solo:6,cubic:7,prague:10", *over)


def valid_run(tmp_path_factory: pytest.TempPathFactory, *arguments: str) -> Path:
    """Make a run in simulated time, valid whatever else this machine does, and return its directory."""
    done = run_main_job(results := tmp_path_factory.mktemp(PROJECT), *arguments, **ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (manifest.parent for manifest in results.glob(f"*/{MANIFEST}"))
    assert str(path) in done.stdout and read_manifest(path).status == "valid"
    return path
