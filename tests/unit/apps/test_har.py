# SPDX-License-Identifier: Apache-2.0
"""A HAR becomes pages with the same requests: number, bytes and hosts, and what loads what."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from sojourn.apps.base import ServiceError
from sojourn.apps.standins import authority
from sojourn.apps.standins.har import ArchiveError
from sojourn.apps.standins.web.har import read_pages
from sojourn.apps.standins.web.pages import Resource, WebPage, drawn_pages
from sojourn.apps.standins.web.site import PageFiles
from sojourn.apps.web import Web
from tests.refusals import refusal

TYPES = {
    "html": "text/html; charset=utf-8", "css": "text/css", "js": "application/javascript", "image": "image/webp",
    "font": "font/woff2", "data": "application/json",
}  # fmt: skip


def har_of(page: WebPage, form: str) -> dict[str, Any]:
    """Return a page as Chromium's (`chromium`: initiators, no body sizes) or Firefox's tools (`firefox`) save it."""
    files, entries = PageFiles(page, 1), []
    urls = [f"https://{it.host}{files.path(n)}?v=1" for n, it in enumerate(page.resources)]
    for number, it in enumerate(page.resources):
        above, entry = page.resources[it.parent], dict[str, Any]()
        request = {"method": "GET", "url": urls[number], "headers": []}
        response = {"status": 200, "content": {"size": 3 * it.bytes, "mimeType": TYPES[it.kind]}}
        if form == "chromium":
            response |= {"bodySize": -1, "_transferSize": it.bytes}
            entry["_initiator"] = {"type": "parser", "url": urls[it.parent]}
            if above.kind == "js":
                entry["_initiator"] = {
                    "type": "script",
                    "stack": {"callFrames": [], "parent": {"callFrames": [{"url": urls[it.parent]}]}},
                }
            entry["_priority"] = "High" if it.blocking else "Low"
        else:
            response["bodySize"] = it.bytes
            request["headers"] = [{"name": "Referer", "value": urls[it.parent]}]
        entries.append({"startedDateTime": "2026-01-01T00:00:00Z", "request": request, "response": response, **entry})
    return {"log": {"version": "1.2", "creator": {}, "pages": [{"id": "page_1"}], "entries": entries}}


def written(folder: Path, content: Any) -> Path:
    file = folder / "page.har"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


@pytest.mark.parametrize("form", ["chromium", "firefox"])
@pytest.mark.parametrize("seed", range(5))
def test_the_same_requests_come_out(tmp_path: Path, form: str, seed: int) -> None:
    (page,) = drawn_pages(seed, 1)
    (read,) = read_pages(written(tmp_path, har_of(page, form)))
    assert len(read.resources) == len(page.resources)
    assert Counter((it.host, it.bytes) for it in read.resources) == Counter(
        (it.host, it.bytes) for it in page.resources
    )
    same = sum(a.parent == b.parent and a.kind == b.kind for a, b in zip(read.resources, page.resources, strict=True))
    assert same >= 0.95 * len(page.resources)
    if form == "chromium":
        assert [it.blocking for it in read.resources] == [it.blocking for it in page.resources]


def entry(url: str, kind: str = "html", size: int = 5000, status: int = 200, **further: Any) -> dict[str, Any]:
    response = {"status": status, "bodySize": size, "content": {"mimeType": TYPES[kind], "size": size}}
    request = {"method": "GET", "url": url, "headers": []}
    return {"startedDateTime": "2026-01-01T00:00:00Z", "request": request, "response": response, **further}


def log(*entries: dict[str, Any], pages: list[str] | None = None) -> dict[str, Any]:
    return {"log": {"version": "1.2", "pages": [{"id": name} for name in pages or []], "entries": [*entries]}}


def test_what_no_server_sent_is_not_requested(tmp_path: Path) -> None:
    entries = (
        entry("https://a.example/"),
        entry("data:image/png;base64,AAAA", "image"),
        entry("https://a.example/cached.js", "js", _fromCache="disk"),
        entry("https://a.example/fresh.js", "js", cache={"afterRequest": None}),
        entry("https://a.example/checked.js", "js", status=304),
        entry("https://a.example/blocked.js", "js", status=0),
        entry("wss://a.example/socket", "data", status=101),
        entry("https://A.example./used.js", "js"),
    )
    (page,) = read_pages(written(tmp_path, log(*entries)))
    assert [(it.host, it.kind) for it in page.resources] == [("a.example", "html"), ("a.example", "js")]


def test_a_redirect_before_the_document_is_requested_too(tmp_path: Path) -> None:
    entries = (
        entry("http://example/", size=0, status=301),
        entry("https://www.example/"),
        entry("https://10.0.0.9/x", "js"),
    )
    (page,) = read_pages(written(tmp_path, log(*entries)))
    assert page.resources == (
        Resource("www.example", "html", 5000),
        Resource("example", "data", 0),
        Resource("10-0-0-9.address.test", "js", 5000),
    )


def test_every_page_of_the_file_is_one(tmp_path: Path) -> None:
    entries = [
        entry(f"https://{name}.example/{n}", kind, pageref=name)
        for name in "ab" for n, kind in enumerate(("html", "js", "image"))
    ]  # fmt: skip
    pages = read_pages(written(tmp_path, log(*entries, pages=["a", "b"])))
    assert [page.hosts for page in pages] == [("a.example",), ("b.example",)]
    assert [len(page.resources) for page in pages] == [3, 3]


def test_a_request_of_an_unknown_page_is_of_the_first(tmp_path: Path) -> None:
    entries = [entry(f"https://{name}.example/", pageref=name) for name in "ab"]
    more = [entry("https://c.example/1.js", "js", pageref="lost"), entry("https://d.example/2.js", "js")]
    pages = read_pages(written(tmp_path, log(*entries, *more, pages=["a", "b"])))
    assert [page.hosts for page in pages] == [("a.example", "c.example", "d.example"), ("b.example",)]


LONG = f"{'a' * 40}.{'b' * 20}.cdn.example"


@pytest.mark.parametrize("host", [LONG, "my_shop.example", "_cdn.example", "bücher.example"])
def test_a_host_that_no_certificate_can_name_gets_a_digest(tmp_path: Path, host: str) -> None:
    entries = entry("https://a.example/"), entry(f"https://{host}/1.js", "js"), entry("https://b_c.example/2.js", "js")
    (page,) = read_pages(written(tmp_path, log(*entries)))
    first, *others = page.hosts
    assert first == "a.example" and len(others) == 2
    authority.issue(tmp_path, others[0], 2025)
    (certificate,) = x509.load_pem_x509_certificates((tmp_path / "chain.pem").read_bytes())[:1]
    assert others[0] in certificate.subject.rfc4514_string() and re.fullmatch(r"h[0-9a-f]{16}\.host\.test", others[0])


def test_what_is_too_small_to_be_a_picture_is_fetched(tmp_path: Path) -> None:
    entries = (
        entry("https://a.example/"),
        entry("https://b.example/p.gif", "image", 43),
        entry("https://a.example/f", "font"),
    )
    (page,) = read_pages(written(tmp_path, log(*entries)))
    assert [(it.kind, it.bytes) for it in page.resources[1:]] == [("data", 43), ("data", 5000)]
    text = PageFiles(page, 1).body(random.Random(1), 0).decode()
    assert 'L("tiny","//b.example/p1/1.bin")' in text and 'L("data","//a.example/p1/2.bin")' in text


@pytest.mark.parametrize(
    ("content", "code", "mentioned"),
    [
        ("{", "damaged", "not a HAR"),
        ("[]", "damaged", "not a HAR"),
        ('{"log": {}}', "damaged", "version"),
        (json.dumps(log(entry("") | {"request": {"method": "GET"}})), "damaged", "url"),
        (json.dumps(log()), "missing", "no requests"),
        (json.dumps(log(entry("https://a.example/x.js", "js"))), "missing", "no document"),
    ],
)
def test_a_broken_file_is_one_line_before_anything_starts(
    tmp_path: Path, content: str, code: Any, mentioned: str
) -> None:
    file = written(tmp_path, content)
    with refusal(ArchiveError, code, file, mentioned):
        read_pages(file)
    with refusal(ServiceError, code, "--url=", file, mentioned):
        Web(recording=file).prepare()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with refusal(ArchiveError, "unreadable-file", tmp_path / "no.har"):
        read_pages(tmp_path / "no.har")
