# SPDX-License-Identifier: Apache-2.0
"""The wire format of SABR as far as the stand-in uses it: parts of UMP, and messages of protocol buffers. Pure.

Part types and field numbers are those of npm's `googlevideo` 4.1.1, whose reader, writer and messages the tests hold
this against. Encodings: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

Value = int | bytes | str
Fields = Mapping[int, "Value | list[Value]"]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_FIELDS = 10_000


class Part(IntEnum):
    """The type of a part of UMP."""

    MEDIA_HEADER = 20
    MEDIA = 21
    MEDIA_END = 22
    NEXT_REQUEST_POLICY = 35
    FORMAT_INITIALIZATION_METADATA = 42
    SABR_ERROR = 44


class WireError(ValueError):
    """Bytes that are not what the format says."""


def part(kind: Part, content: bytes) -> bytes:
    """Return a part of UMP: type and size as UMP's integers, and the content."""
    return ump_integer(kind) + ump_integer(len(content)) + content


def ump_integer(value: int) -> bytes:
    """Return an integer of UMP: the leading ones of the first byte count those that follow, least significant first."""
    if not 0 <= value < 1 << 32:
        raise WireError(f"{value} has more than 32 bits")
    if value < 1 << 7:
        return bytes([value])
    for more, first in ((1, 0x80), (2, 0xC0), (3, 0xE0)):
        low = 7 - more  # bits in the first byte
        if value < 1 << low + 8 * more:
            return bytes([first | value & (1 << low) - 1]) + (value >> low).to_bytes(more, "little")
    return b"\xf0" + value.to_bytes(4, "little")


def message(fields: Fields) -> bytes:
    """Return a message of protocol buffers with these values by field number; a list is a repeated field."""
    encoded = b""
    for number, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, int):
                encoded += _varint(number << 3 | _VARINT) + _varint(value)
            else:
                content = value.encode() if isinstance(value, str) else value
                encoded += _varint(number << 3 | _BYTES) + _varint(len(content)) + content
    return encoded


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number is its two's complement
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def fields(data: bytes) -> dict[int, list[Value]]:
    """Return the values of a message by field number: integers, and bytes of everything else. Raises WireError."""
    found: dict[int, list[Value]] = {}
    at = count = 0
    while at < len(data):
        tag, at = _varint_at(data, at)
        kind = tag & 7
        value: Value
        if kind == _VARINT:
            value, at = _varint_at(data, at)
        elif kind in (_FIXED64, _FIXED32, _BYTES):
            size = 8 if kind == _FIXED64 else 4
            if kind == _BYTES:
                size, at = _varint_at(data, at)
            if size > len(data) - at:
                raise WireError(f"a field of {size} bytes, of which {len(data) - at} are there")
            value, at = data[at : at + size], at + size
        else:
            raise WireError(f"a field of the wire type {kind}")
        found.setdefault(tag >> 3, []).append(value)
        if (count := count + 1) > _MOST_FIELDS:
            raise WireError(f"a message of more than {_MOST_FIELDS} fields")
    return found


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & (1 << 64) - 1, at + place + 1
    raise WireError("a number that does not end")


@dataclass(frozen=True)
class PlaybackRequest:
    """What the server uses of a VideoPlaybackAbrRequest; times in ms, rates in bit/s."""

    player_time_ms: int
    bandwidth_bps: int
    """The client's estimate; 0: none yet."""
    selected: tuple[int, ...]
    """The formats (itag) that it has initialised."""
    buffered: Mapping[int, int]
    """The last segment that it has of each format."""


def playback_request(body: bytes) -> PlaybackRequest:
    """Parse the body of a request. Raises WireError."""
    request = fields(body)
    state = fields(_bytes(request, 1))
    ranges = [fields(it) for it in request.get(3, []) if isinstance(it, bytes)]
    return PlaybackRequest(
        player_time_ms=_integer(state, 28),
        bandwidth_bps=_integer(state, 23),
        selected=tuple(_integer(fields(it), 1) for it in request.get(2, []) if isinstance(it, bytes)),
        buffered={_integer(fields(_bytes(it, 1)), 1): _integer(it, 5) for it in ranges},
    )


def _bytes(values: Mapping[int, list[Value]], number: int) -> bytes:
    value = values.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise WireError(f"field {number} is a number")
    return value


def _integer(values: Mapping[int, list[Value]], number: int) -> int:
    value = values.get(number, [0])[-1]
    if not isinstance(value, int):
        raise WireError(f"field {number} is not a number")
    return value


def format_id(itag: int) -> bytes:
    """Return a FormatId."""
    return message({1: itag})


def next_request_policy(readahead_ms: int, least_ms: int, backoff_ms: int) -> bytes:
    """Return the part that says how much to read ahead, at least, and when to request again."""
    policy = {1: readahead_ms, 2: readahead_ms, 4: backoff_ms, 5: least_ms, 6: least_ms}
    return part(Part.NEXT_REQUEST_POLICY, message({number: value for number, value in policy.items() if value}))


def initialization(itag: int, mime: str, last: int, duration_ms: int) -> bytes:
    """Return the part that describes a format: its type with codecs, its last segment and its length."""
    known: Fields = {2: format_id(itag), 3: duration_ms, 4: last, 5: mime, 9: duration_ms, 10: 1000}
    return part(Part.FORMAT_INITIALIZATION_METADATA, message(known))


def media(
    header: int, itag: int, content: bytes, *, number: int, start_ms: int, duration_ms: int, rate_bps: int, chunk: int
) -> Iterator[bytes]:
    """Yield the parts of a segment, 0 for the initialisation segment: a header, chunks of its bytes, and an end.

    `header` is the number by which these parts belong together in one answer, up to 127.
    """
    known: dict[int, Value | list[Value]] = {1: header, 3: itag, 13: format_id(itag), 14: len(content)}
    if number:
        known |= {9: number, 10: rate_bps, 11: start_ms, 12: duration_ms}
        known |= {15: message({1: start_ms, 2: duration_ms, 3: 1000})}
    else:
        known |= {8: 1}
    yield part(Part.MEDIA_HEADER, message(dict(sorted(known.items()))))
    for at in range(0, len(content), chunk):
        yield part(Part.MEDIA, bytes([header]) + content[at : at + chunk])
    yield part(Part.MEDIA_END, bytes([header]))
