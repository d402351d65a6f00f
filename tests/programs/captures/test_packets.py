# SPDX-License-Identifier: Apache-2.0
"""Captures: compression loses nothing; a live capture holds what was sent."""

from __future__ import annotations

import socket
import sys
from ipaddress import ip_address
from itertools import permutations
from pathlib import Path

import pytest
import zstandard

from sojourn.captures.packets import PacketCapture, compress, own_traffic
from sojourn.hardware.machine.namespaces import Namespaces
from sojourn.hardware.machine.place import LOCAL
from sojourn.hardware.machine.process import ProcessError
from sojourn.scoring.packets import pcapng, per_flow


def test_compress_is_lossless_and_removes_the_raw_file(tmp_path: Path) -> None:
    raw = tmp_path / "client.pcapng"
    content = bytes(range(256)) * 5000
    raw.write_bytes(content)
    packed = compress(raw)
    assert packed.name == "client.pcapng.zst" and not raw.exists()
    assert zstandard.ZstdDecompressor().stream_reader(packed.open("rb")).read() == content


def test_an_unknown_interface_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="nowhere0"):
        PacketCapture.start(LOCAL, "nowhere0", tmp_path / "client.pcapng")


@pytest.mark.lab
def test_a_live_capture_holds_every_packet(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out,
    ):
        at.bind(("127.0.0.1", 0))  # of nobody else on this host
        port = at.getsockname()[1]
        capture = PacketCapture.start(LOCAL, "lo", tmp_path / "client.pcapng", only=f"udp port {port}")
        for _ in range(500):
            out.sendto(bytes(400), ("127.0.0.1", port))
        done = capture.stop()
    table = per_flow.with_advance(pcapng.read(done.file).packets)
    assert (done.packets, done.dropped, table.height) == (500, 0, 500)
    assert table["advance"].sum() == 500 * 400


def test_only_what_passes_between_the_labs_own_hosts_is_captured(tmp_path: Path) -> None:
    """Two hosts of the lab and a third party on one wire; the client asks for a name, and a site besides."""
    hosts = {"client": "10.9.0.1", "server": "10.9.0.2", "third": "10.9.0.3"}
    with Namespaces(["wire", *hosts]) as spaces:
        spaces.cable("wire", {f"to-{name}": (name, "eth0") for name in hosts})
        wire = "".join(f"link set to-{name} master br0\n" for name in hosts)
        spaces["wire"].run(["ip", "-batch", "-"], input=f"link add br0 type bridge\nlink set br0 up\n{wire}")
        for name, address in hosts.items():
            spaces[name].run(["ip", "address", "add", f"{address}/24", "dev", "eth0"])
        live: dict[str, tuple[str, ...]] = {"own": (), "live": (hosts["client"],)}
        captures = {
            name: PacketCapture.start(
                spaces["client"], "eth0", tmp_path / f"{name}.pcapng",
                only=own_traffic((hosts["client"], hosts["server"]), viewers),
            )
            for name, viewers in live.items()
        }  # fmt: skip
        sent = [(source, target, 5000) for source, target in permutations(hosts, 2)]
        for source, target, port in (*sent, ("client", "third", 53), ("client", "third", 443)):
            send = f"import socket; socket.socket(2, 2).sendto(b'x', ('{hosts[target]}', {port}))"
            spaces[source].run([sys.executable, "-c", send])
        seen = {name: pcapng.read(capture.stop().file).packets for name, capture in captures.items()}
    pairs = {
        name: {(str(ip_address(src)), str(ip_address(dst)), port) for src, dst, port in rows}
        for name, rows in ((name, table.select("src", "dst", "dport").rows()) for name, table in seen.items())
    }
    client, server, third = hosts.values()
    own = {(client, server, 5000), (server, client, 5000)}
    assert pairs == {"own": own, "live": own | {(client, third, 5000), (third, client, 5000), (client, third, 443)}}
