# SPDX-License-Identifier: Apache-2.0
"""A web user and a call between two network namespaces, the server's one as a host that is reached by a shell."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.hardware.machine.place import Place
from sojourn.traffic.applications import Application, CallPrograms, Ends, WebUser
from sojourn.traffic.web import arrivals
from tests.programs.traffic.conftest import Pair


@pytest.fixture(params=["here", "remote"])
def ends(pair: Pair, request: pytest.FixtureRequest) -> Ends:
    server = pair.sender
    if request.param == "remote":  # what is put before a remote command takes it as one text, as ssh does
        server = Place("far", (*server.prefix, "sh", "-c"), remote=True)
    return Ends(pair.receiver, server, pair.receiver_address, pair.sender_address)


def competing(application: Application, enough: Callable[[], bool]) -> None:
    """Let it compete until there is enough of it."""
    application.start()
    try:
        deadline = time.monotonic() + 20
        while not enough():
            assert application.failure is None and time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        application.stop()


def test_a_web_user_fetches_as_the_seed_says(ends: Ends, tmp_path: Path) -> None:
    user = WebUser(ends, tmp_path, "web-1", number=3, seed="i")
    competing(user, lambda: (tmp_path / "web-1-fetch.jsonl").read_text().count("\n") >= 2)
    record = user.record("cubic+web")
    assert (record["contender"], record["phase"], record["sender_port"]) == ("web", "cubic+web", 5103)
    assert (record["sender"], record["receiver"]) == (ends.server_address, ends.client_address)
    assert record["start"] < record["end"] and record["draw"] == "i"
    first = next(arrivals("i"))
    assert first in [(row["at"], row["bytes"]) for row in record["fetches"]]
    assert all(row["fct_s"] for row in record["fetches"])


def test_a_call_is_heard_at_both_ends(ends: Ends, tmp_path: Path) -> None:
    call, begun = CallPrograms(ends, tmp_path, "call-1"), list[float]()

    def enough() -> bool:
        """Whether the talkers, which do not say when they begin, have had their time since they were started."""
        begun.append(time.monotonic())
        return begun[-1] > begun[0] + 4

    competing(call, enough)
    heard = call.record("call")["heard"]
    assert {way: one["loss"] for way, one in heard.items()} == {"down": 0, "up": 0}
    assert all(("delay_p99_ms" in one) == (not ends.server.remote) for one in heard.values())


def test_what_has_ended_says_why(ends: Ends, tmp_path: Path) -> None:
    user, twin = (WebUser(ends, tmp_path, name, number=0, seed="i") for name in ("one", "other"))
    user.start()
    with pytest.raises(RuntimeError, match=r"serve 10\.9\.0\.1:5100: "):
        twin.start()
    user.stop()
    assert user.failure
