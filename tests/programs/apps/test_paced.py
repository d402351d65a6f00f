# SPDX-License-Identifier: Apache-2.0
"""The origin that paces a film on demand: its files, the pace of a connection, and dash.js in a real Chromium."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from sojourn.apps.browsers.browser import CHROMIUM
from sojourn.apps.options import CMCD_PLAYERS
from sojourn.apps.standins.clip import DELIMITERS, Clip, ensure_clip
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.standins.origin import HOST, ensure_certificate
from sojourn.apps.youtube import YouTube
from sojourn.captures.player import DRAIN, SCRIPT
from tests.programs.apps.conftest import served

RUNGS = DEFAULT[:2]
BUFFER = 6
Get = Callable[..., tuple[HTTPResponse, bytes]]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    """Four seconds of the real clip in two renditions, which last 200 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return ensure_clip(seconds=4, ladder=RUNGS, film_seconds=200)


@pytest.fixture
def opened(clip: Clip, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of the page of a paced film, served on a free port of this machine."""
    service = YouTube(player=getattr(request, "param", "dash-dynamic"), rungs=RUNGS, buffer=BUFFER, pacing="sammy")
    service.take({"clip": vars(clip)})
    with served(service, tmp_path) as url:
        yield url


@pytest.fixture
def get(opened: str) -> Iterator[Get]:
    """What the origin answers on one connection."""
    port = urlsplit(opened).port
    trusting = ssl.create_default_context(cafile=str(ensure_certificate().authority))
    connection = HTTPConnection(HOST, port)
    connection.sock = trusting.wrap_socket(create_connection(("127.0.0.1", port), 10), server_hostname=HOST)

    def ask(path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()

    yield ask
    connection.close()


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "origin.jsonl").read_text().splitlines()]


def as_caddy_sends(file: Path) -> bytes:
    """Return a segment; one that is a template has its head, and the rest of the original."""
    content = file.read_bytes()
    head, found, action = content.partition(DELIMITERS[0].encode())
    if not found:
        return content
    start, original = action.split()[1], action.split(b'"')[1].decode()
    return head + file.parents[1].joinpath(original.lstrip("/")).read_bytes()[int(start) :]


def test_segments_are_those_of_the_other_origins(get: Get, clip: Clip) -> None:
    for number in (1, 2, 3, 4, 99, 100):
        answer, content = get(f"/media/1/{number}.m4s?CMCD=bl%3D6000")
        assert content == as_caddy_sends(clip.folder / f"1/{number}.m4s")
        assert answer.getheader("Content-Type") == "video/iso.segment"
    assert get("/media/0/init.mp4")[1] == (clip.folder / "0/init.mp4").read_bytes()
    answer, content = get("/media/manifest.mpd")
    assert answer.getheader("Content-Type") == "application/dash+xml" and b'keys="bl"' in content


@pytest.mark.parametrize("opened", [None], indirect=True)
def test_a_browser_takes_the_files_of_the_watch_page(get: Get) -> None:
    """Chromium ignores a stylesheet of another type."""
    for name, kind in (("watch", "text/html"), ("watch.css", "text/css"), ("watch.js", "text/javascript")):
        assert get(f"/{name}")[0].getheader("Content-Type") == kind


def test_a_request_for_a_range_gets_the_whole_segment(get: Get, clip: Clip) -> None:
    """As from Caddy, whose templates have no ranges."""
    answer, content = get("/media/1/1.m4s", Range="bytes=10-19")
    assert (answer.status, content) == (200, (clip.folder / "1/1.m4s").read_bytes())


@pytest.mark.parametrize(
    "path",
    ["/media/1/0.m4s", "/media/1/101.m4s", "/media/7/1.m4s", "/media/7/init.mp4", "/media/../../etc/passwd",
     "/..%2f..%2fetc/passwd", "/%2e%2e/etc/passwd", "/media/1/..%2finit.mp4", "/media/1/9999999.m4s", "/nothing"],
)  # fmt: skip
def test_what_the_film_does_not_have_is_not_found(get: Get, path: str) -> None:
    assert get(path)[0].status == 404


def test_a_segment_is_paced_by_the_reported_buffer(get: Get, clip: Clip, tmp_path: Path) -> None:
    """A rate is that of its answer alone: the next one on the connection has its own, or none."""
    took = []
    for query in ("", "?CMCD=bl%3D0", "?CMCD=bl%3D6000", "?CMCD=bl%3D-1", "?CMCD=bl%3D6000"):
        began = time.monotonic()
        size = len(get(f"/media/1/1.m4s{query}")[1])
        took.append(time.monotonic() - began)
    top = clip.rates[-1]
    sent = lines(tmp_path)
    assert [it.get("pacing_bps") for it in sent] == [None, round(3 * top), round(1.5 * top), None, round(1.5 * top)]
    assert [it.get("ahead_s") for it in sent] == [None, 0.0, 6.0, None, 6.0]
    assert all(it["size"] == size and it["status"] == 200 for it in sent)
    nominal = size * 8 / (1.5 * top)
    # The first packets of an answer, of 64 KiB on lo, are sent at once, and the machine may be busy.
    assert took[2] + took[4] > 0.4 * 2 * nominal
    assert min(took[0], took[3]) < nominal / 2


@pytest.mark.parametrize("opened", [None, *CMCD_PLAYERS], indirect=True)
def test_dash_js_reports_its_buffer_because_the_manifest_requests_it(opened: str, clip: Clip, tmp_path: Path) -> None:
    with sync_playwright() as playwright:
        flags = ["--disable-gpu", "--autoplay-policy=no-user-gesture-required"]
        flags.append(f"--host-resolver-rules=MAP {HOST} 127.0.0.1")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_page(ignore_https_errors=True)
        page.add_init_script(path=SCRIPT)
        page.goto(opened)
        page.wait_for_function("document.querySelector('video').currentTime > 3", timeout=60_000)
        decisions = [it["detail"] for it in page.evaluate(DRAIN) if it.get("event") == "decision"]
        browser.close()
    sent = [it for it in lines(tmp_path) if ".m4s" in it["uri"]]
    assert len(sent) >= 3 and all(1.5 <= it["pacing_bps"] / clip.rates[-1] <= 3 for it in sent)
    assert sent[0]["ahead_s"] == 0 and max(it["ahead_s"] for it in sent) > 2
    assert all("pacing_bps" not in it for it in lines(tmp_path) if ".m4s" not in it["uri"])
    for decision, answer in zip(decisions, sent, strict=False):  # the page's own log of the same requests
        assert answer["ahead_s"] == pytest.approx(decision["buffer_s"], abs=0.5)
