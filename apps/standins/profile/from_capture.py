# SPDX-License-Identifier: Apache-2.0
"""A packet capture of a service as a HAR: the requests over HTTP/1.1 and HTTP/2, their times and sizes on the wire."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

from sojourn.apps.standins.har import MOST_ENTRIES, ArchiveError, Har, parse_har
from sojourn.apps.standins.profile.manifests import is_manifest
from sojourn.apps.standins.profile.recorded import ServiceProfileError
from sojourn.apps.standins.profile.tshark import CaptureFile, Packet
from sojourn.scoring.packets.pcapng import CE, CODEPOINTS

FIELDS = (
    "frame.number", "frame.time_epoch", "frame.len", "frame.cap_len", "frame.protocols",
    "ip.dsfield.ecn", "ipv6.tclass.ecn", "udp.length",
    "tcp.stream", "tcp.srcport", "tcp.len", "tcp.analysis.initial_rtt", "tcp.segment", "tls.segment",
    "http.request.method", "http.request.full_uri", "http.request.uri", "http.request.version", "http.request.line",
    "http.response.code", "http.response.line", "http.request_in", "http.chunk_size",
    "http2.type", "http2.flags", "http2.streamid", "http2.length",
    "http2.header.name", "http2.header.value",
)  # fmt: skip
_ECN = {value: name for name, value in CODEPOINTS.items()} | {CE: "ce"}
#: HTTP/2's frames and flags (RFC 9113, 6).
_DATA, _HEADERS, _PUSH_PROMISE, _CONTINUATION = 0, 1, 5, 9
_CARRIERS = (_HEADERS, _PUSH_PROMISE, _CONTINUATION)
_END_STREAM, _END_HEADERS, _PADDED = 1, 4, 8
_FRAME_HEADER = 9
#: Manifests whose content is read, and their bytes on the wire: a player of a live stream fetches one per segment.
_MOST_MANIFESTS, _MOST_MANIFEST_BYTES = 1000, 16 << 20
_LAST_S = 253e9
_KEPT = ("content-type", "content-length", "content-encoding", "content-range")


@dataclass
class _TcpConnection:
    """A TCP connection."""

    rtt_s: float | None = None
    tls: bool = False
    sent: int = 0
    """Bytes in both directions."""
    requests: int = 0
    ecn: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Packets with data by their source port and codepoint."""


