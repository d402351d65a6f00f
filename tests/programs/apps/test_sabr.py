# SPDX-License-Identifier: Apache-2.0
"""The SABR stand-in in a real Chromium: sound and picture play, and the server's log and the client's agree."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from socket import create_server
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright
from pydantic import TypeAdapter

from sojourn.apps.base import Stage
from sojourn.apps.browsers.browser import CHROMIUM
from sojourn.apps.sabr import SabrStandIn
from sojourn.apps.standins.clip import Encoder, ensure_clip
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.standins.origin import HOST
from sojourn.apps.standins.sabr import sound, wire
from sojourn.apps.standins.sabr.page import ensure_page
from sojourn.captures.player import DRAIN, SCRIPT
from sojourn.hardware.machine.place import LOCAL
from sojourn.scoring.schema.records import Decision
from tests.programs.apps.conftest import served

RUNGS = DEFAULT[:2]
_STATE = """() => {
  const video = document.querySelector('video');
  return { time: video.currentTime, height: video.videoHeight, error: window.playerError || '',
           sound: video.webkitAudioDecodedByteCount };
}"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> SabrStandIn:
    """Four seconds of the real clip in two renditions, which last 200 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(tmp_path_factory.mktemp("cache")))
        clip = ensure_clip(seconds=4, ladder=RUNGS, film_seconds=200)
        heard = sound.ensure_sound(Encoder())
    service = SabrStandIn(rungs=RUNGS, buffer=8, policy="hybrid")
    service.take({"clip": vars(clip), "sound": heard, "script": ensure_page()})
    return service


@pytest.fixture
def opened(service: SabrStandIn, tmp_path: Path) -> Iterator[str]:
    with served(service, tmp_path) as url:
        yield url


def answers_of(run: Path) -> list[dict[str, Any]]:
    """Return the lines of the log that are answers with film."""
    lines = [json.loads(line) for line in (run / "origin.jsonl").read_text().splitlines()]
    return [it for it in lines if "segments" in it]


def played(url: str, seconds: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Play these seconds of the film; return the lines of the log, and what the page showed last."""
    lines: list[dict[str, Any]] = []
    with sync_playwright() as playwright:
        flags = ["--disable-gpu", "--autoplay-policy=no-user-gesture-required", "--mute-audio"]
        flags.append(f"--host-resolver-rules=MAP {HOST} 127.0.0.1")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_page(ignore_https_errors=True)
        page.add_init_script(path=SCRIPT)
        page.goto(url)
        end = time.monotonic() + 60
        while (state := page.evaluate(_STATE))["time"] < seconds:
            assert time.monotonic() < end and not state["error"], state
            page.wait_for_timeout(100)
        lines = page.evaluate(DRAIN)
        browser.close()
    return lines, state


def test_it_plays_what_the_server_chooses(opened: str, tmp_path: Path) -> None:
    lines, state = played(opened, 12)
    assert state["height"] == RUNGS[-1].height
    assert state["sound"] > 12 * sound.RATE_BPS / 8 * 0.8
    made = [TypeAdapter(Decision).validate_python(it["detail"], strict=True)
            for it in lines if it.get("event") == "decision"]  # fmt: skip
    assert [it["segment"] for it in made] == list(range(1, len(made) + 1))
    assert all(it["buffer_s"] <= 8 + 2 for it in made)  # a busy host stalls; tests/lab/test_profile.py has no host
    answers = answers_of(tmp_path)
    sent = [name.split() for it in answers for name in it["segments"]]
    chosen = [(int(number), int(height)) for height, number in sent if height != "sound"]
    requested = [(it["segment"], it["height"]) for it in made]
    assert requested == chosen[: len(requested)]
    assert [int(number) for kind, number in sent if kind == "sound"][:3] == [1, 2, 3]
    assert any(it["backoff_s"] > 0 for it in answers)
    begun = [it["ts"] for it in answers]
    for before, after, answer in zip(begun, begun[1:], answers, strict=False):
        assert after - before >= answer["backoff_s"] - 0.05, "the client waits as long as the server says"


def test_a_request_that_is_not_one_gets_an_error_in_umps_form(opened: str, tmp_path: Path) -> None:
    with sync_playwright() as playwright:
        context = playwright.request.new_context(ignore_https_errors=True)
        address = opened.replace(HOST, "127.0.0.1")
        base = f"https://127.0.0.1:{urlsplit(address).port}"
        answer = context.post(f"{base}/videoplayback", data=b"\xff\xff")
        assert answer.body()[:1] == b"\x2c" and b"malformed" in answer.body()
        assert context.get(f"{base}/..%2f..%2fetc/passwd").status == 404
        assert context.post(f"{base}/videoplayback", data=b"\x00" * (1 << 20)).status == 413
        context.dispose()


def test_a_paced_answer_takes_as_long_as_its_rate_makes_it(service: SabrStandIn, tmp_path: Path) -> None:
    """Read at once, an answer with an empty buffer comes at 3 times the highest rendition's rate and the sound's."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    service.pacing = "sammy"
    try:
        service.serve(Stage(LOCAL, LOCAL, "127.0.0.1", tmp_path, "", port=port))
        with sync_playwright() as playwright:
            context = playwright.request.new_context(ignore_https_errors=True)
            request = wire.message({1: wire.message({23: 50_000_000})})
            for _ in range(3):
                began = time.monotonic()
                body = context.post(f"https://127.0.0.1:{port}/videoplayback", data=request).body()
                took = time.monotonic() - began
            context.dispose()
    finally:
        service.pacing = "none"
        service.stop()
    rate = answers_of(tmp_path)[0]["pacing_bps"]
    assert service.clip
    assert rate == round(3 * (service.clip.rates[-1] + sound.RATE_BPS))
    # The first packets of a connection are sent at once, and the machine may be busy.
    assert 0.7 * len(body) * 8 / rate < took
