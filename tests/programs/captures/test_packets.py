# SPDX-License-Identifier: Apache-2.0
"""Captures: compression loses nothing; a live capture holds what was sent."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import zstandard

from captures.packets import PacketCapture, compress
from hardware.machine.place import LOCAL
from hardware.machine.process import ProcessError
from scoring import packets, pcapng


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
    capture = PacketCapture.start(LOCAL, "lo", tmp_path / "client.pcapng", only="udp port 47111")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for _ in range(500):
            out.sendto(bytes(400), ("127.0.0.1", 47111))
    done = capture.stop()
    table = packets.with_advance(pcapng.read(done.file).packets)
    assert (done.packets, done.dropped, table.height) == (500, 0, 500)
    assert table["advance"].sum() == 500 * 400
