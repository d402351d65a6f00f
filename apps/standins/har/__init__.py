# SPDX-License-Identifier: Apache-2.0
"""HAR 1.2, the recording of a page's requests that browsers' developer tools and Playwright write, from anyone.

Format: http://www.softwareishard.com/blog/har-12-spec/
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sojourn.hardware.machine import json_text
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.messages import first_wrong, printable

LARGEST = 256 << 20
"""Largest recording that is read, bytes: of a HAR, about 2 minutes of film at 10 Mbit/s, and hours without bodies."""
#: Values, those included that are only within the texts of bodies.
_MOST_VALUES = 1 << 24
MOST_ENTRIES = 50_000
"""Most requests of a recording."""
DOCUMENT_TYPES = "text/html", "application/xhtml+xml"
Codepoint = Literal["not-ect", "ect0", "ect1", "ce"]
"""Names of the ECN field's values (RFC 3168)."""
_VERSIONS = ("1.1", "1.2")
#: Sizes of requests and answers, bytes; below 0 or null: not known. Chromium subtracts heads that it did not receive.
_Size = Annotated[int, BeforeValidator(lambda size: -1 if size is None else size), Field(le=1 << 40)]
#: Times in ms, as the format has them; below 0 or null: does not apply.
_Ms = Annotated[float | None, Field(le=1e9)]
Moment = Annotated[AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC))]
"""A moment that UTC's calendar has, whatever its time zone."""


class ArchiveError(CodedError):
    """A recording that cannot be used; one line that names the file."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Named(_Part):
    name: str = ""
    value: str = ""


class _Content(_Part):
    size: _Size = -1
    mimeType: str | None = None
    text: str | None = None
    encoding: str = ""


class _Request(_Part):
    method: str
    url: str
    httpVersion: str = ""
    headers: tuple[_Named, ...] = ()
    headersSize: _Size = -1
    bodySize: _Size = -1


class _Response(_Part):
    status: int
    headers: tuple[_Named, ...] = ()
    bodySize: _Size = -1
    transferSize: _Size = Field(-1, alias="_transferSize")
    content: _Content = _Content()


class _Timings(_Part):
    blocked: _Ms = -1
    dns: _Ms = -1
    connect: _Ms = -1
    ssl: _Ms = -1
    send: _Ms = -1
    wait: _Ms = -1
    receive: _Ms = -1


class _ExchangeEntry(_Part, extra="allow"):
    pageref: str | None = None
    startedDateTime: Moment
    time: _Ms = -1
    request: _Request
    response: _Response
    timings: _Timings = _Timings()
    ecn: dict[Codepoint, Annotated[int, Field(ge=0)]] = Field({}, alias="_ecn")


class _Creator(_Part):
    name: str = ""
    version: str = ""


class _RecordedPage(_Part):
    id: str


class _Log(_Part):
    version: str
    creator: _Creator = _Creator()
    pages: tuple[_RecordedPage, ...] | None = None
    entries: tuple[_ExchangeEntry, ...]


class _Har(_Part):
    log: _Log


@dataclass(frozen=True)
class Exchange:
    """A request and its answer. Times in Unix s and s, sizes in bytes."""

    number: int
    """Its place in the recording, from 0 on."""
    page: str | None
    """The name of the page that requested it, if the recording has it."""
    started: float
    method: str
    url: str
    referrer: str
    protocol: str
    request_bytes: int | None
    """Of the head and the body, if the recording has both."""
    status: int
    headers: Mapping[str, str]
    """Of the answer, by name in small letters."""
    mime: str
    """The answer's media type in small letters, without parameters."""
    size: int | None
    """Of the answer's body as it was sent; None: not known."""
    received: int | None
    """Of the answer's body that arrived; without a record of them, of the transfer or of the content."""
    cached: bool
    """Whether no server sent the body: it came from the browser's cache, or a service worker made it."""
    connect_s: float | None
    """From the first packet of a new connection to its end of TCP's handshake; None: no new connection."""
    wait_s: float | None
    """From the last byte of the request to the first of the answer."""
    receive_s: float | None
    """From the first byte of the answer to the last."""
    took_s: float
    """From the start of the request to the last byte of the answer."""
    ecn: Mapping[Codepoint, int]
    """Packets that the server sent on the new connection, by codepoint; none unless packets were captured."""
    further: Mapping[str, Any]
    """Other fields of the entry, unchecked: `cache`, and `_initiator` and others that the format does not define."""
    _text: str | None
    _encoding: str

    @property
    def ended(self) -> float:
        """When the answer's last byte came, Unix s."""
        return self.started + self.took_s

    @property
    def is_whole(self) -> bool:
        """Whether the server sent what was requested, with a body."""
        return 200 <= self.status < 300 and bool(self.received)

    @property
    def address(self) -> SplitResult:
        """The parts of the URL."""
        return urlsplit(self.url)

    @property
    def body(self) -> bytes | None:
        """The answer's body, if the recording has it. Raises ArchiveError."""
        if self._text is None:
            return None
        if self._encoding != "base64":
            return self._text.encode(errors="surrogatepass")
        try:
            return base64.b64decode(self._text, validate=True)
        except binascii.Error as wrong:
            raise ArchiveError(f"entry {self.number}: its content is not base64: {wrong}", code="damaged") from wrong


