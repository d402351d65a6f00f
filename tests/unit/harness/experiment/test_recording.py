# SPDX-License-Identifier: Apache-2.0
"""A solo phase of at least some length ends once the picture has had its height for a while; a machine that is stuck
at the end loses only its own counters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sojourn.captures.player import PlayerSample
from sojourn.hardware.machine.place import CommandError
from sojourn.harness.experiment.recording import HeldPicture, final_state


def sample(height: int, playing: bool = True) -> PlayerSample:
    return PlayerSample(
        t=0, playing=playing, quality="", width=0, height=height, currentTime=0, buffer=9, readyState=4, totalFrames=0,
        droppedFrames=0, waiting=False,
    )  # fmt: skip


def phase(start: float, seconds: float, lower_until: float, stalls_at: float = -1) -> float:
    """When a phase ends whose picture has fewer lines until a time, with a sample each half second."""
    held = HeldPicture()
    held.height, held.since = 720, start
    now, end = start, start + seconds
    while now < held.until(end):
        now += 0.5
        held.see(now, sample(480 if now < lower_until else 720, playing=now != stalls_at))
    return now


def test_it_is_as_long_as_given_if_the_picture_has_recovered_early() -> None:
    assert phase(100, 20, lower_until=0) == 120 and phase(100, 20, lower_until=110) == 120


def test_it_lasts_until_the_picture_has_had_its_height_for_ten_seconds() -> None:
    assert phase(100, 20, lower_until=115) == 124.5
    assert phase(100, 20, lower_until=105, stalls_at=118) == 128
    assert phase(100, 2, lower_until=0) == 110


def test_it_lasts_a_minute_longer_at_most() -> None:
    assert phase(100, 20, lower_until=1000) == 180


def test_no_sample_is_no_picture() -> None:
    held = HeldPicture()
    held.see(7, None)
    assert held.since == 7


def test_a_stuck_sender_loses_neither_the_final_state_nor_the_receivers_counters(tmp_path: Path) -> None:
    (description := tmp_path / "lab.json").write_text('{"name": "virtual"}')
    log: list[str] = []

    def stuck(command: Sequence[str], check: bool) -> None:
        raise CommandError("sender", command, None, "")

    lab = SimpleNamespace(
        sender=SimpleNamespace(run=stuck), receiver=SimpleNamespace(run=lambda command, check: log.extend(command))
    )
    path = SimpleNamespace(at_end=lambda known: {"verified_at_end": ["differs"], "router_drops": 3})
    final_state(cast(Any, lab), cast(Any, path), description)
    assert json.loads(description.read_text()) == {
        "name": "virtual", "verified_at_end": ["differs"], "router_drops": 3,
    }  # fmt: skip
    assert log[0] == "cat"
