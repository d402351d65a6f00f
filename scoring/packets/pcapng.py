# SPDX-License-Identifier: Apache-2.0
"""Read pcapng header captures into a table, a million packets a second and in bounded memory.

Decodes only what scoring needs: Ethernet, IPv4, IPv6, TCP and UDP headers. Block layout: pcapng
(draft-ietf-opsawg-pcapng); headers: RFC 791, 8200, 768, 9293; the AE flag: RFC 9768.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.scoring.packets.unpacked import unpacked

TCP, UDP = 6, 17
_IPV4, _IPV6, _VLAN = 0x0800, 0x86DD, 0x8100
_HIGH = pl.Series([1 << 64], dtype=pl.UInt128)
SYN, RST, ACK, ECE, CWR, AE = 0x02, 0x04, 0x10, 0x40, 0x80, 0x100
NOT_ECT, ECT1, ECT0, CE = range(4)
CODEPOINTS = {"not-ect": NOT_ECT, "ect0": ECT0, "ect1": ECT1}
"""By their names in options."""

SECTION, INTERFACE, STATISTICS, PACKET = 0x0A0D0D0A, 1, 5, 6  # types of blocks
_LEAST_PACKET = 8  # words of a packet block without a packet
BYTE_ORDER = 0x1A2B3C4D
#: Of a section header: little endian, version 1.0, of unknown length.
SECTION_BODY = struct.pack("<IHHq", BYTE_ORDER, 1, 0, -1)
_PAD = 128  # bytes after the last packet, so that a short one can be indexed like a long one
#: Words of the TCP or UDP packet in its fingerprint: a header with time stamps, or what an irtt probe numbers.
_HASHED = 10
FINGERPRINT_BYTES = 4 * _HASHED
_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint64)
#: Multiply-shift hashing (Dietzfelbinger et al. 1997) wants odd numbers drawn at random, once.
_ODD = np.random.default_rng(7).integers(0, 1 << 63, _HASHED, np.uint64) * np.uint64(2) + np.uint64(1)

SCHEMA: dict[str, type[pl.DataType]] = {
    "t_ns": pl.Int64,  # Unix nanoseconds
    "src": pl.UInt128,  # an IPv4 address is below 2^32
    "dst": pl.UInt128,
    "sport": pl.UInt16,
    "dport": pl.UInt16,
    "proto": pl.UInt8,
    "ecn": pl.UInt8,  # the two ECN bits of the IP header
    "ip_bytes": pl.UInt16,  # IP header and all after it
    "seq": pl.UInt32,  # 0 for UDP
    "flags": pl.UInt16,  # TCP flags with AE as bit 8; 0 for UDP
    "payload": pl.UInt16,  # bytes after the TCP or UDP header
    "first": pl.UInt8,  # the first of them; 0 for TCP, and if it was not captured
    "ip_id": pl.UInt16,  # 0 for IPv6, which has none
    "fingerprint": pl.UInt64,  # hash of the first bytes of the TCP or UDP packet: tells the same packet elsewhere
}


class CaptureError(RuntimeError):
    """A capture file that cannot be read; the message names the file and the fault."""


@dataclass(frozen=True)
class Capture:
    """`packets` has the columns of SCHEMA, one row per TCP or UDP packet without IP extension headers, in file order.

    `dropped` counts packets lost by the capturing kernel and program (None: the capture was killed and left no
    count), `other` packets of any other kind.
    """

    packets: pl.DataFrame
    dropped: int | None
    other: int


def read(file: Path) -> Capture:
    """Read `file`, a .pcapng or .pcapng.zst; an incomplete last block is skipped. Raises CaptureError."""
    tables: list[pl.DataFrame] = []
    reader = _Reader(file)
    for data, bounds in _split(file):
        if (table := reader.feed(data, bounds)) is not None:
            tables.append(table)
    packets = pl.concat(tables, rechunk=True) if tables else pl.DataFrame(schema=SCHEMA)
    return Capture(packets, reader.dropped, reader.other)


def blocks(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of the blocks of a .pcapng(.zst), except an incomplete last one. Raises CaptureError."""
    for data, bounds in _split(file):
        yield from ((kind, data[at + 8 : end - 4]) for kind, at, end in bounds)