@dataclass
class _Transaction:
    """A request, and as much of its answer as was captured."""

    connection: _TcpConnection
    first_of_connection: bool
    client: str
    """The client's port."""
    method: str
    url: str
    protocol: str
    started: float
    head_bytes: int
    body_bytes: int = 0
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    first: float = 0.0
    last: float = 0.0
    answer_bytes: int = 0
    known: bool = True
    """Whether `answer_bytes` are those of the body: padding is part of HTTP/2's frames."""
    end: tuple[int, int] | None = None
    """The number of the packet that ends the answer, and HTTP/2's stream, 0 for HTTP/1.1; None: not captured."""
    text: str | None = None

    @property
    def manifest(self) -> bool:
        return self.status == 200 and is_manifest(self.headers.get("content-type", ""), self.url.partition("?")[0])

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of a HAR."""
        connection = self.connection
        new = connection if self.first_of_connection else _TcpConnection()
        content: dict[str, Any] = {"mimeType": self.headers.get("content-type")}
        return {
            "startedDateTime": datetime.fromtimestamp(self.started, UTC).isoformat(),
            "time": max(0.0, self.last - self.started) * 1000,
            "request": {
                "method": self.method, "url": self.url, "httpVersion": self.protocol,
                "headersSize": self.head_bytes, "bodySize": self.body_bytes,
            },
            "response": {
                "status": self.status, "bodySize": self.answer_bytes if self.end and self.known else -1,
                "headers": [{"name": name, "value": self.headers[name]} for name in _KEPT if name in self.headers],
                "content": content | ({"text": self.text} if self.text is not None else {}),
            },
            "timings": {
                "connect": -1 if new.rtt_s is None else new.rtt_s * 1000,
                "wait": max(0.0, self.first - self.started) * 1000,
                "receive": max(0.0, self.last - self.first) * 1000 if self.end else -1,
            },
            "_ecn": {name: count for (port, name), count in new.ecn.items() if port != self.client},
        }  # fmt: skip


def read_capture(file: Path, keys: Path | None = None) -> Har:
    """Read a packet capture, with the log of its TLS keys if it has none itself.

    Raises ServiceProfileError, DecoderError.
    """
    capture = CaptureFile(file, keys)
    capture.check()
    try:
        seen = _read(capture)
        log = {"version": "1.2", "creator": {"name": capture.recorder}, "entries": [*seen.entries()]}
        return parse_har(json.dumps({"log": log}).encode())
    except (ServiceProfileError, ArchiveError) as wrong:
        said = str(wrong).removeprefix(f"{file}: ")
        raise ServiceProfileError(f"{file}: {said}", code=wrong.code) from wrong
    except (KeyError, ValueError) as wrong:
        said = f"{capture.recorder} prints unknown fields: {wrong}"
        raise ServiceProfileError(f"{file}: {said}", code="unsupported") from wrong


def _read(capture: CaptureFile) -> Transactions:
    """Return the transactions of a capture, with the content of manifests."""
    seen = Transactions()
    with closing(capture.packets(FIELDS)) as packets:
        for packet in packets:
            seen.add(packet)
    seen.require_decrypted(capture.keys)
    wanted = seen.manifests()
    for layers in capture.answers(sorted({number for number, _ in wanted})) if wanted else ():
        for end, body in bodies(layers):
            if end in wanted:
                wanted[end].text = body
    return seen


class Transactions:
    """The transactions in the packets of a capture, in order."""

    def __init__(self) -> None:
        self._times = array("d")
        self._connections: dict[str, _TcpConnection] = {}
        self._http1: dict[str, _Transaction] = {}
        self._http2: dict[tuple[str, str], _Transaction] = {}
        self._all: list[_Transaction] = []
        self._cut, self._kept, self._quic_bytes = 0, 0, 0

    def add(self, packet: Packet) -> None:
        """Take the next packet. Raises ServiceProfileError."""
        now = float(packet["frame_time_epoch"][0])
        if not 0 <= now < _LAST_S:
            raise ServiceProfileError(f"packet {packet['frame_number'][0]} has an impossible time", code="damaged")
        self._times.append(now)
        if int(packet["frame_len"][0]) > (kept := int(packet["frame_cap_len"][0])):
            self._cut, self._kept = self._cut + 1, max(self._kept, kept)
        protocols = packet.get("frame_protocols", [""])[0].split(":")
        if "quic" in protocols:
            self._quic_bytes += sum(map(int, packet.get("udp_length", ())))
        if "tcp_stream" not in packet:
            return
        connection = self._connections.setdefault(packet["tcp_stream"][-1], _TcpConnection())
        connection.tls |= "tls" in protocols
        if "tcp_analysis_initial_rtt" in packet and connection.rtt_s is None:
            connection.rtt_s = float(packet["tcp_analysis_initial_rtt"][-1])
        if sent := int(packet.get("tcp_len", ["0"])[-1]):
            connection.sent += sent
            codepoint = (packet.get("ip_dsfield_ecn") or packet.get("ipv6_tclass_ecn") or ["0"])[-1]
            connection.ecn[packet["tcp_srcport"][-1], _ECN[int(codepoint)]] += 1
        if "http_request_method" in packet:
            self._http1_request(packet, connection, now)
        if "http_response_code" in packet:
            self._http1_answer(packet, now)
        if "http2_type" in packet:
            self._add_http2(packet, connection, now)

    def require_decrypted(self, keys: Path | None) -> None:
        """Raise ServiceProfileError if most of what was captured cannot be read."""
        if not self._times:
            raise ServiceProfileError("it has no packets", code="missing")
        if self._cut:
            raise ServiceProfileError(
                f"{self._cut} of {len(self._times)} packets are cut to {self._kept} bytes or less; capture whole "
                "packets (tcpdump -s 0)",
                code="truncated",
            )
        sent = sum(it.sent for it in self._connections.values())
        if self._quic_bytes > sent:
            raise ServiceProfileError(
                "most of its bytes are of QUIC: HTTP/3 is not read from packets; record again without it (chromium "
                "--disable-quic), or give a HAR",
                code="unsupported",
            )
        closed = sum(it.sent for it in self._connections.values() if it.tls and not it.requests)
        if closed * 2 > sent:
            said = f"{closed / 1e6:.2f} of {sent / 1e6:.2f} MB are of TLS connections that"
            if keys is None:
                raise ServiceProfileError(f"{said} need keys; give their log, --keys=FILE", code="bad-key")
            raise ServiceProfileError(
                f"{said} no key in {keys} decrypts; start the capture, then the browser with SSLKEYLOGFILE",
                code="bad-key",
            )
        if not any(it.status for it in self._all):
            raise ServiceProfileError("it has no answers over HTTP", code="missing")

    def manifests(self) -> dict[tuple[int, int], _Transaction]:
        """Return the transactions of manifests by the ends of their answers, as far as their content is read."""
        found = [(it.end, it) for it in self._all if it.end and it.manifest][:_MOST_MANIFESTS]
        totals = accumulate(it.answer_bytes for _, it in found)
        return {end: it for (end, it), total in zip(found, totals, strict=True) if total <= _MOST_MANIFEST_BYTES}

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield the entries of a HAR: requests of the web that were answered."""
        return (it.entry for it in self._all if it.status)

    def _begin(self, connection: _TcpConnection, **known: Any) -> _Transaction:
        if len(self._all) >= MOST_ENTRIES:
            raise ServiceProfileError(f"more than {MOST_ENTRIES} requests", code="too-large")
        begun = _Transaction(connection, not connection.requests, **known)
        connection.requests += 1
        self._all.append(begun)
        return begun

    def _http1_request(self, packet: Packet, connection: _TcpConnection, now: float) -> None:
        line = [packet.get(f"http_request_{part}", [""])[-1] for part in ("method", "uri", "version")]
        lines = packet.get("http_request_line", ())
        self._http1[packet["frame_number"][0]] = self._begin(
            connection, client=packet["tcp_srcport"][-1], method=line[0], protocol=line[2], started=now,
            url=packet.get("http_request_full_uri", [""])[-1],
            head_bytes=len("\r\n".join((" ".join(line), "".join(lines), "")).encode()),
            body_bytes=_length(_header_lines(lines)),
        )  # fmt: skip

    def _http1_answer(self, packet: Packet, now: float) -> None:
        answered = self._http1.pop(packet.get("http_request_in", [""])[-1], None)
        if answered is None:
            return
        number = int(packet["frame_number"][0])
        segments = packet.get("tls_segment") or packet.get("tcp_segment") or [str(number)]
        begun = min(map(int, segments))
        answered.status = int(packet["http_response_code"][-1])
        answered.headers = _header_lines(packet.get("http_response_line", ()))
        answered.first, answered.last = self._times[begun - 1] if 0 < begun <= len(self._times) else now, now
        answered.end, chunks = (number, 0), packet.get("http_chunk_size")
        answered.answer_bytes = sum(map(int, chunks)) if chunks else _length(answered.headers)
        answered.known = chunks is not None

    def _add_http2(self, packet: Packet, connection: _TcpConnection, now: float) -> None:
        kinds = [*map(int, packet["http2_type"])]
        flags = [int(it, 0) for it in packet["http2_flags"]]
        streams, lengths = packet["http2_streamid"], [*map(int, packet["http2_length"])]
        if not len(kinds) == len(flags) == len(streams) == len(lengths):
            return
        completed = [kind in _CARRIERS and bool(flag & _END_HEADERS) for kind, flag in zip(kinds, flags, strict=True)]
        heads = _heads(packet, sum(completed))
        number, stream_of, client = int(packet["frame_number"][0]), packet["tcp_stream"][-1], packet["tcp_srcport"][-1]
        for kind, flag, stream, length, complete in zip(kinds, flags, streams, lengths, completed, strict=True):
            head = next(heads, {}) if complete else {}
            key = stream_of, stream
            if kind != _PUSH_PROMISE and ":method" in head:
                self._http2[key] = self._begin(
                    connection, client=client, method=head[":method"], protocol="h2", started=now,
                    url=f"{head.get(':scheme', '')}://{head.get(':authority', '')}{head.get(':path', '')}",
                    head_bytes=length + _FRAME_HEADER,
                )  # fmt: skip
                continue
            known = self._http2.get(key)
            if known is None or kind not in (_DATA, _HEADERS, _CONTINUATION):
                continue
            if client == known.client:
                known.body_bytes += length + _FRAME_HEADER
                continue
            if head.get(":status", "").isdecimal() and not known.status and (status := int(head[":status"])) >= 200:
                known.status, known.headers, known.first = status, head, now
            known.last = now
            if kind == _DATA:
                known.answer_bytes += length
                known.known &= not flag & _PADDED
            if kind != _CONTINUATION and flag & _END_STREAM:
                known.end = number, int(stream)


