# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps import SERVICES
from harness.handover import CACHE, EVIDENCE, SOURCES, read_job, write_job
from harness.options import parse_options
from harness.store import CHECKOUT


def hand_over(folder: Path, **given: Any) -> bytes:
    """What goes into the machine for a user whose cache and results are below ``folder``."""
    options = parse_options(
        {"service": "call", "results": str(folder / "results"), **given},
        {name: service.defaults for name, service in SERVICES.items()},
    )
    service = SERVICES[options.service].from_options(options)
    service._cameras = [folder / "cache" / "camera" / "1" / "camera.y4m", CHECKOUT / "apps"]  # type: ignore[attr-defined]
    folders = {folder / "results" / "run": EVIDENCE, folder / "cache": CACHE, CHECKOUT: SOURCES}
    (job := folder / "job").mkdir(parents=True)
    write_job(job, options, service, folders)
    return (job / "job.pickle").read_bytes()


def test_no_two_hosts_hand_over_other_bytes(tmp_path: Path) -> None:
    one = hand_over(tmp_path / "a", seed="7")
    assert one == hand_over(tmp_path / "home" / "somebody", seed="7", repeat="5", **{"lab-file": "other.toml"})
    assert str(tmp_path).encode() not in one and one != hand_over(tmp_path / "b", seed="8")


def test_paths_are_those_of_the_inside(tmp_path: Path) -> None:
    hand_over(tmp_path, qdisc="dualpi2")
    options, service = read_job(tmp_path / "job")
    assert str(options.qdisc_down) == "dualpi2" and options.results == EVIDENCE
    assert service._cameras == [CACHE / "camera" / "1" / "camera.y4m", SOURCES / "apps"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["youtube", "iptv", "o2tv", "sledovanitv", "call", "skype"])
def test_every_service_with_a_stand_in_can_be_handed_over(tmp_path: Path, name: str) -> None:
    options = parse_options({"service": name}, {it: service.defaults for it, service in SERVICES.items()})
    (tmp_path / "job").mkdir()
    write_job(tmp_path / "job", options, SERVICES[name].from_options(options), {})
    assert type(read_job(tmp_path / "job")[1]) is SERVICES[name]
