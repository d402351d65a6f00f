# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, cast

from sojourn.bottleneck.router import Router
from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.harness.lab.contract import Tap
from sojourn.harness.lab.under_test import ManagedRouter

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


def test_captures_by_one_clock_need_no_record_of_it() -> None:
    there = Tap(Place("server", ("env",)), "lo")  # a namespace of this host
    for client, server in ((APU, APU), (HERE, there), (HERE, HERE)):
        assert around(client, server).tap_clocks({}) == {}