def _heads(packet: Packet, blocks: int) -> Iterator[dict[str, str]]:
    """Return the header fields of each block in a packet; none if tshark does not show all of its `blocks`.

    A block begins with pseudo-header fields. Its count (http2.header.count) has updates of the table's size as well.
    """
    heads: list[dict[str, str]] = []
    before = ""
    for name, value in zip(packet.get("http2_header_name", ()), packet.get("http2_header_value", ()), strict=False):
        if not heads or (name.startswith(":") and (name in heads[-1] or not before.startswith(":"))):
            heads.append({})
        heads[-1][name.lower()] = value
        before = name
    return iter(heads if len(heads) == blocks else ())


def _header_lines(lines: Iterable[str]) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _length(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() and len(length) <= 12 else 0


def bodies(layers: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the decompressed bodies in a packet, as text, by the ends of their answers (`_Transaction.end`)."""
    number = int(layers["frame"]["frame.number"])
    for http in _each(layers.get("http")):
        for body in _within(http, "http.file_data"):
            yield (number, 0), _text(body)
    for http2 in _each(layers.get("http2")):
        for stream in _each(http2.get("http2.stream")):
            for body in _within(stream, "http2.data.data"):
                yield (number, int(stream.get("http2.streamid", 0))), _text(body)


def _each(layer: Any) -> list[Mapping[str, Any]]:
    return [it for it in (layer if isinstance(layer, list) else [layer]) if isinstance(it, dict)]


def _within(tree: Mapping[str, Any], name: str) -> Iterator[str]:
    for key, value in tree.items():
        if key == name:
            yield value if isinstance(value, str) else ""
        elif isinstance(value, dict):
            yield from _within(value, name)


def _text(body: str) -> str:
    """Return the text of a field that is hexadecimal, or text already (http.file_data before Wireshark 4.2)."""
    try:
        return bytes.fromhex(body.replace(":", "")).decode(errors="replace")
    except ValueError:
        return body
