# SPDX-License-Identifier: Apache-2.0
"""Recordings of requests: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps.standins.har import ArchiveError, parse_har, read_har
from sojourn.hardware.machine import json_text
from sojourn.hardware.machine.errors import Code
from tests.refusals import refusal


def entry(url: str = "https://a.test/v/1.m4s", **changed: Any) -> dict[str, Any]:
    return {
        "startedDateTime": "2026-11-28T17:00:00.250Z",
        "time": 130.0,
        "request": {"method": "get", "url": url, "httpVersion": "h2", "headers": [], "headersSize": 300, "bodySize": 0},
        "response": {
            "status": 200, "headers": [{"name": "Content-Type", "value": "Video/MP4; x=1"}], "bodySize": 5000,
            "content": {"size": 5000, "mimeType": "video/mp4"},
        },
        "timings": {"blocked": 1, "dns": -1, "connect": 60, "ssl": 40, "send": 1, "wait": 30, "receive": 38},
    } | changed  # fmt: skip


def har(*entries: dict[str, Any], version: Any = "1.2", recorder: str = "Playwright") -> bytes:
    log = {"version": version, "creator": {"name": recorder, "version": "1"}, "entries": entries}
    return json.dumps({"log": log}).encode()


def test_an_exchange_has_sizes_in_bytes_and_times_in_seconds() -> None:
    (it,) = parse_har(har(entry())).exchanges
    assert (it.method, it.mime, it.size, it.request_bytes, it.protocol) == ("GET", "video/mp4", 5000, 300, "h2")
    assert it.started == pytest.approx(1795885200.25)
    assert (it.connect_s, it.wait_s, it.receive_s) == pytest.approx((0.02, 0.03, 0.038))  # TCP's part of connect
    assert it.ended == pytest.approx(it.started + 0.13)
    (it,) = parse_har(har(entry(time=None, timings={"wait": None, "receive": 38}))).exchanges
    assert (it.wait_s, it.took_s) == (None, 0.038)  # as Firefox writes what it does not know


@pytest.mark.parametrize(
    ("recorder", "time", "connect_s", "took_s"),
    [
        ("WebInspector", 130, 0.02, 0.13),
        ("WebInspector", None, 0.02, 0.13),
        ("Playwright", 170, 0.02, 0.13),  # it counts the handshake twice
        ("Playwright", 150, 0.02, 0.15),
        ("Firefox", 170, 0.06, 0.17),
        ("Firefox", None, 0.06, 0.17),
    ],
)
def test_the_handshake_of_tls_counts_once(recorder: str, time: float | None, connect_s: float, took_s: float) -> None:
    """It is within `connect`, but after `connect` in Firefox's recordings."""
    (it,) = parse_har(har(entry(time=time), recorder=recorder)).exchanges
    assert it.connect_s == pytest.approx(connect_s)
    assert it.took_s == pytest.approx(took_s)


@pytest.mark.parametrize(
    ("status", "sizes", "further", "cached"),
    [
        (200, (5000, 5100, 5000), {"cache": {}}, False),
        (200, (-1, -1, 5000), {}, False),
        (200, (0, 130, 0), {}, False),
        (200, (-391, 9, 400), {}, False),
        (200, (5000, 5100, 5000), {"cache": {"beforeRequest": None, "afterRequest": {"hitCount": 1}}}, False),
        (200, (5000, 5100, 5000), {"cache": {"beforeRequest": {"hitCount": 1}}}, True),
        (200, (-1, -1, 5000), {"cache": {"afterRequest": None}}, True),
        (304, (0, -1, 5000), {"cache": {"afterRequest": {"fetchCount": "2"}}}, True),
        (304, (0, 130, 5000), {}, True),
        (200, (0, 0, 5000), {}, True),
        (200, (-1, 0, 5000), {}, True),
        (200, (0, -1, 5000), {}, True),
        (200, (-1, -1, 5000), {"_fromCache": "disk"}, True),
    ],
)
def test_what_no_server_sent_is_cached(
    status: int, sizes: tuple[int, int, int], further: dict[str, Any], cached: bool
) -> None:
    body, transfer, content = sizes
    response = {"status": status, "bodySize": body, "_transferSize": transfer, "content": {"size": content}}
    (it,) = parse_har(har(entry(response=response, **further))).exchanges
    assert it.cached == cached


