# SPDX-License-Identifier: Apache-2.0
"""What web users, a second video and a call had, and what it takes to believe that they were there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import ceil, inf
from typing import Any

import polars as pl
import pytest

from sojourn.scoring import evidence
from sojourn.scoring.evidence import Setting, SideCapture
from sojourn.scoring.gates.applications import application_proven
from sojourn.scoring.packets import per_flow
from sojourn.scoring.packets.pcapng import SCHEMA, TCP, UDP
from sojourn.scoring.transport import applications
from sojourn.scoring.validity import Limits
from sojourn.traffic import ports
from sojourn.traffic.web import arrivals

WINDOW = (1000.0, 1030.0)
ADDRESSES = {"client": "10.42.1.10", "receiver": "10.42.1.20", "server": "10.42.2.10", "sender": "10.42.2.20"}
SEED = "web 1 web 0"


def web_record() -> dict[str, Any]:
    """A user who began everything as drawn, of which the last one has not ended."""
    due = takewhile(lambda drawn: drawn[0] < 29.5, arrivals(SEED))
    fetches: list[dict[str, Any]] = [
        {"at": at, "start": 1000 + at, "bytes": size, "port": 50_000 + n, "fct_s": 1.5}
        for n, (at, size) in enumerate(due)
    ]
    fetches[-1]["fct_s"] = None
    return {
        "contender": "web", "phase": "web", "start": 999.9, "end": 1030.1, "sender_port": ports.SHORT, "draw": SEED,
        "fetches": fetches,
    }  # fmt: skip


def packet(t: float, way: tuple[str, str], sport: int, dport: int, proto: int, advance: int) -> dict[str, Any]:
    empty = dict.fromkeys(SCHEMA, 0)
    src, dst = (per_flow.address(ADDRESSES.get(end, "203.0.113.7")) for end in way)
    told = {"t_ns": round(t * 1e9), "src": src, "dst": dst, "sport": sport, "dport": dport, "proto": proto}
    return {**empty, **told, "payload": 1000, "ip_bytes": 1040, "advance": advance}


def side(rows: list[dict[str, Any]]) -> SideCapture:
    """What a capture of these packets is sorted out into, of the contenders."""
    table = pl.DataFrame(rows, {**SCHEMA, "advance": pl.Int64})
    down, up = per_flow.contending(ADDRESSES)
    return SideCapture(1500, table, table[:0], table.filter(down), table[:0], table.filter(up))


def fetched(record: dict[str, Any], short_by: int = 0) -> SideCapture:
    """The data of all fetches that ended, each of them in one packet."""
    return side([
        packet(it["start"], ("server", "client"), ports.SHORT, it["port"], TCP, it["bytes"] - short_by)
        for it in record["fetches"] if it["fct_s"]
    ])  # fmt: skip


def every_second(way: tuple[str, str], sport: int, dport: int, proto: int, until: int = 1031) -> list[dict[str, Any]]:
    return [packet(t, way, sport, dport, proto, 1000) for t in range(1000, until)]


def judged(
    contender: str,
    record: dict[str, Any],
    before: SideCapture,
    behind: SideCapture | None = None,
    player: Sequence[dict[str, Any]] = (),
) -> str:
    """Why the gate fails, empty when it does not."""
    gate = application_proven("web", contender, record, WINDOW, (before, behind or before), player, Limits())
    assert (gate.code, gate.name) == ("contender-proven", "contender proven (web)") and gate.ok == (not gate.reason)
    return gate.reason


def test_a_web_user_is_proven_by_the_seed_and_the_capture() -> None:
    record = web_record()
    assert judged("web", record, fetched(record)) == ""
    n = len(record["fetches"])
    assert f"{n - 1} of {n - 1} ended ones in the capture" not in judged("web", record, fetched(record, short_by=1))
    assert "0 of" in judged("web", record, fetched(record, short_by=1))
    late = {**record, "fetches": record["fetches"][1:]}
    assert " fetches begun" in judged("web", late, fetched(late))
    assert "0 of 1 fetches begun" in judged("web", {**record, "fetches": []}, fetched(record))
    assert judged("web", {**record, "draw": "another"}, fetched(record))
    assert "not recorded" in judged("web", {}, fetched(record))
    assert "not recorded" in application_proven("web", "web", record, WINDOW, (None, None), (), Limits()).reason


def test_a_second_video_is_proven_by_its_player_and_its_packets() -> None:
    starved = side([packet(1001, ("server", "client"), ports.SECOND, 50_000, TCP, 1000)])
    record, player = {"contender": "video"}, [{"t": 1000 + t / 4} for t in range(121)]
    assert judged("video", record, starved, player=player) == ""
    assert "ends -15.0 s" in judged("video", record, starved, player=player[:61])
    assert "not recorded" in judged("video", record, starved, player=[{"t": 1000, "event": "playing"}])
    before_it = side([packet(990, ("server", "client"), ports.SECOND, 50_000, TCP, 1000)])
    assert "; 0 packets" in judged("video", record, before_it, player=player)


def test_a_call_is_proven_each_way_by_what_was_sent() -> None:
    down = every_second(("server", "client"), 40_000, ports.TALK, UDP)
    up = every_second(("client", "server"), 40_001, ports.TALK + 1, UDP)
    record = {"contender": "call"}
    assert judged("call", record, side(down), side(up)) == ""
    assert "up not recorded" in judged("call", record, side(down), side(down))


def test_bulk_flows_are_contenders_and_the_victim_is_none() -> None:
    rows = [
        packet(1, ("sender", "receiver"), 40_000, 5201, TCP, 1),
        packet(2, ("receiver", "sender"), 40_001, 5202, TCP, 1),
        packet(3, ("server", "client"), 443, 50_000, TCP, 1),
        packet(4, ("server", "client"), 443, 50_000, UDP, 1),
        packet(5, ("client", "server"), 50_000, ports.SHORT, TCP, 1),
        packet(6, ("server", "client"), ports.IRTT, 50_000, UDP, 1),
    ]
    seen = side(rows)
    assert [seen.contender["t_ns"].to_list(), seen.upload["t_ns"].to_list()] == [[1e9], [2e9]]


def test_what_is_watched_elsewhere_is_no_contender_and_what_is_served_here_comes_from_the_server() -> None:
    """At whatever port; and where server and sender are one machine, as beside a box."""
    rows = [
        packet(1, ("server", "client"), ports.SECOND, 50_000, TCP, 1),
        packet(2, ("stranger", "client"), ports.SECOND, 50_001, TCP, 1),
        packet(3, ("server", "client"), 443, 50_002, TCP, 1),
    ]
    lab: dict[str, Any] = {"addresses": ADDRESSES, "ports": {"origin": ports.SECOND}}

    def sorted_out(lab: dict[str, Any], rows: list[dict[str, Any]]) -> SideCapture:
        table = pl.DataFrame(rows, {**SCHEMA, "advance": pl.Int64}).drop("advance")
        return evidence._sorted_out(table, Setting((), lab))

    seen = sorted_out(lab, rows)
    assert [seen.victim["t_ns"].to_list(), seen.contender["t_ns"].to_list()] == [[2e9], [1e9]]
    shared = lab | {"ports": {"origin": 443}, "own_folder": "0" * 64}
    shared["addresses"] = ADDRESSES | {"sender": ADDRESSES["server"]}
    assert sorted_out(shared, rows).victim["t_ns"].to_list() == [3e9]


def test_what_they_had() -> None:
    web = web_record()
    call = {"contender": "call", "heard": {"down": {"loss": 0.01, "delay_p99_ms": 90.0}, "up": {"loss": 0.0}}}
    player = [{"t": 1000 + t / 4, "height": 360 if t < 40 else 720, "waiting": 20 <= t < 24} for t in range(120)]
    told = applications.phase_fields([web, {"contender": "video"}, call, {"contender": "cubic"}], player, WINDOW)
    ended = sum(it["fct_s"] is not None for it in web["fetches"])
    assert told["web_flows"] == len(web["fetches"]) and told["web_unfinished"] == len(web["fetches"]) - ended > 0
    # What did not end in the phase is infinitely late.
    assert (told["web_fct_p50_s"], told["web_fct_p95_s"]) == (1.5, inf)
    # It took longer than the time it had: of these the same rank is the least that it can be.
    had = sorted(it["fct_s"] or WINDOW[1] - it["start"] for it in web["fetches"])
    assert told["web_fct_p95_least_s"] == had[ceil(0.95 * len(had)) - 1] and "web_fct_p50_least_s" not in told
    assert (told["second_height"], told["second_stall_s"]) == (720, pytest.approx(1.0))
    assert (told["call_down_loss"], told["call_down_p99_ms"]) == (0.01, 90)
    assert (told["call_up_loss"], told["call_up_p99_ms"]) == (0, None)
    assert applications.phase_fields([{"contender": "cubic"}], [], WINDOW) == {}
    call["heard"]["down"] = {"loss": 0.02, "delay_p99_ms": 90.0}  # of those that came, as runs of long ago told it
    assert applications.phase_fields([call], [], WINDOW)["call_down_p99_ms"] == inf
    late = {"at": 28, "start": 1028.0, "bytes": 9, "port": 1, "fct_s": 2.5}  # after the phase, nobody beside it
    assert applications.phase_fields([{**web, "fetches": [late]}], [], WINDOW)["web_unfinished"] == 1
    nobody = applications.phase_fields([{**web, "fetches": []}], [], WINDOW)
    assert (nobody["web_flows"], nobody["web_fct_p50_s"]) == (0, None)