@dataclass(frozen=True)
class Har:
    """A recording: the exchanges in the order of their starts, the names of pages, and the program that recorded."""

    exchanges: tuple[Exchange, ...]
    pages: tuple[str, ...]
    recorder: str


def read_har(file: Path) -> Har:
    """Read a HAR. Raises ArchiveError."""
    try:
        return parse_har(json_text.content(file, LARGEST, _MOST_VALUES))
    except ArchiveError as wrong:
        raise ArchiveError(f"{file}: {wrong}", code=wrong.code) from wrong
    except OSError as wrong:
        raise ArchiveError(f"{file}: {wrong.strerror}", code="unreadable-file") from wrong
    except ValueError as wrong:
        raise ArchiveError(
            f"{file}: {wrong}; save it without content, for a profile without that of media", code="too-large"
        ) from wrong


def parse_har(content: bytes) -> Har:
    """Parse a HAR; requests of other schemes than http and https are skipped. Raises ArchiveError."""
    try:
        log = _Har.model_validate_json(content.removeprefix(b"\xef\xbb\xbf")).log
    except ValidationError as wrong:
        raise ArchiveError(f"not a HAR: {printable(first_wrong(wrong))[:300]}", code="damaged") from wrong
    if log.version not in _VERSIONS:
        version = printable(log.version)[:20]
        raise ArchiveError(f"HAR version {version!r}; give one of version 1.2", code="unsupported")
    if not log.entries:
        raise ArchiveError("no requests were recorded; start the recording before the page is opened", code="missing")
    if len(log.entries) > MOST_ENTRIES:
        raise ArchiveError(f"{len(log.entries)} requests; a recording has at most {MOST_ENTRIES}", code="too-large")
    exchanges = sorted(_exchanges(log.entries, log.creator.name), key=lambda it: (it.started, it.number))
    recorder = printable(f"{log.creator.name} {log.creator.version}".strip())[:100]
    return Har(tuple(exchanges), tuple(page.id for page in log.pages or ()), recorder)