@pytest.mark.parametrize(
    ("recorded", "declared", "content", "size", "received"),
    [
        (7, "8", 9, 8, 7), (7, "?", 9, 9, 7), (7, "", 0, 7, 7), (-391, "", 9, 9, 9), (None, "", None, None, None),
        (0, "8", 9, 8, 0),
    ],
)  # fmt: skip
def test_the_size_is_the_best_known(
    recorded: int | None, declared: str, content: int | None, size: int | None, received: int | None
) -> None:
    response = {
        "status": 200, "headers": [{"name": "Content-Length", "value": declared}], "bodySize": recorded,
        "content": {"size": content},
    }  # fmt: skip
    (it,) = parse_har(har(entry(response=response))).exchanges
    assert (it.size, it.received) == (size, received)


def test_exchanges_are_in_the_order_of_their_starts_and_others_than_of_the_web_are_skipped() -> None:
    late = entry("https://a.test/late", startedDateTime="2026-11-28T18:00:00+01:00")  # the earlier moment
    read = parse_har(har(entry("https://a.test/2"), entry("data:text/plain,x"), late))
    assert [it.url for it in read.exchanges] == ["https://a.test/late", "https://a.test/2"]
    assert read.recorder == "Playwright 1"


def test_a_body_is_text_or_base64() -> None:
    def body(**content: str) -> bytes | None:
        (it,) = parse_har(har(entry(response={"status": 200, "content": content}))).exchanges
        return it.body

    assert body(text="<MPD>") == b"<MPD>"
    assert body(text="AAH/", encoding="base64") == b"\0\1\xff"
    assert body() is None
    with refusal(ArchiveError, "damaged", "entry 0", "base64"):
        body(text="A", encoding="base64")


@pytest.mark.parametrize(
    ("content", "code", "mentioned"),
    [
        (har(entry())[:-40], "damaged", "not a HAR"),
        (b"[" * 100_000, "damaged", "not a HAR"),
        (b"", "damaged", "not a HAR"),
        (b"{}", "damaged", "log"),
        (har(), "missing", "no requests"),
        (har(entry(), version="2.0"), "unsupported", "2.0"),
        (har(entry(time=float("nan"))), "damaged", "time"),
        (har(entry("https://a.test/v/../../etc/passwd")), "invalid-value", ".."),
        (har(entry("https://a.test/v/%2e%2E%2fetc/passwd")), "invalid-value", ".."),
        (har(entry("https:///etc/passwd")), "invalid-value", "no host"),
        (har(entry("https://a.test:99999/")), "invalid-value", "entry 0"),
        (har(entry(response={"status": 200, "bodySize": 1 << 41})), "damaged", "bodySize"),
        (har(entry(startedDateTime="yesterday")), "damaged", "startedDateTime"),
        (har(entry(startedDateTime="2026-11-28T17:00:00")), "damaged", "timezone"),
        (har(entry(startedDateTime="0001-01-01T00:00:00+14:00")), "damaged", "startedDateTime"),
        (har(entry(startedDateTime="9999-12-31T23:59:59-14:00")), "damaged", "startedDateTime"),
        (har(entry("https://\x1b[31m/../")), "invalid-value", "\\x1b"),
    ],
)  # fmt: skip
def test_what_is_refused(content: bytes, code: Code, mentioned: str) -> None:
    with refusal(ArchiveError, code, mentioned):
        parse_har(content)


def test_bodies_with_many_commas_are_read(tmp_path: Path) -> None:
    response = {"status": 200, "content": {"size": -1, "text": "," * (json_text.MOST_VALUES + 1)}}
    (file := tmp_path / "a.har").write_bytes(har(entry(response=response)))
    assert len(read_har(file).exchanges) == 1


def test_an_endless_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.har").open("wb") as file:
        file.truncate(1 << 30)
    with refusal(ArchiveError, "too-large", "a.har", "256 MiB"):
        read_har(tmp_path / "a.har")
    with refusal(ArchiveError, "unreadable-file", "none.har"):
        read_har(tmp_path / "none.har")
