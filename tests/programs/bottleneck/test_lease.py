# SPDX-License-Identifier: Apache-2.0
"""A claim on a router is undone at once only where its owner is known to be dead."""

from __future__ import annotations

import itertools
import json
import socket
from typing import Any
from unittest.mock import Mock

import pytest

from sojourn.bottleneck import lease
from sojourn.bottleneck.lease import LeaseError, MachineLease, Owner, undo_stale
from sojourn.hardware.machine.orphans import machine
from sojourn.hardware.machine.place import Place
from tests.refusals import refusal

_DEAD = 1 << 22  # beyond the largest pid
_BEAT_S = 0.3


def router(claim: dict[str, Any], beats: bool) -> Mock:
    """A router with a claim that is renewed at each look, or never."""
    beat = itertools.count() if beats else itertools.repeat(7)

    def run(command: list[str], *, input: str = "") -> str:
        return f"claimed\n{json.dumps(claim)}\n{next(beat)}\n" if command[2].endswith(lease._LOOK) else ""

    place = Mock(Place, run=Mock(side_effect=run))
    place.name = "router"  # a mock's own argument
    return place


def undone(place: Mock) -> bool:
    return any(call.args[0][2].endswith(lease._RELEASE) for call in place.run.call_args_list)


def owner(host: str, **more: Any) -> dict[str, Any]:
    return {"user": "ci", "host": host, "pid": _DEAD, "begun": 1.0, "beat_s": _BEAT_S, **more}


_HOST, _BOOT, _SPACE = machine().split("/")


@pytest.mark.parametrize(
    "claim",
    [
        owner(_HOST),  # as older ones wrote it
        owner(f"{_HOST}/00000000-0000-0000-0000-000000000000/{_SPACE}"),
        owner(f"{_HOST}/{_BOOT}/1"),
        owner(machine(), of_a_newer_one=True),
    ],
)
def test_a_live_run_of_a_host_of_the_same_name_keeps_its_router(
    claim: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_POLL_S", 0.01)
    live = router(claim, beats=True)
    with refusal(LeaseError, "in-use"):
        undo_stale(live)
    assert not undone(live)


def test_what_has_no_beat_any_more_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_POLL_S", 0.01)
    for host in (machine(), socket.gethostname()):
        dead = router(owner(host), beats=False)
        assert undo_stale(dead) == f"ci@{_HOST} (process {_DEAD}, since 1970-01-01 00:00:01 UTC)"
        assert undone(dead)


def test_a_dead_process_of_this_machine_is_not_waited_for() -> None:
    """Its dead man's timer may still have to look: the beat would change once more."""
    dead = router(owner(machine()), beats=True)
    assert undo_stale(dead) == str(Owner(**owner(machine())))


def test_a_machine_that_is_lost_is_noticed_soon_however_long_its_lease() -> None:
    assert [MachineLease(router({}, beats=False), [], lease_s).interval_s for lease_s in (3, 20, 600)] == [0.6, 2, 2]


@pytest.mark.parametrize("lease_s", [10, 15, 19, 20, 29, 600])
def test_a_lease_without_beats_ends_when_it_says(lease_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MachineLease, "start", Mock())
    MachineLease(place := router({}, beats=False), [], lease_s).claim()
    tick_s, ticks = (int(word) for word in place.run.call_args.args[0][4:6])
    assert lease_s - tick_s < tick_s * (ticks + 2) <= lease_s
