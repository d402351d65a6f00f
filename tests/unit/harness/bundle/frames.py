# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames with what packets carry in the open, and captures of them, for the tests of anonymised bundles."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from pathlib import Path

import zstandard

from sojourn.scoring.packets.pcapng import block, option

CLIENT, SITE = "192.168.77.20", "203.0.113.80"
CLIENT6, SITE6 = "2001:67c:1::20", "2001:67c:2::80"
MACS = bytes.fromhex("3c970e112233f0def1445566")


def internet_checksum(content: bytes) -> int:
    """RFC 1071, word by word."""
    words = struct.unpack(f">{(len(content) + 1) // 2}H", content + bytes(len(content) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(
    payload: bytes, protocol: int, src: str = CLIENT, dst: str = SITE, ecn: int = 1, options: bytes = b""
) -> bytes:
    head = 20 + len(options)
    ip = struct.pack(">BBHHHBBH", 0x40 | head // 4, ecn, head + len(payload), 77, 0x4000, 61, protocol, 0)
    ip += ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed + options
    ip = ip[:10] + struct.pack(">H", internet_checksum(ip)) + ip[12:]
    return MACS + b"\x08\x00" + ip + payload


def ipv6(payload: bytes, protocol: int) -> bytes:
    head = struct.pack(">IHBB", 0x60100000, len(payload), protocol, 61)
    return MACS + b"\x86\xdd" + head + b"".join(ipaddress.ip_address(a).packed for a in (CLIENT6, SITE6)) + payload


def tcp(payload: bytes, options: bytes = b"", seq: int = 4711) -> bytes:
    offset = (20 + len(options)) // 4
    return struct.pack(">HHIIBBHHH", 50000, 443, seq, 99, offset << 4 | 1, 0x18, 500, 0xBEEF, 0) + options + payload


def udp(payload: bytes, sport: int = 50001, dport: int = 53) -> bytes:
    return struct.pack(">HHHH", sport, dport, 8 + len(payload), 0xBEEF) + payload


def client_hello(name: bytes) -> bytes:
    """A TLS ClientHello with that server name (RFC 6066), as much of one as shows in a packet."""
    sni = struct.pack(">HHHBH", 0, len(name) + 5, len(name) + 3, 0, len(name)) + name
    body = b"\x03\x03" + bytes(32) + b"\0\0\x02\x13\x01\x01\0" + struct.pack(">H", len(sni)) + sni
    return b"\x16\x03\x01" + struct.pack(">HB", len(body) + 4, 1) + len(body).to_bytes(3, "big") + body


def dns_query(name: str) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"


def capture(file: Path, frames: Iterable[bytes], start_ns: int, snaplen: int = 128, told: bytes = b"") -> Path:
    """Write a .pcapng.zst of frames 1 ms apart; `told` goes wherever the format has room for text."""
    end = bytes(4)
    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + option(2, told) + option(4, told) + end)]
    out.append(
        block(1, struct.pack("<HHI", 1, 0, snaplen) + option(2, told) + option(9, b"\x09") + option(11, told) + end)
    )
    out.append(block(4, struct.pack("<HH", 1, 4 + len(told)) + b"\1\2\3\4" + told + bytes(-len(told) % 4) + end))
    out.append(block(0x0A, struct.pack("<II", 0x544C534B, len(told)) + told))
    for number, frame in enumerate(frames):
        ns = start_ns + number * 1_000_000
        head = struct.pack("<IIIII", 0, ns >> 32, ns & 0xFFFFFFFF, min(len(frame), snaplen), len(frame))
        kept = frame[:snaplen]
        out.append(block(6, head + kept + bytes(-len(kept) % 4) + option(1, told) + end))
    out.append(block(5, struct.pack("<III", 0, 0, 0) + option(1, told) + option(5, struct.pack("<Q", 3)) + end))
    file.write_bytes(zstandard.compress(b"".join(out)))
    return file
