# SPDX-License-Identifier: Apache-2.0
"""A WARC becomes pages with the same requests: number, bytes and hosts, and what loads what."""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from sojourn.apps.base import ServiceError
from sojourn.apps.standins import warc
from sojourn.apps.standins.har import ArchiveError
from sojourn.apps.standins.warc import read_warc
from sojourn.apps.standins.web.har import read_pages
from sojourn.apps.standins.web.pages import Resource, WebPage, drawn_pages
from sojourn.apps.standins.web.site import PageFiles
from sojourn.apps.web import Web
from sojourn.hardware.machine.errors import Code
from tests.refusals import refusal
from tests.unit.apps.test_har import TYPES


class Recorder:
    """Writes a WARC as recorders do: every answer, then its request."""

    def __init__(self, packed: bool = True) -> None:
        self.content = io.BytesIO()
        self._writer = WARCWriter(self.content, gzip=packed)
        self._number = 0

    def record(
        self, url: str, kind: str, payload: bytes = b"", http: StatusAndHeaders | None = None, **fields: str
    ) -> str:
        """Write a record; return its identifier. Fields have `_` for `-`, and are a minute apart without a date."""
        self._number += 1
        named = {"WARC-Date": f"2026-01-01T00:{self._number:02}:00Z"} | {
            k.replace("_", "-"): v for k, v in fields.items()
        }
        record = self._writer.create_warc_record(
            url, kind, payload=io.BytesIO(payload), length=len(payload), http_headers=http, warc_headers_dict=named,
        )  # fmt: skip
        self._writer.write_record(record)
        return str(record.rec_headers.get_header("WARC-Record-ID"))

    def answer(
        self, url: str, mime: str = "text/html", body: bytes | int = 5000, status: str = "200 OK",
        request: Mapping[str, str] | None = None, method: str = "GET", headers: Sequence[tuple[str, str]] = (),
        **fields: str,
    ) -> str:  # fmt: skip
        """Write a response, and its request if it has headers; return the response's identifier."""
        body = b"x" * body if isinstance(body, int) else body
        http = StatusAndHeaders(status, [("Content-Type", mime), *headers], "HTTP/1.1")
        name = self.record(url, "response", body, http, **fields)
        if request is not None:
            head = StatusAndHeaders(f"{method} / HTTP/1.1", list(request.items()), is_http_request=True)
            self.record(url, "request", b"", head, WARC_Concurrent_To=name)
        return name

    def written(self, folder: Path) -> Path:
        packed = self.content.getvalue()[:2] == b"\x1f\x8b"
        (file := folder / ("page.warc.gz" if packed else "page.warc")).write_bytes(self.content.getvalue())
        return file


def warc_of(page: WebPage, folder: Path, packed: bool = True) -> Path:
    """Write a page as a recorder between browser and servers saves it."""
    files, recorder = PageFiles(page, 1), Recorder(packed)
    urls = [f"https://{it.host}{files.path(n)}?v=1" for n, it in enumerate(page.resources)]
    for number, it in enumerate(page.resources):
        referrer = {"Referer": urls[it.parent]} if number else {}
        recorder.answer(urls[number], TYPES[it.kind], it.bytes, request=referrer, WARC_Date="2026-01-01T00:00:00Z")
    return recorder.written(folder)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_requests_come_out(tmp_path: Path, packed: bool, seed: int) -> None:
    (page,) = drawn_pages(seed, 1)
    (read,) = read_pages(warc_of(page, tmp_path, packed))
    assert Counter((it.host, it.bytes) for it in read.resources) == Counter(
        (it.host, it.bytes) for it in page.resources
    )
    same = sum(a.parent == b.parent and a.kind == b.kind for a, b in zip(read.resources, page.resources, strict=True))
    assert same >= 0.95 * len(page.resources)


CHUNKS = b"5;a=b\r\nabcde\r\nA\r\n0123456789\r\n0\r\n\r\n"
CHUNKED = [("Transfer-Encoding", "chunked")]


@pytest.mark.parametrize(
    ("body", "headers", "size"),
    [
        (CHUNKS, CHUNKED, 15),
        (CHUNKS[:-5], CHUNKED, 15),
        (CHUNKS[:-10], CHUNKED, 12),  # cut off within a chunk
        (b"no chunk\r\n", CHUNKED, 10),  # the recorder has removed their heads
        (b"", CHUNKED, 0),
        (gzip.compress(b"x" * 5000, mtime=0), [("Content-Encoding", "gzip")], len(gzip.compress(b"x" * 5000, mtime=0))),
        (b"x" * 70, [("Content-Length", "5000")], 70),
    ],
)  # fmt: skip
def test_a_body_has_the_bytes_of_the_transfer_without_the_heads_of_chunks(
    tmp_path: Path, body: bytes, headers: list[tuple[str, str]], size: int
) -> None:
    (recorder := Recorder()).answer("https://a.test/", body=body, headers=headers)
    (it,) = read_warc(recorder.written(tmp_path)).exchanges
    assert (it.received, it.size, it.mime, it.status, it.protocol) == (size, size, "text/html", 200, "http/1.1")


