# SPDX-License-Identifier: Apache-2.0
"""A router with nat = true: the client reaches what lies outside by the router's address, and it alone is shaped."""

from __future__ import annotations

import json
import re
import time

import pytest

from sojourn.bottleneck.readback import ReadbackError
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process
from sojourn.harness.lab.physical import PhysicalLab
from tests.lab.real_time.bench import Bench

pytestmark = pytest.mark.lab

OUTSIDE = "203.0.113.7"
BOTTLENECK = Bottleneck.symmetric(10_000_000, "fq_codel flows 1", 40_000)
#: Tells each peer its own address, as the other side of a masquerade sees it.
_MIRROR = """
import socketserver
class Mirror(socketserver.BaseRequestHandler):
    def handle(self): self.request.sendall(self.client_address[0].encode())
server = socketserver.TCPServer(("0.0.0.0", 8080), Mirror)
print("listening", flush=True)
server.serve_forever()
"""
_ASK = "import socket,sys; print(socket.create_connection((sys.argv[1], 8080), 5).recv(99).decode())"


def rtt_ms(place: Place, to: str) -> float:
    said = place.run(["ping", "-c", "3", "-i", "0.2", to])
    times = re.findall(r"time=([\d.]+)", said)
    return min(map(float, times))


def shaped_bytes(nodes: Bench, dev: str) -> int:
    classes = json.loads(nodes.lab.router.place.run(["tc", "-s", "-j", "class", "show", "dev", dev]))
    return next(it["stats"]["bytes"] for it in classes if it["handle"] == "1:10")


@pytest.mark.nightly
def test_only_the_hosts_of_the_lab_go_out_masqueraded_shaped_and_delayed(nodes: Bench) -> None:
    router, client, server = nodes.lab.router.place, nodes.lab.client, nodes.lab.server
    server.run(["ip", "address", "add", f"{OUTSIDE}/32", "dev", "lo"])
    router.run(["ip", "route", "add", "default", "via", "10.42.2.10"])
    log = nodes.folder / "mirror.log"
    mirror = Process.start(server, ["python3", "-uc", _MIRROR], stdout=log, ready="listening", ready_in="stdout")
    try:
        with PhysicalLab(read_lab_file(nodes.lab_file("nat = true", server_address="10.42.2.10"))) as apu:
            apu.router.apply(BOTTLENECK)
            assert client.run(["python3", "-c", _ASK, OUTSIDE]).strip() == "10.42.2.1"
            assert client.run(["python3", "-c", _ASK, "10.42.2.10"]).strip() == "10.42.1.10"  # a machine of the lab
            assert rtt_ms(client, OUTSIDE) == pytest.approx(40, abs=2)
            before = shaped_bytes(nodes, "lan"), shaped_bytes(nodes, "wan")
            assert rtt_ms(router, OUTSIDE) < 10
            assert (shaped_bytes(nodes, "lan"), shaped_bytes(nodes, "wan")) == before
            router.run(["nft", "delete", "table", "ip", "sojourn"])
            with pytest.raises(ReadbackError, match="nftables: requested table ip sojourn, found none"):
                apu.router.verify(BOTTLENECK)
            apu.router.apply(BOTTLENECK)
        assert not router.run(["nft", "list", "tables"])
    finally:
        mirror.stop()
        router.run(["ip", "route", "del", "default"])
        server.run(["ip", "address", "del", f"{OUTSIDE}/32", "dev", "lo"])
    assert not nodes.shaped() and not nodes.traces()


def test_a_masquerading_router_that_is_forgotten_undoes_its_table_too(nodes: Bench) -> None:
    with PhysicalLab(read_lab_file(nodes.lab_file("nat = true\ndead_man_s = 10"))) as apu:
        apu.router.apply(BOTTLENECK)
        nodes.cut()
        deadline = time.monotonic() + 70  # the lease and what a busy host takes
        while nodes.lab.router.place.run(["nft", "list", "tables"]) or nodes.shaped():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        nodes.join()
    assert not nodes.traces()