def _exchanges(entries: tuple[_ExchangeEntry, ...], recorder: str) -> Iterator[Exchange]:
    for number, entry in enumerate(entries):
        if not is_of_web(entry.request.url, f"entry {number}"):
            continue  # data:, blob:, ws:, extensions
        timings = {name: _seconds(value) for name, value in entry.timings}
        connect = timings["connect"]
        # HAR 1.2 counts TLS's handshake within `connect`; Firefox does not.
        tls = 0.0 if recorder == "Firefox" else timings["ssl"] or 0.0
        response, headers = entry.response, _headers(entry.response.headers)
        further = entry.model_extra or {}
        yield Exchange(
            number=number,
            page=entry.pageref,
            started=entry.startedDateTime.timestamp(),
            method=entry.request.method.upper(),
            url=entry.request.url,
            referrer=_headers(entry.request.headers).get("referer", ""),
            protocol=entry.request.httpVersion.lower(),
            request_bytes=_sum(entry.request.headersSize, entry.request.bodySize),
            status=response.status,
            headers=headers,
            mime=media_type(headers.get("content-type") or response.content.mimeType or ""),
            size=_size(response, headers),
            received=_known(response.bodySize, response.transferSize, response.content.size, least=0),
            cached=_is_cached(response, further),
            connect_s=None if not connect else max(0.0, connect - tls),
            wait_s=timings["wait"],
            receive_s=timings["receive"],
            took_s=_took_s(_seconds(entry.time), timings.values(), tls, recorder),
            ecn=entry.ecn,
            further=further,
            _text=response.content.text,
            _encoding=response.content.encoding,
        )


def _took_s(time: float | None, timings: Iterable[float | None], tls: float, recorder: str) -> float:
    """Return the time of an exchange; `tls` is the part of its timings that is within another one."""
    parts = sum(it for it in timings if it)
    if time is None:
        return parts - tls
    twice = recorder == "Playwright" and math.isclose(time, parts, abs_tol=1e-6)
    return time - tls if twice else time


def _is_cached(response: _Response, further: Mapping[str, Any]) -> bool:
    cache = further.get("cache")
    entries = cache if isinstance(cache, dict) else {}
    # Firefox writes `afterRequest`, even null, for what its cache had; others write it next to `beforeRequest`.
    before = entries.get("beforeRequest", "afterRequest" in entries)
    none = max(response.bodySize, response.transferSize) == 0 < response.content.size
    return bool(further.get("_fromCache") or before or none or response.status == 304)


def is_of_web(url: str, what: str) -> bool:
    """Whether the URL of `what` has the scheme http or https. Raises ArchiveError if no browser requests it."""
    if not url.lower().startswith(("http://", "https://")):
        return False
    shown = f"{what}: {printable(url)[:100]}"
    try:
        address = urlsplit(url)
        address.port  # noqa: B018 - it is parsed here
    except ValueError as wrong:
        raise ArchiveError(f"{shown}: {wrong}", code="invalid-value") from wrong
    if not address.hostname:
        raise ArchiveError(f"{shown}: the address has no host", code="invalid-value")
    if ".." in unquote(address.path).replace("\\", "/").split("/"):
        raise ArchiveError(f"{shown}: no browser requests a path with ..", code="invalid-value")
    return True


def media_type(content_type: str) -> str:
    """Return a media type in small letters, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def byte_count(length: str) -> int:
    """Return the value of a Content-Length; -1 if it is not a number of bytes."""
    return int(length) if length.isascii() and length.isdecimal() and len(length) <= 12 else -1


def _headers(headers: tuple[_Named, ...]) -> dict[str, str]:
    return {header.name.lower(): header.value for header in headers}


def _seconds(ms: float | None) -> float | None:
    return None if ms is None or ms < 0 else ms / 1000


def _sum(*sizes: int) -> int | None:
    return None if min(sizes) < 0 else sum(sizes)


def _size(response: _Response, headers: Mapping[str, str]) -> int | None:
    """Return the bytes of the body as it was sent.

    What the server declares comes first: Playwright counts HTTP/2's frames in `bodySize`.
    """
    declared = byte_count(headers.get("content-length", ""))
    plain = -1 if headers.get("content-encoding") else response.content.size
    return _known(declared, plain, response.bodySize, response.content.size)


def _known(*sizes: int, least: int = 1) -> int | None:
    return next((size for size in sizes if size >= least), None)
