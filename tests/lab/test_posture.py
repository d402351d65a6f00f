# SPDX-License-Identifier: Apache-2.0
"""What a page may reach: no program that sees one is root or can become it, and nobody listens but who must."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps.call import BrowserCall
from sojourn.apps.youtube import YouTube
from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.hardware.machine.viewer import sandbox_refusal
from sojourn.harness.lab.contract import Lab
from sojourn.harness.lab.physical import PhysicalLab
from tests.lab import posture_inside
from tests.lab.inside import run_inside
from tests.lab.real_time.bench import Bench, bench, needs_root

pytestmark = pytest.mark.lab

#: What may listen at the client and at the server of a lab while a service plays; OBS at all addresses of the lab, for
#: which it has a password.
CLIENT = {"ffmpeg": r"udp .*", "obs": r"udp .*|tcp \*:\d+"}
SERVER = r"tcp 10\.42\.2\.10:(443|8443)|udp .*"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was seen in a simulated machine: a folder for each of SEEN."""
    YouTube().prepare()
    BrowserCall(bitrate_bps=1_000_000).prepare()
    run_inside(Path(posture_inside.__file__), folder := tmp_path_factory.mktemp("posture"), ["obs"])
    return folder


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("bench")) as nodes:
        yield nodes


@pytest.fixture
def virtual(nodes: Bench) -> Lab:
    return nodes.lab


def judge(told: dict[str, Any], recorder: str, driver: str) -> None:
    """Every program that sees a page: not root, no way to become it."""
    names = {program["name"] for program in told["programs"]}
    assert names >= {"chromium", "Xvfb", recorder, *(["chromedriver"] if driver == "selenium" else [])}
    for program in told["programs"]:
        assert 0 not in program["uids"], program
        assert program["bound"] == 1, program
        # The sandbox's own namespaces give some that are worth nothing outside of them.
        assert program["capabilities"] == 0 or program["name"] == "chromium", program
    for place, allowed in (("client", CLIENT[recorder]), ("server", SERVER)):
        assert not [line for line in told["listening"][place] if not re.fullmatch(allowed, line)], told["listening"]


@pytest.mark.nightly
@pytest.mark.parametrize("seen", posture_inside.SEEN)
def test_in_a_simulated_machine(simulated: Path, seen: str) -> None:
    _, driver, recorder = posture_inside.SEEN[seen]
    judge(json.loads((simulated / seen / "told.json").read_text()), recorder, driver)


@pytest.mark.nightly
@pytest.mark.parametrize("seen", posture_inside.SEEN)
def test_in_a_virtual_lab(virtual: Lab, seen: str, tmp_path: Path) -> None:
    judge_here(virtual, seen, tmp_path)


@pytest.mark.nightly
@needs_root
@pytest.mark.parametrize("seen", posture_inside.SEEN)
def test_in_a_physical_lab(nodes: Bench, seen: str, tmp_path: Path) -> None:
    """Its client and server are namespaces of this host."""
    with nodes.both_ends_here() as file, PhysicalLab(read_lab_file(file)) as lab:
        judge_here(lab, seen, tmp_path)


def judge_here(lab: Lab, seen: str, folder: Path) -> None:
    """On this host there is a sandbox as well, without which no live site is opened."""
    service, driver, recorder = posture_inside.SEEN[seen]
    told = posture_inside.look(lab, folder, service, driver, recorder)
    judge(told, recorder, driver)
    if refusal := sandbox_refusal():
        pytest.skip(refusal)
    browsers = [program for program in told["programs"] if program["name"] == "chromium"]
    assert any(program["shut in"] for program in browsers)
    for program in browsers:
        assert "--no-sandbox" not in program["words"]
        assert program["filtered"] == "2" or not program["shut in"], program
    if os.geteuid() == 0:  # a plain user's viewers are that user
        assert os.geteuid() not in {uid for program in told["programs"] for uid in program["uids"]}
