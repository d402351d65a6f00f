# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from sojourn.bottleneck.router import Router
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.machine.place import LOCAL, CommandError, Place
from sojourn.hardware.machine.process import ProcessError
from sojourn.harness.lab import under_test
from sojourn.harness.lab.contract import Tap
from sojourn.harness.lab.under_test import ManagedRouter
from sojourn.scoring.gates.router import verified_at_end
from tests.programs.hardware.machine.cards import write

HERE = Tap(LOCAL, "lo")
APU, SERVER = (Tap(Place(name, ("sh", "-c"), remote=True), "lo") for name in ("router", "server"))


def around(client: Tap, server: Tap) -> ManagedRouter:
    path = ManagedRouter(Router(client.place), cast(Any, None))
    path.taps = {"client": client, "server": server}
    return path


def test_the_clocks_of_captures_on_two_machines_are_recorded_at_start_and_end() -> None:
    for client, server in ((HERE, APU), (APU, SERVER)):
        path = around(client, server)
        known = path.tap_clocks({})
        first, last = path.tap_clocks(known)["tap_clocks"]
        assert known == {"tap_clocks": [first]} and first.keys() == last.keys() == {"client", "server"}
        assert all(abs(clock["seconds"]) <= clock["error"] + 1e-3 for clock in (*first.values(), *last.values()))
        assert (first["client"] == {"seconds": 0, "error": 0}) == (client is HERE)


def test_what_network_cards_lose_during_a_run_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "offloads_on", lambda *_: [])
    monkeypatch.setattr(Router, "final_statistics", lambda _: "")
    monkeypatch.setattr(Router, "verify", lambda *_: None)
    speeds = dict.fromkeys(("lan", "wan"), "1000")
    for cards in (True, False):
        router = Router(write(tmp_path, speeds, tx_dropped=3), cards=cards)
        path = ManagedRouter(router, Bottleneck.symmetric(10_000_000, "pfifo"))
        path.taps = {"client": HERE, "server": APU}
        described = path.described()
        assert ("links_bps" in described) == cards and len(described["tap_clocks"]) == 1
        write(tmp_path, speeds, tx_dropped=5)
        last = path.at_end(described)
        assert len(last["tap_clocks"]) == 2 and last["verified_at_end"] is True
        assert last.get("router_drops") == ({"lan tx_dropped": 2, "wan tx_dropped": 2} if cards else None)
        assert last.get("router_busy") == (0 if cards else None)


@pytest.mark.parametrize("fails", ["read_counters", "final_statistics", "verify", "clocks_of"])
def test_a_router_that_does_not_answer_at_the_end_makes_the_run_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setattr(under_test, "offloads_on", lambda *_: [])
    for name in ("final_statistics", "verify"):
        monkeypatch.setattr(Router, name, lambda *_: None)
    router = Router(write(tmp_path, dict.fromkeys(("lan", "wan"), "1000")), cards=True)
    path = ManagedRouter(router, Bottleneck.symmetric(10_000_000, "pfifo"))
    path.taps = {"client": HERE, "server": APU}
    described = path.described()

    def silent(*_: object) -> None:
        if fails == "clocks_of":
            raise ProcessError("router: the clock did not answer")
        raise CommandError("router", ["tc"], None, "no answer within 30 s")

    monkeypatch.setattr(Router if hasattr(Router, fails) else under_test, fails, silent)
    last = path.at_end(described)
    assert ("tap_clocks" in last) == (fails != "clocks_of")
    assert ("router_drops" in last) == (fails != "read_counters")
    gate = verified_at_end(last["verified_at_end"])
    assert gate.ok == (fails == "clocks_of") and ("no answer within 30 s" in gate.measured) == (not gate.ok)


def test_captures_by_one_clock_need_no_record_of_it() -> None:
    there = Tap(Place("server", ("env",)), "lo")  # a namespace of this host
    for client, server in ((APU, APU), (HERE, there), (HERE, HERE)):
        assert around(client, server).tap_clocks({}) == {}
