# SPDX-License-Identifier: Apache-2.0
"""What a page shows when it fails is kept, by each driver, and nothing secret or typed in is in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from threading import Event, Thread

import cv2
import numpy as np
import pytest

from sojourn.apps.base import ServiceError, Stage
from sojourn.apps.browsers.browser import Browser, flags
from sojourn.apps.browsers.drivers import DRIVERS
from sojourn.apps.own_page import OwnPage
from sojourn.hardware.machine.place import LOCAL
from tests.refusals import refusal
from tests.tiers import first

USER, PASSWORD = "Ann@tv.test", "hunter2(*"
PAGE = """data:text/html,<!doctype html><meta charset="utf-8"><body style="margin:0" class="watch" data-token="t0k3n">
<h1 id="hello" data-tid="greeting">Hello {user}</h1><p title="{user}">{password} is no password</p>
<a href="https://id.test/me/{user}?token=t0k3n">account</a><div id="host"></div>
<svg height="20"><text y="15">{user}</text></svg><iframe srcdoc="<i>{user}</i>" width="99" height="30"></iframe>
<iframe src="data:text/html,{user}" width="99" height="30"></iframe>
<form><input name="user" value="{user}"><textarea>{password}</textarea><button>in</button></form>
<script>
  const mine = 't0k3n';
  document.getElementById('host').attachShadow({{ mode: 'open' }}).innerHTML = '<b class="deep">In a shadow</b>';
  const say = () => {{ document.querySelector('p').textContent = '{password} is no password'; }};
  setInterval(say, 2);
</script>"""


@contextmanager
def started(driver: str, display: str) -> Iterator[Browser]:
    browser = DRIVERS[driver](LOCAL, display, flags(width=640, height=360))
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture(scope="module", params=DRIVERS)
def shared(request: pytest.FixtureRequest, display: str) -> Iterator[Browser]:
    with started(request.param, display) as browser:
        yield browser


@pytest.fixture
def browser(shared: Browser) -> Browser:
    """A browser whose pages have scripts again, which what is kept of one stops."""
    shared._do(lambda: shared._command("Emulation.setScriptExecutionDisabled", {"value": False}))
    return shared


def load(browser: Browser, url: str) -> None:
    """Open `url` until its frames are there too."""
    browser.open(url)
    browser.evaluate(
        """() => new Promise((then) => {
            if (document.readyState === 'complete') then();
            else addEventListener('load', () => then());
        })"""
    )


def test_a_picture_and_the_document_are_kept_without_secrets(browser: Browser, tmp_path: Path) -> None:
    load(browser, PAGE.format(user="…", password="…"))
    assert browser.keep_shown(tmp_path, "clean", ["another"]) == "logs/page-clean.png, .html"
    browser._do(lambda: browser._command("Emulation.setScriptExecutionDisabled", {"value": False}))
    load(browser, PAGE.format(user=USER.lower(), password=PASSWORD))
    assert browser.keep_shown(tmp_path, secrets=[USER, PASSWORD]) == "logs/page.png, .html"
    document, clean = ((tmp_path / "logs" / name).read_text() for name in ("page.html", "page-clean.html"))
    assert '<h1 id="hello" data-tid="greeting">Hello …</h1>' in document and '<b class="deep">In a' in document
    assert (
        '<body class="watch">' in document and '<input name="user">' in document and "<button>in</button>" in document
    )
    for secret in (USER.lower(), PASSWORD, "t0k3n"):
        assert secret not in document
    pictures = [cv2.imread(str(tmp_path / "logs" / name)) for name in ("page.png", "page-clean.png")]
    assert pictures[0].shape[0] > 300 and pictures[0].std() > 5
    assert np.array_equal(*pictures), "the picture shows something else than … where a secret was"
    assert document == clean


def test_a_frame_is_not_loaded_anew_when_its_secrets_are_removed(browser: Browser, tmp_path: Path) -> None:
    load(browser, PAGE.format(user=USER, password=PASSWORD))
    browser.evaluate("() => { frames[0].document.body.title = 'the same'; }")
    assert browser.keep_shown(tmp_path, secrets=[USER, PASSWORD])
    answer = browser._do(
        lambda: browser._command("Runtime.evaluate", {"expression": "frames[0].document.body.outerHTML"})
    )
    assert answer["result"]["value"] == '<body title="the same"><i>…</i></body>'


def test_a_frame_that_is_still_loading_is_not_shown(browser: Browser, tmp_path: Path) -> None:
    over = Event()

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/":
                over.wait(60)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(b"<body style='margin:0'><iframe src='/late' style='border:9px solid'></iframe>")

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        Thread(target=site.serve_forever).start()
        try:
            browser.open(f"http://127.0.0.1:{site.server_port}/")
            assert browser.keep_shown(tmp_path, secrets=[USER])
        finally:
            over.set()
            site.shutdown()
    assert np.all(cv2.imread(str(tmp_path / "logs" / "page.png")) == 255)


def test_a_document_without_end_is_cut_off(browser: Browser, tmp_path: Path) -> None:
    browser.open("data:text/html,<script>document.write('<p>A film, and another</p>'.repeat(25000))</script>")
    assert browser.keep_shown(tmp_path)
    document = (tmp_path / "logs" / "page.html").read_text()
    assert len(document) < 600_000 and document.endswith("more characters are omitted -->")


@pytest.mark.parametrize(
    "giant",
    [
        "document.write('<p>film</p>'.repeat(100000))",
        "let at = document.documentElement; for (let n = 0; n < 5000; n++) at = at.appendChild(new Option())",
    ],
)
def test_of_a_giant_page_nothing_is_kept(browser: Browser, tmp_path: Path, giant: str) -> None:
    browser.open(f"data:text/html,<script>{giant}</script>")
    assert browser.keep_shown(tmp_path) == "" and list((tmp_path / "logs").iterdir()) == []


@pytest.mark.parametrize("driver", first(1, DRIVERS))
def test_a_page_without_an_answer_leaves_nothing_and_keeps_nobody_waiting(
    driver: str, display: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(driver, display) as browser:
        browser.open("data:text/html,<p>film</p><script>setTimeout(() => { for (;;); }, 500)</script>")
        monkeypatch.setattr("sojourn.apps.browsers.browser._ANSWER_S", 2.0)
        time.sleep(3)  # until it hangs, on a busy host too
        begun = time.monotonic()
        assert browser.keep_shown(tmp_path) == "" and browser.keep_shown(tmp_path) == ""
        assert time.monotonic() - begun < 15
    assert browser.keep_shown(tmp_path) == ""


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_error_of_a_page_that_does_not_play_names_them(driver: str, display: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<h1 id='sorry'>Not in your country</h1>")
    service = OwnPage(url=str(page), own=page, script="() => { throw new Error('no film') }", driver=driver)
    service.prepare()
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with refusal(ServiceError, "script-failed", "--script: Error: no film (see logs/page.png, .html)"):
        service.start(Stage(LOCAL, LOCAL, "127.0.0.1", tmp_path, display, port=port))
    assert "Not in your country" in (tmp_path / "logs" / "page.html").read_text()
    assert (tmp_path / "logs" / "page.png").stat().st_size > 1000
