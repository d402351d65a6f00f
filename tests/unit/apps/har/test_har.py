# SPDX-License-Identifier: Apache-2.0
"""Recordings of requests: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps.standins.har import HarFormatError, parse_har, read_har
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


def har(*entries: dict[str, Any], version: Any = "1.2") -> bytes:
    log = {"version": version, "creator": {"name": "Playwright", "version": "1"}, "entries": entries}
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
    ("recorded", "declared", "content", "size", "received"),
    [(7, "8", 9, 8, 7), (7, "?", 9, 9, 7), (7, "", 0, 7, 7), (-391, "", 9, 9, 9), (None, "", None, None, None)],
)
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
    with refusal(HarFormatError, "damaged", "entry 0", "base64"):
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
        (har(entry("https://\x1b[31m/../")), "invalid-value", "\\x1b"),
    ],
)  # fmt: skip
def test_what_is_refused(content: bytes, code: Code, mentioned: str) -> None:
    with refusal(HarFormatError, code, mentioned):
        parse_har(content)


def test_an_endless_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.har").open("wb") as file:
        file.truncate(1 << 30)
    with refusal(HarFormatError, "too-large", "a.har", "256 MiB"):
        read_har(tmp_path / "a.har")
    with refusal(HarFormatError, "unreadable-file", "none.har"):
        read_har(tmp_path / "none.har")