def test_a_request_belongs_to_its_answer_whichever_record_names_the_other(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.answer("https://a.test/1", method="POST", request={"Referer": "https://b.test/"})
    head = StatusAndHeaders("PUT / HTTP/1.1", [], is_http_request=True)
    name = recorder.record("https://a.test/2", "request", b"body", head)
    recorder.answer("<https://a.test/2>", WARC_Concurrent_To=name)  # wget's
    recorder.answer("https://a.test/3")
    read = read_warc(recorder.written(tmp_path)).exchanges
    assert [(it.method, it.referrer, it.url[-1]) for it in read] == [
        ("POST", "https://b.test/", "1"), ("PUT", "", "2"), ("GET", "", "3"),
    ]  # fmt: skip
    assert [it.request_bytes for it in read] == [len(b"POST / HTTP/1.1\r\nReferer: https://b.test/\r\n\r\n"), 22, None]


def test_what_is_not_of_the_web_is_skipped(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.record("", "warcinfo", b"software: Wget\r\n")
    recorder.record("dns:a.test", "response", b"20260101000000\na.test. 60 IN A 10.0.0.1")
    recorder.answer("https://a.test/")
    recorder.record("https://a.test/", "metadata", b"fetchTimeMs: 3\r\n")
    recorder.record("urn:thumbnail:https://a.test/", "resource", b"\x89PNG")
    recorder.answer("https://a.test/x.js", "text/javascript", 0, "304 Not Modified")
    (page,) = read_pages(recorder.written(tmp_path))
    assert page.resources == (Resource("a.test", "html", 5000),)


def opened(kind: str, referrer: str = "") -> dict[str, str]:
    return {"Sec-Fetch-Dest": kind} | ({"Referer": referrer} if referrer else {})


def test_every_document_that_a_user_opens_is_a_page(tmp_path: Path) -> None:
    recorder, a, b = Recorder(), "https://a.test/", "https://b.test/"
    recorder.answer(a, request=opened("document"))
    recorder.answer("https://frame.test/", request=opened("iframe", a))
    recorder.answer("https://a.test/part", request=opened("empty", a))
    recorder.answer(
        "http://b.test/", body=0, status="301 Moved", headers=[("Location", b)], request=opened("document", a)
    )
    recorder.answer(b, request=opened("document", a))
    recorder.answer("https://a.test/late.js", "text/javascript", request=opened("script", a))
    recorder.answer("https://b.test/b.css", "text/css", request=opened("style", b))
    recorder.answer("https://b.test/f.woff2", "font/woff2", request=opened("font", "https://b.test/b.css"))
    recorder.answer("https://third.test/", "application/json", request=opened("empty", "https://c.test/"))
    first, second = read_pages(recorder.written(tmp_path))
    assert [(it.host, it.kind) for it in first.resources] == [
        ("a.test", "html"), ("frame.test", "html"), ("a.test", "data"), ("a.test", "js"),
    ]  # fmt: skip
    assert [(it.host, it.kind, it.parent) for it in second.resources] == [
        ("b.test", "html", 0), ("b.test", "data", 0), ("b.test", "css", 0), ("b.test", "font", 2),
        ("third.test", "data", 0),
    ]  # fmt: skip


def test_without_sec_fetch_dest_a_document_with_a_referrer_is_a_frame(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.answer("https://a.test/", request={"Referer": "https://search.test/"})
    recorder.answer("https://a.test/2", request={"Referer": "https://a.test/"})
    recorder.answer("https://b.test/", request={})
    pages = read_pages(recorder.written(tmp_path))
    assert [[it.host for it in page.resources] for page in pages] == [["a.test", "a.test"], ["b.test"]]


def test_without_requests_the_file_is_one_page(tmp_path: Path) -> None:
    recorder = Recorder()
    for number in range(3):
        recorder.answer(f"https://{number}.test/")
    (page,) = read_pages(recorder.written(tmp_path))
    assert page.hosts == ("0.test", "1.test", "2.test")


def test_the_recorders_own_pages_stay(tmp_path: Path) -> None:
    recorder = Recorder()
    for page in "ab":
        recorder.answer(f"https://{page}.test/", request={}, WARC_Page_ID=page, WARC_Resource_Type="document")
    recorder.answer("https://c.test/", request={}, WARC_Page_ID="a", WARC_Resource_Type="document")  # a frame
    recorder.answer("https://d.test/", request={}, WARC_Page_ID="a", WARC_Resource_Type="fetch")
    pages = read_pages(recorder.written(tmp_path))
    assert [[(it.host, it.kind) for it in page.resources] for page in pages] == [
        [("a.test", "html"), ("c.test", "html"), ("d.test", "data")], [("b.test", "html")],
    ]  # fmt: skip


def test_a_revisit_has_the_bytes_of_its_original(tmp_path: Path) -> None:
    recorder, digest = Recorder(), "sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"
    head = StatusAndHeaders("200 OK", [("Content-Type", "text/css"), ("Content-Length", "77")], "HTTP/1.1")
    recorder.record("https://b.test/1.js", "revisit", WARC_Payload_Digest=digest)  # before its original
    name = recorder.answer("https://a.test/", body=6000)
    recorder.answer("https://a.test/1.js", "text/javascript", 700, WARC_Payload_Digest=digest)
    recorder.record("https://b.test/1.css", "revisit", b"", head, WARC_Refers_To="<urn:elsewhere>")
    recorder.record("https://c.test/", "revisit", WARC_Refers_To=name, WARC_Payload_Digest=digest)
    recorder.record("https://d.test/", "revisit", WARC_Profile="http://netpreserve.org/warc/1.1/server-not-modified")
    read = read_warc(recorder.written(tmp_path)).exchanges
    assert [(it.address.hostname, it.received, it.mime, it.status) for it in read] == [
        ("b.test", 700, "text/javascript", 200), ("a.test", 6000, "text/html", 200),
        ("a.test", 700, "text/javascript", 200), ("b.test", 77, "text/css", 200), ("c.test", 6000, "text/html", 200),
    ]  # fmt: skip


def record(url: str = "https://a.test/", block: bytes = b"HTTP/1.1 200 OK\r\n\r\nbody", **fields: Any) -> bytes:
    """A response as text, with these fields; None: without it."""
    named = {
        "WARC-Type": "response", "WARC-Target-URI": url, "WARC-Date": "2026-01-01T00:00:00Z",
        "Content-Length": len(block),
    } | {name.replace("_", "-"): value for name, value in fields.items()}  # fmt: skip
    lines = [f"{name}: {value}" for name, value in named.items() if value is not None]
    return "\r\n".join(["WARC/1.1", *lines, "", ""]).encode() + block + b"\r\n\r\n"


ONE = record()
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
PACKED = gzip.compress(ONE, mtime=0)
NONE = "no responses of http or https; record the page's own requests"
LENGTH = "not a number of bytes"


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"", "missing", NONE),
        (record(WARC_Type="request", block=b""), "missing", NONE),
        (record("ftp://a.test/"), "missing", NONE),
        (b'{"log": {}}', "damaged", "not a WARC: it begins with '{\"log\": {}}', not WARC/1.0 or WARC/1.1"),
        (b"\x1b[31m\n", "damaged", r"not a WARC: it begins with '\\x1b[31m', not WARC/1.0 or WARC/1.1"),
        (ONE.replace(b"1.1", b"2.0", 1), "unsupported",
         "record 0: version 'WARC/2.0'; give a WARC of version 1.0 or 1.1"),
        (PACKED[:-20], "truncated", "its gzip data is cut off; copy the file again"),
        (PACKED[:-4] + b"abcd", "damaged", "its gzip data is damaged: Incorrect length of data produced"),
        (PACKED[:-8] + b"abcdefgh", "damaged", "its gzip data is damaged: CRC check failed 0x64636261 != 0xcabc4e75"),
        (PACKED + b"more", "damaged", "its gzip data is damaged: Not a gzipped file (b'mo')"),
        (ONE[:-6], "truncated", "record 0: the file ends 2 bytes before the record's end; copy it again"),
        (record(Content_Length=10**12 - 1), "truncated",
         "record 0: the file ends 999999999972 bytes before the record's end; copy it again"),
        (ONE + record(Content_Length=None), "damaged", f"record 1: Content-Length is '', {LENGTH}"),
        (record(Content_Length=-1), "damaged", f"record 0: Content-Length is '-1', {LENGTH}"),
        (record(Content_Length="9" * 5000), "damaged", f"record 0: Content-Length is '{'9' * 20}', {LENGTH}"),
        (record(Content_Length="٣"), "damaged", f"record 0: Content-Length is '٣', {LENGTH}"),
        (record(Content_Length=20) + ONE, "damaged",
         "record 1 begins with 'ody', not WARC/1.0 or WARC/1.1; the record before it may be longer than its "
         "Content-Length"),
        (record(block=b"\0\1\2\3"), "damaged", "record 0: its block is not an HTTP response"),
        (record(block=b""), "damaged", "record 0: its block is not an HTTP response"),
        (record(block=b"HTTP/1.1 OK\r\n\r\n"), "damaged", "record 0: its block is not an HTTP response"),
        (record(block=b"GET / HTTP/1.1\r\n\r\n"), "damaged", "record 0: its block is not an HTTP response"),
        (record(WARC_Date="yesterday"), "damaged", "record 0: WARC-Date is 'yesterday', not a date in UTC"),
        (record(WARC_Date=None), "damaged", "record 0: WARC-Date is '', not a date in UTC"),
        (record(WARC_Date="0001-01-01T00:00:00+14:00"), "damaged",
         "record 0: WARC-Date is '0001-01-01T00:00:00+14:00', not a date in UTC"),
        (record("https://a.test/../etc"), "invalid-value",
         "record 0: https://a.test/../etc: no browser requests a path with .."),
        (record("https:///etc"), "invalid-value", "record 0: https:///etc: the address has no host"),
        (record(WARC_Segment_Number=1), "unsupported",
         "record 0: it is a part of a response; give a WARC without segments"),
        (record(WARC_Type="revisit", block=b""), "missing",
         "record 0: https://a.test/: a revisit of a body that is not in the file; record the page without "
         "deduplication"),
        (record(X="x" * (1 << 18)), "too-large", "record 0: its head has more than 256 KiB"),
        (record(block=HTML[:-2] + b"X: x\r\n" * (1 << 16)), "too-large", "record 0: its head has more than 256 KiB"),
        (b"\n" * (1 << 19), "too-large", "record 0: its head has more than 256 KiB"),
        (record(block=b"HTTP/1.1 200 OK\r\n\r\nbody"), "missing",
         "has no document that a browser loaded (a response of text/html with status 200); record the page again, from "
         "an empty tab and with the browser's cache off"),
    ],
)  # fmt: skip
def test_a_broken_file_is_one_line_before_anything_starts(
    tmp_path: Path, content: bytes, code: Code, line: str
) -> None:
    (file := tmp_path / "page.warc").write_bytes(content)
    with refusal(ArchiveError, code) as wrong:
        read_pages(file)
    assert str(wrong.value) == f"{file}: {line}"
    with refusal(ServiceError, code, f"--url={file}: {line}"):
        Web(recording=file).prepare()


