# SPDX-License-Identifier: Apache-2.0
"""Anonymise a capture: replace addresses, remove what follows the headers, keep everything that is scored.

Timestamps, lengths, ports, sequence numbers, flags, ECN, IP ids and the steps of TCP timestamps are kept. The scorer
recognises a packet behind the router by its first bytes, including payload (`sojourn.scoring.packets.pcapng`): the
payload is replaced by a hash with a key that is discarded. The first byte of a UDP payload is kept: it is the kind of a
call's packet (RFC 7983). Of the file's blocks, only packets, interfaces and their counts are copied: no comments, no
resolved names, no TLS keys.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import zstandard

from sojourn.harness.bundle.pseudonyms import Pseudonyms
from sojourn.scoring.packets.pcapng import (
    FINGERPRINT_BYTES,
    INTERFACE,
    PACKET,
    SECTION,
    SECTION_BODY,
    STATISTICS,
    TCP,
    UDP,
    CaptureError,
    block,
    blocks,
    option,
    options,
)

#: Options that hold only numbers: an interface's time resolution and offset; times and counts of its statistics.
_KEPT = {INTERFACE: (8, (9, 14)), STATISTICS: (12, (2, 3, 4, 5, 6, 7, 8))}
_LINK = b"\1\0"  # Ethernet
_IPV4, _IPV6, _VLAN = b"\x08\x00", b"\x86\xdd", b"\x81\x00"
#: TCP options that hold only numbers: MSS, window scale, SACK permitted, SACK, timestamps, AccECN.
_TCP_OPTIONS = {2, 3, 4, 5, 8, 172, 174}
_NOP, _STAMPS = 1, 8
#: Replaces a TTL, which reveals the sender's system and the number of routers on the path.
_TTL = 64
_ETHERNET, _TAG = 14, 4


def mask_capture(source: Path, target: Path, names: Pseudonyms, key: bytes) -> None:
    """Write `source` (.pcapng or .pcapng.zst) to `target` without names; a partly written last block is skipped.

    `key` (16 to 64 bytes) hashes the payloads: the same for all captures of a run, and never stored.
    Raises CaptureError if `source` is not a capture or is damaged.
    """
    with _sink(target) as sink:
        for kind, body in blocks(source):
            if kind == SECTION:
                kept = SECTION_BODY
            elif kind == PACKET:
                kept = body[:20] + _packet(source, body, names, key)
            elif kind == INTERFACE and body[:2] != _LINK:
                raise CaptureError(
                    f"{source}: link type {int.from_bytes(body[:2], 'little')}; only Ethernet (1) is supported"
                )
            elif kind in _KEPT:
                head, codes = _KEPT[kind]
                kept = body[:head] + b"".join(option(c, v) for c, v in options(body[head:]) if c in codes) + bytes(4)
            else:
                continue
            sink.write(block(kind, kept))


@contextmanager
def _sink(target: Path) -> Iterator[IO[bytes]]:
    with target.open("wb") as raw:
        if target.suffix == ".zst":
            with zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(raw, closefd=False) as packed:
                yield packed
        else:
            yield raw


def _packet(file: Path, body: bytes, names: Pseudonyms, key: bytes) -> bytes:
    captured = int.from_bytes(body[12:16], "little")
    if captured > len(body) - 20:
        raise CaptureError(f"{file} is damaged: a packet is longer than its block")
    return bytes(mask_frame(bytearray(body[20 : 20 + captured]), names, key)) + bytes(-captured % 4)


def mask_frame(frame: bytearray, names: Pseudonyms, key: bytes) -> bytearray:
    """Return an Ethernet frame, possibly truncated, without names and of the same length; changes `frame`.

    An 802.1Q tag (VLAN and priority) is kept; after a second tag, nothing.
    """
    tag = bytes(frame[12:16]) if frame[12:14] == _VLAN and len(frame) >= _ETHERNET + _TAG else b""
    del frame[12 : 12 + len(tag)]
    known = 0
    if len(frame) >= _ETHERNET:
        frame[0:6], frame[6:12] = names.packed(bytes(frame[0:6])), names.packed(bytes(frame[6:12]))
        known = _ETHERNET
        if frame[12:14] == _IPV4:
            known = _ipv4(frame, names, key)
        elif frame[12:14] == _IPV6:
            known = _ipv6(frame, names, key)
    frame[known:] = bytes(len(frame) - known)
    frame[12:12] = tag
    return frame


def _ipv4(frame: bytearray, names: Pseudonyms, key: bytes) -> int:
    """Mask the packet and return the end of what may be kept."""
    head = _ETHERNET + (frame[14] & 0x0F) * 4 if len(frame) > 14 else 0
    if head < 34 or head > len(frame):
        return _ETHERNET
    frame[22] = _TTL
    for at in (26, 30):
        frame[at : at + 4] = names.packed(bytes(frame[at : at + 4]))
    frame[34:head] = bytes([_NOP]) * (head - 34)  # its options may hold routes
    frame[24:26] = bytes(2)
    frame[24:26] = _checksum(bytes(frame[14:head]))
    if int.from_bytes(frame[20:22], "big") & 0x1FFF:  # a later fragment
        return head
    end = _ETHERNET + int.from_bytes(frame[16:18], "big")
    return _transport(frame, frame[23], head, end, bytes(frame[26:34]), key)


def _ipv6(frame: bytearray, names: Pseudonyms, key: bytes) -> int:
    head = _ETHERNET + 40
    if head > len(frame):
        return _ETHERNET
    frame[21] = _TTL
    for at in (22, 38):
        frame[at : at + 16] = names.packed(bytes(frame[at : at + 16]))
    end = head + int.from_bytes(frame[18:20], "big")
    return _transport(frame, frame[20], head, end, bytes(frame[22:54]), key)


def _transport(frame: bytearray, protocol: int, head: int, end: int, addresses: bytes, key: bytes) -> int:
    """Mask a TCP or UDP packet from `head` to `end`, which may lie beyond a truncated frame; remove anything else."""
    if protocol not in (TCP, UDP) or len(frame) < head + (20 if protocol == TCP else 8):
        return head
    top = min(head + max(20, (frame[head + 12] >> 4) * 4), len(frame)) if protocol == TCP else head + 8
    if protocol == TCP:
        _tcp_options(frame, head + 20, top, key)
    hashed = min(head + FINGERPRINT_BYTES, end, len(frame))
    if hashed > top:
        content = bytes(frame[top:hashed])
        digest = hashlib.blake2b(content, key=key, digest_size=min(16, len(content))).digest()
        if protocol == UDP:
            digest = content[:1] + digest[1:]
        frame[top:] = digest + bytes(len(frame) - top - len(digest))
        known = top + len(digest)
    else:
        frame[top:] = bytes(len(frame) - top)
        known = top
    at = head + (16 if protocol == TCP else 6)
    if protocol == TCP or any(frame[at : at + 2]):  # optional in UDP
        # Computed as if zeros followed a truncation: the original bytes would show in the sum.
        frame[at : at + 2] = bytes(2)
        pseudo = addresses + struct.pack(">HH", protocol, (end - head) & 0xFFFF)
        total = _checksum(pseudo + bytes(frame[head : max(top, min(end, len(frame)))]))
        frame[at : at + 2] = b"\xff\xff" if protocol == UDP and total == b"\0\0" else total
    return known


def _tcp_options(frame: bytearray, at: int, end: int, key: bytes) -> None:
    """Replace options that may hold more than numbers (Fast Open cookies, MPTCP addresses) by no-operations.

    Timestamps reveal a machine's uptime: all are shifted by one number derived from the key.
    """
    ahead = int.from_bytes(hashlib.blake2b(b"time stamps", key=key, digest_size=4).digest(), "big")
    while at < end and frame[at] != 0:
        length = 1 if frame[at] == _NOP else frame[at + 1] if at + 1 < end else 0
        whole = at + length <= end and (frame[at] != _STAMPS or length == 10)
        if frame[at] != _NOP and not (frame[at] in _TCP_OPTIONS and whole):
            length = length if length >= 2 else end - at
            frame[at : min(at + length, end)] = bytes([_NOP]) * (min(at + length, end) - at)
        elif frame[at] == _STAMPS and length == 10 and at + length <= end:
            for stamp in (at + 2, at + 6):
                number = int.from_bytes(frame[stamp : stamp + 4], "big")
                if number or stamp == at + 2:  # the echo of no timestamp is 0
                    frame[stamp : stamp + 4] = ((number + ahead) % (1 << 32)).to_bytes(4, "big")
        if length < 1:
            return
        at += length
    frame[at:end] = bytes(max(0, end - at))


def _checksum(content: bytes) -> bytes:
    """Return the checksum of RFC 1071: 2^16 is 1 modulo 65535, so the sum of the words is the number's remainder."""
    number = int.from_bytes(content + bytes(len(content) % 2), "big")
    total = number % 0xFFFF or (0xFFFF if number else 0)
    return (~total & 0xFFFF).to_bytes(2, "big")
