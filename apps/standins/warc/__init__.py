# SPDX-License-Identifier: Apache-2.0
"""WARC 1.0 and 1.1, the archives that wget, Browsertrix and pywb write, from anyone, as recordings of requests.

Format: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/
warcio parses the heads. Its iterator of records has no bounds and accepts truncated files, so the loop is here.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError
from warcio.limitreader import LimitReader  # type: ignore[import-untyped]
from warcio.statusandheaders import StatusAndHeaders, StatusAndHeadersParser  # type: ignore[import-untyped]

from sojourn.apps.standins.har import (
    LARGEST,
    MOST_ENTRIES,
    ArchiveError,
    Exchange,
    Har,
    Moment,
    byte_count,
    is_of_web,
    media_type,
)
from sojourn.apps.standins.warc.pages import with_pages
from sojourn.hardware.machine.files import plain
from sojourn.hardware.machine.messages import printable

SUFFIXES = ".warc", ".warc.gz"
#: Most bytes of a record's fields, and of an HTTP head; as in Chromium.
_LARGEST_HEAD = 256 << 10
_MOST_RECORDS = 4 * MOST_ENTRIES
_PIECE = 1 << 16
_HEADS = StatusAndHeadersParser([], verify=False)
_VERSION = re.compile(rb"WARC/1\.[01]\s*")
_STATUS = re.compile(r"[1-5]\d\d\b")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(;[^\r\n]*)?\r?\n")
_MOMENT = TypeAdapter[Any](Moment)
#: The fields of an answer that are kept.
_KEPT = "content-type", "content-encoding", "location"
#: Values of Sec-Fetch-Dest whose documents are within another one.
_FRAMES = frozenset(("embed", "fencedframe", "frame", "iframe", "object"))


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


class _HeadLines:
    """The lines of a head, for warcio's parser, which reads endless ones."""

    def __init__(self, stream: _Stream, number: int) -> None:
        self._stream, self._number, self._left = stream, number, _LARGEST_HEAD

    def readline(self) -> bytes:
        line = self._stream.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise ArchiveError(
                f"record {self._number}: its head has more than {_LARGEST_HEAD >> 10} KiB", code="too-large"
            )
        return line


@dataclass(frozen=True)
class _WarcRecord:
    number: int
    fields: StatusAndHeaders
    block: LimitReader
    length: int

    def field(self, name: str) -> str:
        """Return the first value of a field; empty without one."""
        return str(self.fields.get_header(name, "")).strip()

    @property
    def url(self) -> str:
        # wget writes it in angle brackets.
        return self.field("WARC-Target-URI").removeprefix("<").removesuffix(">")

    @property
    def names(self) -> tuple[str, ...]:
        """Its identifier and those of the records of the same exchange."""
        together = (value.strip() for name, value in self.fields.headers if name.lower() == "warc-concurrent-to")
        return (self.field("WARC-Record-ID"), *together)

    def error(self, what: str) -> ArchiveError:
        return ArchiveError(f"record {self.number}: {what}", code="damaged")


@dataclass(frozen=True)
class _WarcRequest:
    method: str = "GET"
    referrer: str = ""
    destination: str = ""
    bytes: int | None = None


@dataclass(frozen=True)
class _Answer:
    exchange: Exchange
    names: tuple[str, ...]
    originals: tuple[str, ...] = ()
    """Of a revisit, which has no body: names of the record that has it, the most exact first."""


def read_warc(file: Path) -> Har:
    """Read a WARC, whose bodies are counted and not kept. Raises ArchiveError."""
    try:
        with open(file, "rb", opener=plain) as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            return _recording(LimitReader(gzip.GzipFile(fileobj=raw) if packed else raw, LARGEST))
    except ArchiveError as wrong:
        raise ArchiveError(f"{file}: {wrong}", code=wrong.code) from wrong
    except EOFError as wrong:
        raise ArchiveError(f"{file}: its gzip data is cut off; copy the file again", code="truncated") from wrong
    except (gzip.BadGzipFile, zlib.error) as wrong:
        raise ArchiveError(f"{file}: its gzip data is damaged: {wrong}", code="damaged") from wrong
    except OSError as wrong:
        raise ArchiveError(f"{file}: {wrong.strerror}", code="unreadable-file") from wrong