def bomb(size: int, level: int = 9) -> bytes:
    """Records of which the last one has a body of `size` zeros, compressed."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    head = record(block=HTML, Content_Length=len(HTML) + size)[:-4]
    return packer.compress(head) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


def test_a_decompression_bomb_is_read_to_a_bound_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bomb(8 << 20)
    (file := tmp_path / "page.warc.gz").write_bytes(content + PACKED * 100)
    assert len(content) < 10_000
    assert read_pages(file)[0].resources[0].bytes == 8 << 20
    monkeypatch.setattr(warc, "LARGEST", 4 << 20)
    with refusal(ArchiveError, "too-large") as wrong:
        read_pages(file)
    assert str(wrong.value) == f"{file}: its records have more than 4 MiB; give a recording of fewer pages"


@pytest.mark.parametrize("size", range(len(ONE) - 5, len(ONE) + 1))
def test_a_file_at_the_bound_is_refused_wherever_the_bound_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    (file := tmp_path / "page.warc").write_bytes(ONE * 2)
    monkeypatch.setattr(warc, "LARGEST", size)
    with refusal(ArchiveError, "too-large"):
        read_warc(file)


@pytest.mark.parametrize("bound", ["MOST_ENTRIES", "_MOST_RECORDS"])
def test_the_number_of_records_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    (file := tmp_path / "page.warc").write_bytes(ONE * 3)
    monkeypatch.setattr(warc, bound, 2)
    with refusal(ArchiveError, "too-large", file, "2"):
        read_warc(file)


def test_a_missing_file_and_one_that_is_none_are_refused(tmp_path: Path) -> None:
    with refusal(ArchiveError, "unreadable-file", tmp_path / "no.warc"):
        read_pages(tmp_path / "no.warc")
    with refusal(ArchiveError, "unreadable-file", tmp_path):
        read_warc(tmp_path)


def test_wgets_records_are_read(tmp_path: Path) -> None:
    """It puts angle brackets around addresses and may put further empty lines between records."""
    block = HTML[:-2] + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS
    text = record("<http://a.test/>", block).replace(b"WARC/1.1", b"WARC/1.0") + b"\r\n\r\n"
    (file := tmp_path / "page.warc").write_bytes(text * 2)
    assert [(it.url, it.received) for it in read_warc(file).exchanges] == [("http://a.test/", 15)] * 2
