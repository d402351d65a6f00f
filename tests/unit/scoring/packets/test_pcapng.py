# SPDX-License-Identifier: Apache-2.0
"""Packets of captures, with and without a VLAN tag."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

from sojourn.scoring.packets import pcapng
from tests.unit.harness.bundle.frames import capture, ipv4, ipv6, tcp, udp

FRAMES = [
    ipv4(tcp(bytes(700)), 6),
    ipv4(udp(b"\x07 a call's packet"), 17),
    ipv6(tcp(b"", options=bytes(12)), 6),
    ipv4(tcp(b"", options=bytes(12)), 6, options=bytes(4)),
]


def tagged(frame: bytes) -> bytes:
    return frame[:12] + b"\x81\x00\x20\x07" + frame[12:]


def test_a_tagged_packet_is_read_as_the_same_without_its_tag(tmp_path: Path) -> None:
    plain = pcapng.read(capture(tmp_path / "plain.pcapng.zst", FRAMES, 1_790_000_000_000_000_000))
    mixed = [tagged(frame) if number % 2 else frame for number, frame in enumerate(FRAMES)]
    for name, frames in (("tagged", [tagged(it) for it in FRAMES]), ("mixed", mixed)):
        read = pcapng.read(capture(tmp_path / f"{name}.pcapng.zst", frames, 1_790_000_000_000_000_000))
        cut = pl.lit(name == "tagged") & (pl.col("ip_bytes") > 100)  # the snaplen cuts the first one's payload
        assert_frame_equal(read.packets.filter(~cut), plain.packets.filter(~cut))
        assert read.other == plain.other == 0


def test_a_packet_of_another_kind_is_counted(tmp_path: Path) -> None:
    arp = FRAMES[0][:12] + b"\x08\x06" + bytes(28)
    read = pcapng.read(capture(tmp_path / "arp.pcapng.zst", [arp, tagged(arp), FRAMES[1]], 0))
    assert (read.packets.height, read.other) == (1, 2)
