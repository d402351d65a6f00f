# SPDX-License-Identifier: Apache-2.0
"""The wire format of SABR by itself; tests/programs/apps/test_sabr_wire.py holds it against googlevideo."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sojourn.apps.standins.sabr import wire


def parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of every part of UMP."""
    at = 0
    while at < len(data):
        kind, at = integer_at(data, at)
        size, at = integer_at(data, at)
        yield kind, data[at : at + size]
        at += size


def integer_at(data: bytes, at: int) -> tuple[int, int]:
    """Return UMP's integer at a place, and the place after it."""
    first = data[at]
    more = sum(first >= least for least in (0x80, 0xC0, 0xE0, 0xF0))
    rest, low = int.from_bytes(data[at + 1 : at + 1 + more], "little"), 7 - more
    value = first if more == 0 else rest if more == 4 else (first & (1 << low) - 1) | rest << low
    return value, at + 1 + more


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\0"), (127, b"\x7f"), (128, b"\x80\x02"), (16_383, b"\xbf\xff"), (16_384, b"\xc0\x00\x02"),
        (2_097_151, b"\xdf\xff\xff"), (2_097_152, b"\xe0\x00\x00\x02"), (1 << 28, b"\xf0\x00\x00\x00\x10"),
    ],
)  # fmt: skip
def test_an_integer_of_ump_has_as_many_bytes_as_its_first_one_tells(value: int, encoded: bytes) -> None:
    assert wire.ump_integer(value) == encoded
    assert list(parts(encoded + b"\0")) == [(value, b"")]


def test_a_message_has_its_fields_again() -> None:
    encoded = wire.message({1: 300, 2: "a", 3: [b"x", b"y"], 4: -1})
    assert wire.fields(encoded) == {1: [300], 2: [b"a"], 3: [b"x", b"y"], 4: [(1 << 64) - 1]}


@pytest.mark.parametrize("data", [b"\x80", b"\x0a\x05ab", b"\x0b", b"\xff" * 11, b"\x08\x01" * 20_000])
def test_a_broken_message_is_refused(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.fields(data)


def test_a_number_where_a_message_should_be_is_refused() -> None:
    with pytest.raises(wire.WireError, match="field 1"):
        wire.playback_request(wire.message({1: 5}))


def test_a_segment_is_a_header_its_bytes_and_an_end() -> None:
    content = bytes(range(256)) * 300
    known = {"number": 2, "start_ms": 2000, "duration_ms": 2000, "rate_bps": 1, "chunk": 32_768}
    sent = b"".join(wire.media(5, 3, content, **known))
    (kind, header), *chunks, (last, end) = parts(sent)
    assert (kind, last, end) == (wire.Part.MEDIA_HEADER, wire.Part.MEDIA_END, b"\x05")
    assert wire.fields(header)[14] == [len(content)]
    assert b"".join(it[1:] for _, it in chunks) == content
    assert {it[0] for _, it in chunks} == {5}
