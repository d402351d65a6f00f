# SPDX-License-Identifier: Apache-2.0
"""Requests and answers in packets as tshark shows them, and what a capture does not show."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps.standins.har import Exchange, parse_har
from sojourn.apps.standins.profile.from_capture import Transactions, bodies
from sojourn.apps.standins.profile.recorded import ServiceProfileError
from sojourn.hardware.machine.errors import Code
from tests.refusals import refusal

START = 1_795_885_200.0
CLIENT, SERVER = "40000", "443"
Head = dict[str, str]
REQUEST = {":method": "GET", ":scheme": "https", ":authority": "a.test", ":path": "/720p/1.m4s"}
OK = {":status": "200", "content-type": "Video/MP4"}


class Packets:
    """The packets of a capture, one each 10 ms."""

    def __init__(self) -> None:
        self.seen, self._numbers = Transactions(), count(1)

    def add(self, port: str, protocols: str = "eth:ip:tcp:tls", **fields: Any) -> None:
        number = next(self._numbers)
        known: dict[str, Any] = {
            "frame_number": str(number), "frame_time_epoch": f"{START + number / 100:.6f}", "frame_len": "1000",
            "frame_cap_len": "1000", "frame_protocols": protocols, "ip_dsfield_ecn": "0", "tcp_stream": "0",
            "tcp_srcport": port, "tcp_len": "934",
        } | fields  # fmt: skip
        self.seen.add({name: it if isinstance(it, list) else [it] for name, it in known.items()})

    def http2(self, port: str, *frames: tuple[int, int, int, int], heads: tuple[Head, ...] = (), **more: Any) -> None:
        """Add a packet with frames: their type, flags, stream and length."""
        kinds, flags, streams, lengths = zip(*frames, strict=True)
        fields = [field for head in heads for field in head.items()]
        self.add(
            port, http2_type=[*map(str, kinds)], http2_flags=[f"{flag:#04x}" for flag in flags],
            http2_streamid=[*map(str, streams)], http2_length=[*map(str, lengths)],
            http2_header_name=[name for name, _ in fields], http2_header_value=[value for _, value in fields], **more,
        )  # fmt: skip

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        entries = [*self.seen.entries()]
        return parse_har(json.dumps({"log": {"version": "1.2", "entries": entries}}).encode()).exchanges


@pytest.fixture
def packets() -> Packets:
    return Packets()


def test_streams_that_share_packets_are_kept_apart(packets: Packets) -> None:
    other = REQUEST | {":path": "/720p/2.m4s"}
    packets.http2(CLIENT, (1, 5, 1, 200), (1, 5, 3, 20), heads=(REQUEST, other), tcp_analysis_initial_rtt="0.02")
    packets.http2(SERVER, (1, 4, 1, 30), heads=({":status": "103", "link": "x"},))
    packets.http2(SERVER, (1, 4, 3, 30), (1, 4, 1, 30), heads=(OK, OK))
    packets.http2(SERVER, (0, 0, 1, 500), (0, 1, 3, 70))
    packets.http2(SERVER, (0, 0, 1, 300), (1, 5, 1, 9), heads=({"server-timing": "x"},))
    first, second = packets.exchanges
    assert [it.url[-5:] for it in (first, second)] == ["1.m4s", "2.m4s"]
    assert (first.size, first.request_bytes, second.size, second.request_bytes) == (800, 209, 70, 29)
    assert (first.wait_s, first.receive_s) == pytest.approx((0.02, 0.02))
    assert (second.wait_s, second.receive_s) == pytest.approx((0.02, 0.01))
    assert (first.connect_s, second.connect_s, first.mime, first.protocol) == (0.02, None, "video/mp4", "h2")


def test_an_answer_whose_end_is_not_captured_has_its_declared_size_or_none(packets: Packets) -> None:
    for stream, path in ((1, "/1.m4s"), (3, "/2.m4s"), (5, "/3.m4s")):
        packets.http2(CLIENT, (1, 5, stream, 20), heads=(REQUEST | {":path": path},))
    packets.http2(SERVER, (1, 4, 1, 30), (0, 0, 1, 10), heads=(OK | {"content-length": "5000"},))
    packets.http2(SERVER, (1, 4, 3, 30), (0, 0, 3, 10), heads=(OK,))
    packets.http2(SERVER, (1, 4, 5, 30), (0, 9, 5, 10), heads=(OK,))  # its frame is padded
    assert [it.size for it in packets.exchanges] == [5000, None, None]
    assert [it.receive_s for it in packets.exchanges] == [None, None, 0.0]


def test_an_answer_over_http1_begins_with_its_first_segment(packets: Packets) -> None:
    packets.add(
        CLIENT, http_request_method="GET", http_request_full_uri="http://a.test/1.m4s", http_request_uri="/1.m4s",
        http_request_version="HTTP/1.1", http_request_line=["Host: a.test\r\n", "X:\r\n"],
    )  # fmt: skip
    packets.add(SERVER)
    packets.add(SERVER)
    packets.add(
        SERVER, http_response_code=["100", "200"], http_request_in=["1", "1"], tcp_segment=["2", "3", "4"],
        http_response_line=["Content-Type: video/mp4\r\n", "Transfer-Encoding: chunked\r\n"],
        http_chunk_size=["900", "80", "0"],
    )  # fmt: skip
    (it,) = packets.exchanges
    assert (it.size, it.status, it.protocol) == (980, 200, "http/1.1")
    assert it.request_bytes == len("GET /1.m4s HTTP/1.1\r\nHost: a.test\r\nX:\r\n\r\n")
    assert (it.wait_s, it.receive_s) == pytest.approx((0.01, 0.02))


def test_a_connections_first_request_has_the_ecn_of_the_server(packets: Packets) -> None:
    for stream in (1, 3):
        packets.http2(CLIENT, (1, 5, stream, 20), heads=(REQUEST,), ip_dsfield_ecn="2")
    for stream, codepoint in ((1, "1"), (1, "3"), (3, "1")):
        packets.http2(SERVER, (1, 5, stream, 30), heads=(OK,), ip_dsfield_ecn=codepoint)
    assert [it.ecn for it in packets.exchanges] == [{"ect1": 2, "ce": 1}, {}]


def test_content_is_read_of_manifests_that_ended(packets: Packets) -> None:
    manifest = {":status": "200", "content-type": "application/vnd.apple.mpegurl"}
    for stream in (1, 3, 5):
        packets.http2(CLIENT, (1, 5, stream, 20), heads=(REQUEST | {":path": f"/{stream}"},))
    packets.http2(SERVER, (1, 4, 1, 30), (0, 0, 3, 9), (1, 4, 3, 30), (1, 4, 5, 9), heads=(manifest, manifest, OK))
    packets.http2(SERVER, (0, 1, 3, 30), (0, 1, 5, 9))
    wanted = packets.seen.manifests()
    assert [*wanted] == [(5, 3)]
    layers = {
        "frame": {"frame.number": "5"},
        "http2": [
            {"http2.stream": {"http2.streamid": "3", "Content-encoded": {"http2.data.data": "23:45:58:54"}}},
            {"http2.stream": {"http2.streamid": "5", "http2.data.data": "00:ff"}},
        ],
    }
    assert dict(bodies(layers)) == {(5, 3): "#EXT", (5, 5): "\0\ufffd"}
    for shown in ("<MPD>", "3c4d50443e"):  # before Wireshark 4.2, and since
        assert dict(bodies({"frame": {"frame.number": "7"}, "http": {"http.file_data": shown}})) == {(7, 0): "<MPD>"}


@pytest.mark.parametrize(
    ("fields", "code", "mentioned"),
    [
        ({"frame_cap_len": "128"}, "truncated", "1 of 1 packets are cut to 128 bytes"),
        ({"frame_protocols": "eth:ip:udp:quic", "udp_length": "1200", "tcp_len": "0"}, "unsupported", "HTTP/3"),
        ({}, "bad-key", "no key in keys.log decrypts"),
        ({"frame_protocols": "eth:ip:tcp"}, "missing", "no answers over HTTP"),
        ({"frame_time_epoch": "1e12"}, "damaged", "impossible time"),
    ],
)
def test_what_cannot_be_read_has_its_reason(
    packets: Packets, fields: dict[str, str], code: Code, mentioned: str
) -> None:
    with refusal(ServiceProfileError, code, mentioned):
        packets.add(SERVER, **fields)
        packets.seen.require_decrypted(Path("keys.log"))


def test_without_keys_they_are_named() -> None:
    (packets := Packets()).add(SERVER)
    with refusal(ServiceProfileError, "bad-key", "--keys=FILE"):
        packets.seen.require_decrypted(None)
    with refusal(ServiceProfileError, "missing", "no packets"):
        Transactions().require_decrypted(None)
