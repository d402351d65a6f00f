# SPDX-License-Identifier: Apache-2.0
"""Delay probes with real irtt processes in two namespaces."""

from __future__ import annotations

import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.requirements import ToolError
from sojourn.scoring.packets.latency import read_irtt
from sojourn.traffic import irtt, ports
from tests.refusals import refusal

if TYPE_CHECKING:
    from tests.programs.traffic.conftest import Pair

pytestmark = pytest.mark.skipif(shutil.which("irtt") is None, reason="irtt is not installed")


def test_two_probes_until_stopped(pair: Pair, tmp_path: Path) -> None:
    server = irtt.start_server(pair.receiver, pair.receiver_address, tmp_path / "server.log")
    start = time.time()
    probes = [
        irtt.IrttClient(pair.sender, pair.receiver_address, tmp_path / f"{name}.json.gz", port=port).start()
        for name, port in (("irtt", ports.IRTT), ("irtt-unshaped", ports.IRTT_UNSHAPED))
    ]
    time.sleep(0.5)  # probes to be counted
    assert all(probe.alive() for probe in probes)
    results = [read_irtt(probe.stop()) for probe in probes]
    assert server.stop() == 0
    for result in results:
        assert result.height > 10
        assert result["rtt_ms"].null_count() <= 1
        assert (result["rtt_ms"].drop_nulls() > 0).all()
        sent = result["t"].to_list()
        assert start < sent[0] < sent[-1] < time.time()
        # The median step judges: a busy host stops the program between two probes, or before the first or last.
        assert median(b - a for a, b in pairwise(sent)) == pytest.approx(0.010, abs=0.003)


# tcpdump cannot give up its rights in a user namespace: a raw socket prints TOS byte and source port instead.
_SNIFF = """
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(("e0", 0))
print("ready", flush=True)
while True:
    p = s.recv(200)
    if p[12:14] == b"\\x08\\x00" and p[23] == 17:
        print(p[15], int.from_bytes(p[34:36], "big"), flush=True)
"""


@pytest.mark.parametrize(("codepoint", "tos"), [("not-ect", "0"), ("ect1", "1"), ("ect0", "2"), ("ce", "3")])
def test_the_codepoint_is_on_the_wire_both_ways(
    pair: Pair, tmp_path: Path, codepoint: irtt.Codepoint, tos: str
) -> None:
    seen, sniff = tmp_path / "seen", [sys.executable, "-c", _SNIFF]
    with (
        irtt.start_server(pair.receiver, pair.receiver_address, tmp_path / "server.log"),
        Process.start(pair.sender, sniff, stdout=seen, ready="ready", ready_in="stdout"),
    ):
        probe = irtt.IrttClient(
            pair.sender, pair.receiver_address, tmp_path / "p.json.gz", codepoint=codepoint, interval_ms=5
        ).start()
        deadline = time.monotonic() + 10
        while seen.read_text().count("\n") < 40 and time.monotonic() < deadline:
            time.sleep(0.02)
        probe.stop()
    # Between irtt's handshake and its farewell replies come from the server's port and probes from another.
    packets = [tuple(line.split()) for line in seen.read_text().splitlines()[10:40]]
    assert {(field, port == str(ports.IRTT)) for field, port in packets} == {(tos, True), (tos, False)}


def test_no_server_is_one_clear_error(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(irtt.IrttError, match=r"sender: no irtt answer from 10.9.0.2:2119: .*refused"):
        irtt.IrttClient(pair.sender, pair.receiver_address, tmp_path / "x.json.gz", port=2119).start()


def test_check_names_the_version_or_the_fix() -> None:
    assert irtt.check(LOCAL).startswith("0.9")
    with refusal(ToolError, "missing-program", "empty: ", " install irtt"):
        irtt.check(Place("empty", ("env", "PATH=/nonexistent")))
