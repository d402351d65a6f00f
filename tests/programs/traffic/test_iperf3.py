# SPDX-License-Identifier: Apache-2.0
"""Bulk flows with real iperf3 processes in two namespaces."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.hardware.machine.requirements import ToolError
from sojourn.traffic import iperf3, ss
from sojourn.traffic.contender import CONTENDERS, ECN_FILES, Contender, ContenderError, EcnModes
from sojourn.traffic.iperf3 import BulkError, BulkFlow
from tests.refusals import refusal

if TYPE_CHECKING:
    from tests.programs.traffic.conftest import Pair

pytestmark = pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")


def test_a_flow_stopped_early_keeps_its_whole_json(pair: Pair, tmp_path: Path) -> None:
    live: list[float] = []

    def hear(_t: float, socket: str, bps: float) -> None:
        if socket.split(">")[0].endswith(":40101"):  # iperf3's other socket may have nothing to say for a while
            live.append(bps)

    sampler = ss.SsSampler(
        pair.sender,
        tmp_path / "ss.jsonl",
        interval_s=0.1,
        on_throughput=hear,
    ).start()
    flow = BulkFlow(pair.sender, pair.receiver, pair.receiver_address, CONTENDERS["reno"], tmp_path, sender_port=40101)
    flow.start()
    assert flow.alive()
    deadline = time.monotonic() + 60
    while len(live) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    result = flow.stop()
    sampler.stop()

    assert result["end"]["sum_sent"]["bytes"] > 1_000_000
    assert result["end"]["sender_tcp_congestion"] == "reno"
    assert result["start"]["connected"][0]["local_port"] == 40101
    entry = flow.record("reno", result)
    assert (entry["sender"], entry["sender_port"]) == (pair.sender_address, 40101)
    assert 0 < entry["end"] - entry["start"] < 15
    assert not flow.alive()

    assert sampler.error is None and sum(one > 0 for one in live) > len(live) / 2
    rows = [json.loads(line) for line in (tmp_path / "ss.jsonl").read_text().splitlines()]
    data = [row for row in rows if row["flow"] == "10.9.0.1:40101>10.9.0.2:5201"]
    assert len(data) >= 5
    spans = [8 * (b["bytes_acked"] - a["bytes_acked"]) / (b["t"] - a["t"]) for a, b in pairwise(data)]
    assert live == pytest.approx(spans, rel=1e-3)
    assert {row["cc"] for row in data} == {"reno"}
    assert all(row["cwnd"] > 0 and row["rtt_ms"] > 0 for row in data)
    assert data[-1]["bytes_acked"] > data[0]["bytes_acked"]
    assert data[-1]["ecn"] is True  # tcp_ecn 1 at both ends
    assert entry["start"] < data[0]["t"] < entry["end"]


def test_without_ecn_none_is_negotiated_and_the_port_is_free_again(pair: Pair, tmp_path: Path) -> None:
    sampler = ss.SsSampler(pair.sender, tmp_path / "ss.jsonl", interval_s=0.05).start()
    flow = BulkFlow(
        pair.sender,
        pair.receiver,
        pair.receiver_address,
        CONTENDERS["cubic-noecn"],
        tmp_path,
        sender_port=40102,
    )
    flow.start()
    deadline = time.monotonic() + 10
    before = sampler.samples
    while sampler.samples < before + 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    flow.stop()
    sampler.stop()
    rows = [json.loads(line) for line in (tmp_path / "ss.jsonl").read_text().splitlines()]
    data = [row for row in rows if ":40102>" in row["flow"]]
    assert data and not any(row["ecn"] for row in data)


def test_a_flow_of_given_length_ends_by_itself(pair: Pair, tmp_path: Path) -> None:
    flow = BulkFlow(pair.sender, pair.receiver, pair.receiver_address, CONTENDERS["cubic"], tmp_path, sender_port=40103)
    flow.start(duration_s=1)
    deadline = time.monotonic() + 10
    while flow.alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "error" not in flow.stop()


def test_unknown_congestion_control_is_told_before_anything_starts(pair: Pair, tmp_path: Path) -> None:
    nonesuch = Contender("prague", "nonesuch", 3)
    with pytest.raises(ContenderError, match=r"sender: congestion control nonesuch of contender prague"):
        BulkFlow(pair.sender, pair.receiver, pair.receiver_address, nonesuch, tmp_path).start()


def test_receiver_that_cannot_be_reached_ends_with_iperf3s_reason(pair: Pair, tmp_path: Path) -> None:
    flow = BulkFlow(pair.sender, pair.receiver, "10.9.0.3", CONTENDERS["cubic"], tmp_path, sender_port=40104)
    with pytest.raises(BulkError, match=r"sender: iperf3: .*No route to host|no connection to 10.9.0.3"):
        flow.start()
    assert not flow.alive()


def test_receiver_that_dies_is_an_error(pair: Pair, tmp_path: Path) -> None:
    flow = BulkFlow(pair.sender, pair.receiver, pair.receiver_address, CONTENDERS["cubic"], tmp_path, sender_port=40105)
    flow.start()
    assert flow._server is not None
    flow._server.stop(9)
    deadline = time.monotonic() + 10
    while flow.alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises(BulkError, match=r"sender: iperf3: "):
        flow.stop()


def test_ecn_mode_is_set_and_read_back_at_both_ends(pair: Pair) -> None:
    for name, mode in (("cubic", "1"), ("cubic-noecn", "0")):
        CONTENDERS[name].prepare(pair.sender, pair.receiver)
        for place in (pair.sender, pair.receiver):
            assert place.run(["cat", *ECN_FILES]).split() == [mode, "0"]


def test_ecn_modes_are_restored_at_each_place(pair: Pair) -> None:
    CONTENDERS["cubic"].prepare(pair.sender, pair.receiver)
    pair.receiver.run(["sh", "-c", f"echo 2 >{ECN_FILES[0]}"])
    before = EcnModes(pair.sender, pair.receiver)
    CONTENDERS["cubic-noecn"].prepare(pair.sender, pair.receiver)
    before.restore()
    assert [place.run(["cat", ECN_FILES[0]]).strip() for place in (pair.sender, pair.receiver)] == ["1", "2"]


#: Connects and holds the connection until its input ends.
_CONNECT = "import socket, sys; c = socket.create_connection((sys.argv[1], 40109)); print('up', flush=True); input()"
_LISTEN = "import socket; s = socket.create_server(('', 40109)); print('up', flush=True); c = s.accept(); input()"


def _speaking(place: Place, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*place.prefix, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def test_a_contender_whose_first_syn_is_lost_has_ecn_all_the_same(pair: Pair) -> None:
    CONTENDERS["cubic"].prepare(pair.sender, pair.receiver)
    blackhole = ["blackhole", f"{pair.sender_address}/32"]
    with ExitStack() as ends:
        listener = ends.enter_context(_speaking(pair.receiver, sys.executable, "-c", _LISTEN))
        ends.callback(listener.kill)
        assert listener.stdout and listener.stdout.readline() == "up\n"
        pair.receiver.run(["ip", "route", "add", *blackhole])
        ends.callback(pair.receiver.run, ["ip", "route", "del", *blackhole], check=False)
        caller = ends.enter_context(_speaking(pair.sender, sys.executable, "-c", _CONNECT, pair.receiver_address))
        ends.callback(caller.kill)
        deadline = time.monotonic() + 10
        while not pair.sender.run(["ss", "-tnH", "state", "syn-sent", "dport", ":40109"]):
            assert time.monotonic() < deadline
        pair.receiver.run(["ip", "route", "del", *blackhole])
        assert caller.stdout and caller.stdout.readline() == "up\n"
        told = pair.sender.run(["ss", "-tineH", "dport", ":40109"])
        # A busy host may take longer to open the way than the second try does to come.
        assert re.search(r" retrans:0/[1-9]", told) and " ecn " in told


def test_a_kernel_that_refuses_the_ecn_mode_is_told(pair: Pair) -> None:
    with pytest.raises(ContenderError, match=r"sender: net.ipv4.tcp_ecn: requested 77 for contender odd, found"):
        Contender("odd", "cubic", 77).prepare(pair.sender, pair.receiver)


def test_contender_names() -> None:
    assert {"cubic", "cubic-noecn", "reno", "reno-noecn", "bbr", "dctcp", "prague", "prague-2020"} <= set(CONTENDERS)
    assert all(contender.name == name for name, contender in CONTENDERS.items())


def test_check_names_the_version_or_the_fix() -> None:
    assert iperf3.check(LOCAL).startswith("3.")
    assert ss.check(LOCAL)
    nowhere = Place("empty", ("env", "PATH=/nonexistent"))
    for tool in (iperf3, ss):
        with refusal(ToolError, "missing-program", "empty: ", " install "):
            tool.check(nowhere)