def _split(file: Path) -> Iterator[tuple[bytes, list[tuple[int, int, int]]]]:
    """Yield some megabytes of a capture at a time, with (type, start, end) of their complete blocks, in bytes."""
    rest, section = b"", False
    for chunk in chunks(file):
        data = rest + chunk
        words = memoryview(data)[: len(data) & ~3].cast("I")
        bounds: list[tuple[int, int, int]] = []
        at, last = 0, len(words)
        while at + 3 <= last:
            kind, length = words[at], words[at + 1] >> 2
            if not section and kind != SECTION:
                raise CaptureError(f"{file} is not a pcapng capture")
            if kind == SECTION and words[at + 2] != BYTE_ORDER:
                raise CaptureError(f"{file} has the byte order of another machine")
            if length < (_LEAST_PACKET if kind == PACKET else 3) or words[at + 1] & 3:
                raise CaptureError(f"{file} is damaged: a block of {words[at + 1]} bytes")
            if at + length > last:
                break
            bounds.append((kind, at * 4, (at + length) * 4))
            at, section = at + length, True
        rest = data[at * 4 :]
        yield data, bounds
    if not section:
        raise CaptureError(f"{file} is not a pcapng capture")


def chunks(file: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed if it is a .zst, some megabytes at a time. Raises CaptureError."""
    try:
        yield from unpacked(file)
    except (OSError, ValueError) as error:
        raise CaptureError(f"{file} cannot be read: {error}") from error


class _Reader:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.resolution: list[int] = []  # ns a tick, of each interface
        self.dropped: int | None = None
        self.other = 0

    def feed(self, data: bytes, bounds: Sequence[tuple[int, int, int]]) -> pl.DataFrame | None:
        starts: list[int] = []
        for kind, at, end in bounds:
            if kind == PACKET:
                starts.append(at >> 2)
            elif kind == SECTION:
                self.resolution = []
            else:
                self._metadata(kind, data[at + 8 : end - 4])
        return self._table(data, np.array(starts, np.int64)) if starts else None

    def _metadata(self, kind: int, body: bytes) -> None:
        if kind == INTERFACE:
            if (link := int.from_bytes(body[:2], "little")) != 1:
                raise CaptureError(f"{self.file}: link type {link}; only Ethernet (1) is read")
            tick = (dict(options(body[8:])).get(9) or b"\x06")[0]
            if tick & 0x80 or tick > 9:
                raise CaptureError(f"{self.file}: time resolution {tick:#x}; only 10^0 to 10^-9 s are read")
            self.resolution.append(10 ** (9 - tick))
        elif kind == STATISTICS:
            counts = dict(options(body[12:]))
            # isb_ifdrop and isb_osdrop
            lost = sum(int.from_bytes(counts.get(code, b""), "little") for code in (5, 7))
            self.dropped = (self.dropped or 0) + lost

    def _table(self, data: bytes, starts: npt.NDArray[np.int64]) -> pl.DataFrame:
        octets = np.frombuffer(data + bytes(_PAD), np.uint8)
        words = np.frombuffer(data, np.uint32, len(data) // 4)
        ticks = words[starts + 3].astype(np.int64) << 32 | words[starts + 4]
        interface = words[starts + 2]
        if interface.max() >= len(self.resolution):
            raise CaptureError(f"{self.file} is damaged: interface {interface.max()} is not described")
        t_ns = ticks * np.array(self.resolution, np.int64)[interface]
        untagged = starts * 4 + 28

        def byte(offset: npt.NDArray[np.int64], more: int) -> npt.NDArray[np.int64]:
            return octets[offset + more].astype(np.int64)

        def short(offset: npt.NDArray[np.int64], more: int) -> npt.NDArray[np.int64]:
            return byte(offset, more) << 8 | byte(offset, more + 1)

        def long(offset: npt.NDArray[np.int64], more: int) -> npt.NDArray[np.int64]:
            return short(offset, more) << 16 | short(offset, more + 2)

        tag = np.where(short(untagged, 12) == _VLAN, 4, 0)
        ether = untagged + tag
        kind = short(ether, 12)
        v6 = kind == _IPV6
        proto = np.where(v6, byte(ether, 14 + 6), byte(ether, 14 + 9))
        fragment = np.where(v6, 0, short(ether, 14 + 6) & 0x1FFF)
        good = ((kind == _IPV4) | v6) & (fragment == 0) & ((proto == TCP) | (proto == UDP))
        # A header cut off by a short snaplen would be read from the next packet.
        head = 14 + np.where(v6, 40, (byte(ether, 14) & 0x0F) * 4)
        captured = words[starts + 5].astype(np.int64) - tag
        good &= captured >= head + np.where(proto == TCP, 20, 8)
        self.other += int(len(good) - good.sum())
        ether, head, proto, t_ns, captured, v6 = (column[good] for column in (ether, head, proto, t_ns, captured, v6))
        six = ether[v6]

        def address(at: int, at_of_v6: int) -> pl.Series:
            if not len(six):  # the rest would take a tenth more time
                return pl.Series(long(ether, at))
            low, high = long(ether, at), np.zeros(len(ether), np.int64)
            for half, more in ((high, 0), (low, 8)):
                half[v6] = long(six, at_of_v6 + more) << 32 | long(six, at_of_v6 + more + 4)
            high_part, low_part = (pl.Series(half.view(np.uint64)).cast(pl.UInt128) for half in (high, low))
            return high_part * _HIGH + low_part

        upper = ether + head
        tcp = proto == TCP
        ip_bytes = np.where(v6, 40 + short(ether, 14 + 4), short(ether, 14 + 2))
        upper_head = np.where(tcp, (byte(upper, 12) >> 4) * 4, 8)
        columns = {
            "t_ns": t_ns,
            "src": address(26, 22),
            "dst": address(30, 38),
            "sport": short(upper, 0),
            "dport": short(upper, 2),
            "proto": proto,
            "ecn": np.where(v6, byte(ether, 15) >> 4, byte(ether, 15)) & 3,
            "ip_bytes": ip_bytes,
            "seq": np.where(tcp, long(upper, 4), 0),
            "flags": np.where(tcp, short(upper, 12) & 0x1FF, 0),
            "payload": np.maximum(ip_bytes - (head - 14) - upper_head, 0),
            "first": np.where(~tcp & (captured > head + 8), byte(upper, 8), 0),
            "ip_id": np.where(v6, 0, short(ether, 18)),
            "fingerprint": _fingerprints(octets, upper, ether + np.minimum(captured, 14 + ip_bytes), tcp),
        }
        return pl.DataFrame({name: pl.Series(values).cast(SCHEMA[name]) for name, values in columns.items()})


def _fingerprints(
    octets: npt.NDArray[np.uint8],
    upper: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    tcp: npt.NDArray[np.bool_],
) -> npt.NDArray[np.uint64]:
    """Hash the bytes from `upper` to `end` of every packet, except the checksum, which offloads fill in late."""
    anywhere = np.ndarray(len(octets) - 3, "<u4", octets.data, strides=(1,))  # the word at every byte
    total = np.zeros(len(upper), np.uint64)
    for n, odd in enumerate(_ODD):
        at = upper + 4 * n
        word = anywhere[np.minimum(at, len(anywhere) - 1)] & _MASKS[np.clip(end - at, 0, 4)]
        if n == 4:
            word &= np.where(tcp, np.uint64(0xFFFF0000), np.uint64(0xFFFFFFFF))
        elif n == 1:
            word &= np.where(tcp, np.uint64(0xFFFFFFFF), np.uint64(0x0000FFFF))
        total += word * odd
    return total ^ total >> np.uint64(32)


def block(kind: int, body: bytes) -> bytes:
    """The bytes of a block of this type, as they stand in a file."""
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def option(code: int, value: bytes) -> bytes:
    """The bytes of an option in a block's body; four zero bytes end them."""
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def options(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Code and value of each option in what follows the fixed part of a block."""
    at = 0
    while at + 4 <= len(body):
        code, length = (
            int.from_bytes(body[at : at + 2], "little"),
            int.from_bytes(body[at + 2 : at + 4], "little"),
        )
        if code == 0:
            return
        yield code, body[at + 4 : at + 4 + length]
        at += 4 + (length + 3 & ~3)