def _recording(content: LimitReader) -> Har:
    requests: dict[str, _WarcRequest] = {}
    answers: list[_Answer] = []
    bodies: dict[str, Exchange] = {}
    for record in _records(content):
        kind = record.field("WARC-Type").lower()
        if kind not in ("request", "response", "revisit") or not is_of_web(record.url, f"record {record.number}"):
            continue  # warcinfo, metadata, resource; dns:, urn:
        if kind == "request":
            requests |= dict.fromkeys(record.names, _request(record))
        elif not record.field("WARC-Profile").endswith("/server-not-modified"):
            answers.append(answer := _answer(record, is_revisit=kind == "revisit"))
            if kind == "response":
                names = record.names[0], record.field("WARC-Payload-Digest")
                bodies |= dict.fromkeys(filter(None, names), answer.exchange)
    if not answers:
        raise ArchiveError("no responses of http or https; record the page's own requests", code="missing")
    if len(answers) > MOST_ENTRIES:
        raise ArchiveError(f"{len(answers)} responses; a recording has at most {MOST_ENTRIES}", code="too-large")
    exchanges = [_whole(answer, requests, bodies) for answer in answers]
    exchanges.sort(key=lambda it: (it.started, it.number))
    return with_pages(exchanges) if requests else Har(tuple(exchanges), (), "")


def _records(content: LimitReader) -> Iterator[_WarcRecord]:
    """Yield the records; what a caller has not read of a block is skipped. Raises ArchiveError."""
    for number in count():
        lines = _HeadLines(content, number)
        first = next((line for line in iter(lines.readline, b"") if line.strip()), b"")
        if not content.limit:
            raise _too_large()
        if not first:
            return
        if number == _MOST_RECORDS:
            raise ArchiveError(f"more than {_MOST_RECORDS} records", code="too-large")
        if not _VERSION.fullmatch(first):
            raise _unknown(number, first)
        fields = _HEADS.parse(lines, first)
        length = byte_count(declared := str(fields.get_header("Content-Length", "")).strip())
        record = _WarcRecord(number, fields, LimitReader(content, length), length)
        if length < 0:
            raise record.error(f"Content-Length is {printable(declared)[:20]!r}, not a number of bytes")
        yield record
        _skip(record.block)
        if record.block.limit:
            if not content.limit:
                raise _too_large()
            raise ArchiveError(
                f"record {number}: the file ends {record.block.limit} bytes before the record's end; copy it again",
                code="truncated",
            )


def _too_large() -> ArchiveError:
    return ArchiveError(
        f"its records have more than {LARGEST >> 20} MiB; give a recording of fewer pages", code="too-large"
    )


def _unknown(number: int, first: bytes) -> ArchiveError:
    shown = repr(printable(first[:40].decode(errors="replace").strip()))
    if first.startswith(b"WARC/"):
        return ArchiveError(f"record {number}: version {shown}; give a WARC of version 1.0 or 1.1", code="unsupported")
    if not number:
        return ArchiveError(f"not a WARC: it begins with {shown}, not WARC/1.0 or WARC/1.1", code="damaged")
    return ArchiveError(
        f"record {number} begins with {shown}, not WARC/1.0 or WARC/1.1; the record before it may be longer than its "
        "Content-Length",
        code="damaged",
    )


def _skip(stream: _Stream) -> int:
    """Read to the end; return the number of bytes."""
    return sum(map(len, iter(lambda: stream.read(_PIECE), b"")))


def _request(record: _WarcRecord) -> _WarcRequest:
    if not record.length:
        return _WarcRequest()
    head = _HEADS.parse(_HeadLines(record.block, record.number))
    fields = _fields(head)
    destination = fields.get("sec-fetch-dest", "").lower()
    return _WarcRequest(head.protocol.upper(), fields.get("referer", ""), destination, record.length)


