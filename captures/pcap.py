# SPDX-License-Identifier: Apache-2.0
"""Convert tcpdump's files to pcapng (draft-ietf-opsawg-pcapng) with the count of lost packets, as in dumpcap's files.

Routers have tcpdump; its pcap format (draft-ietf-opsawg-pcap) has no field for that count.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

from sojourn.scoring.packets.pcapng import INTERFACE, PACKET, SECTION, SECTION_BODY, STATISTICS, block, option

_NANOSECONDS = 0xA1B23C4D
_HEADER, _RECORD = "IHHiIII", "IIII"
#: The byte order of the machine that captured, by a file's first bytes.
_ORDERS = {struct.pack(f"{order}I", _NANOSECONDS): order for order in "<>"}
_TIME_RESOLUTION, _DROPPED_BY_KERNEL = 9, 7  # if_tsresol, isb_osdrop


class PcapError(RuntimeError):
    """A file is not a tcpdump capture with nanoseconds; the message names the file."""


def to_pcapng(pcap: Path, pcapng: Path, dropped: int | None) -> int:
    """Write the packets of `pcap` to `pcapng` and return their number; a partly written last packet is skipped.

    `dropped` is the count to store, None: unknown. Raises `PcapError`.
    """
    with pcap.open("rb") as source, pcapng.open("wb") as sink:
        head = source.read(struct.calcsize(f"<{_HEADER}"))
        order = _ORDERS.get(head[:4])
        if order is None or len(head) < struct.calcsize(f"<{_HEADER}"):
            raise PcapError(f"{pcap} is not a tcpdump capture with nanosecond timestamps")
        *_, snaplen, link = struct.unpack(order + _HEADER, head)
        record = struct.Struct(order + _RECORD)
        sink.write(block(SECTION, SECTION_BODY))
        nanoseconds = option(_TIME_RESOLUTION, b"\x09")
        sink.write(block(INTERFACE, struct.pack("<HHI", link & 0xFFFF, 0, snaplen) + nanoseconds + bytes(4)))
        packets = 0
        while packet := _next(source, record):
            sink.write(packet)
            packets += 1
        if dropped is not None:
            count = option(_DROPPED_BY_KERNEL, struct.pack("<Q", dropped))
            sink.write(block(STATISTICS, struct.pack("<III", 0, 0, 0) + count + bytes(4)))
    return packets


def _next(source: IO[bytes], record: struct.Struct) -> bytes:
    head = source.read(record.size)
    if len(head) < record.size:
        return b""
    seconds, nanoseconds, kept, length = record.unpack(head)
    data = source.read(kept)
    if len(data) < kept:
        return b""
    ticks = seconds * 1_000_000_000 + nanoseconds
    return block(PACKET, struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, kept, length) + data)