def _answer(record: _WarcRecord, *, is_revisit: bool) -> _Answer:
    if record.field("WARC-Segment-Number"):
        raise ArchiveError(
            f"record {record.number}: it is a part of a response; give a WARC without segments", code="unsupported"
        )
    try:
        started = _MOMENT.validate_python(record.field("WARC-Date")).timestamp()
    except ValidationError:
        raise record.error(f"WARC-Date is {printable(record.field('WARC-Date'))[:30]!r}, not a date in UTC") from None
    status, protocol, fields = 0, "", dict[str, str]()
    if record.length or not is_revisit:
        status, protocol, fields = _http_head(record)
    chunked = fields.get("transfer-encoding", "").lower() == "chunked"
    size = None if is_revisit else _chunked(record.block) if chunked else _skip(record.block)
    if is_revisit and (declared := byte_count(fields.get("content-length", ""))) >= 0:
        size = declared
    kind = record.field("WARC-Resource-Type").lower()  # Browsertrix writes it, and the page
    mime = media_type(fields.get("content-type", ""))
    exchange = Exchange(
        number=record.number, page=record.field("WARC-Page-ID") or None, started=started, method="GET", url=record.url,
        referrer="", protocol=protocol, request_bytes=None, status=status,
        headers={name: fields[name] for name in _KEPT if name in fields}, mime=mime,
        size=size, received=size, cached=status == 304, connect_s=None, wait_s=None, receive_s=None, took_s=0.0,
        further={"_resourceType": kind} if kind else {}, ecn={}, _text=None, _encoding="",
    )  # fmt: skip
    originals = record.field("WARC-Refers-To"), record.field("WARC-Payload-Digest")
    return _Answer(exchange, record.names, originals if is_revisit else ())


def _http_head(record: _WarcRecord) -> tuple[int, str, dict[str, str]]:
    """Return status, protocol and fields of a response. Raises ArchiveError."""
    head = _HEADS.parse(_HeadLines(record.block, record.number)) if record.length else None
    if not (head and head.protocol.upper().startswith("HTTP/") and _STATUS.match(head.statusline)):
        raise record.error("its block is not an HTTP response")
    return int(head.statusline[:3]), head.protocol.lower(), _fields(head)


def _fields(head: StatusAndHeaders) -> dict[str, str]:
    return {name.lower(): value.strip() for name, value in head.headers}


def _chunked(block: LimitReader) -> int:
    """Return the bytes of a chunked body (RFC 9112, 7.1); all bytes if the recorder has removed the chunks' heads."""
    start, size = block.limit, 0
    while line := block.readline(64):
        if not (match := _CHUNK.fullmatch(line)):
            _skip(block)
            return int(start)
        if not (length := int(match[1], 16)):
            break
        size += _skip(part := LimitReader(block, length))
        if part.limit or block.readline(2) not in (b"\r\n", b"\n"):
            break
    return size


def _whole(answer: _Answer, requests: Mapping[str, _WarcRequest], bodies: Mapping[str, Exchange]) -> Exchange:
    """Return an exchange with what its request says, and with a revisit's body. Raises ArchiveError."""
    it = answer.exchange
    if answer.originals:
        original = next((bodies[name] for name in answer.originals if name in bodies), None)
        if original:
            it = replace(
                it, status=it.status or original.status, mime=it.mime or original.mime, size=original.size,
                received=original.received,
            )  # fmt: skip
        elif it.received is None:
            raise ArchiveError(
                f"record {it.number}: {printable(it.url)[:100]}: a revisit of a body that is not in the file; record "
                "the page without deduplication",
                code="missing",
            )
    request = next((requests[name] for name in answer.names if name in requests), _WarcRequest())
    destination = "subdocument" if request.destination in _FRAMES else request.destination
    return replace(
        it, method=request.method, referrer=request.referrer, request_bytes=request.bytes,
        further={"_resourceType": destination} if destination else it.further,
    )  # fmt: skip
