# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from sojourn.captures import player
from sojourn.captures.player import DRAIN, SCRIPT, SOUND_PCM, PlayerRecorder, PlayerSample

PAGE = """
<style>body { margin: 0 } video { position: absolute; left: 100px; top: 50px; width: 400px; height: 301px }</style>
<div id="movie_player"><video muted></video></div><canvas width="64" height="36"></canvas>
<script>
  const canvas = document.querySelector('canvas'), context = canvas.getContext('2d');
  let n = 0;
  setInterval(() => { context.fillStyle = n++ % 2 ? 'red' : 'blue'; context.fillRect(0, 0, 64, 36); }, 30);
  window.quality = 'hd720';
  movie_player.getPlaybackQuality = () => window.quality;
  const video = document.querySelector('video');
  video.srcObject = canvas.captureStream(30);
  video.play();
</script>
"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--disable-gpu"])
        page = browser.new_page()
        page.add_init_script(path=SCRIPT)
        page.route("http://film.test/", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
        page.goto("http://film.test/")
        yield page
        browser.close()


def test_page_samples_four_times_a_second_on_the_wall_clock(page: Page) -> None:
    start = time.time()  # before the page is asked: samples go on while its answer comes
    page.evaluate(DRAIN)
    page.wait_for_timeout(2000)
    lines = page.evaluate(DRAIN)
    end = time.time()
    samples = [PlayerSample.model_validate(line) for line in lines if "event" not in line]
    # Four a second; a busy host answers late, and skips some.
    assert 4 <= len(samples) <= 4 * (end - start) + 2
    assert all(start - 0.05 <= sample.t <= end + 0.05 for sample in samples)
    last = samples[-1]
    assert (last.playing, last.quality, last.width, last.height) == (True, "hd720", 64, 36)
    assert last.totalFrames > samples[0].totalFrames
    x, y, *size = last.place or ()
    chrome = page.evaluate("() => [window.screenX, window.screenY + window.outerHeight - window.innerHeight]")
    assert ([x, y], size) == ([100 + chrome[0], 50 + 38 + chrome[1]], [400, 225])
    # Within the page, where no sample comes between on a busy host.
    assert page.evaluate(f"() => {{ const drain = {DRAIN}; drain(); return drain(); }}") == []


def test_page_tells_events_and_changes_of_quality(page: Page) -> None:
    page.wait_for_function("document.querySelector('video').currentTime > 0")
    page.evaluate("() => { window.quality = 'large'; document.querySelector('video').pause(); }")
    lines, deadline = list[dict[str, Any]](), time.monotonic() + 30
    while not {"qualitychange", "pause"} <= {line.get("event") for line in lines} or "playing" not in lines[-1]:
        assert time.monotonic() < deadline, lines
        page.wait_for_timeout(300)
        lines += page.evaluate(DRAIN)
    events = {line["event"]: line["detail"] for line in lines if "event" in line}
    assert events["qualitychange"] == {"from": "hd720", "to": "large"}
    assert events["pause"] > 0
    assert lines[-1]["playing"] is False


SAMPLE = {
    "t": 1.25,
    "playing": True,
    "quality": "hd720",
    "width": 1280,
    "height": 720,
    "currentTime": 3.5,
    "buffer": 9.75,
    "readyState": 4,
    "totalFrames": 100,
    "droppedFrames": 1,
    "waiting": False,
}


class Replay:
    """A page that answers with prepared batches, then has crashed."""

    def __init__(self, *batches: list[dict[str, object]]) -> None:
        self._batches = list(batches)

    def evaluate(self, script: str) -> list[dict[str, object]]:
        if not self._batches:
            raise RuntimeError("page crashed\nmore")
        return self._batches.pop(0)


def test_recorder_keeps_all_lines_counts_stalls_and_survives_a_crash(tmp_path: Path) -> None:
    def event(name: str) -> dict[str, object]:
        return {"t": 1.0, "event": name, "detail": None}

    first = [event("waiting"), event("playing"), SAMPLE]
    second = [event("waiting"), SAMPLE | {"t": 2.25, "waiting": True}]
    recorder = PlayerRecorder(Replay(first, second), tmp_path / "player.jsonl", period=0.01)
    recorder.start()
    deadline = time.monotonic() + 5
    while recorder.failure is None and time.monotonic() < deadline:
        time.sleep(0.01)
    recorder.stop()
    assert recorder.failure == "page crashed"
    assert recorder.waits == 1  # the wait before the first picture is the start-up
    assert recorder.latest is not None
    assert recorder.latest.t == 2.25
    lines = [json.loads(line) for line in (tmp_path / "player.jsonl").read_text().splitlines()]
    assert lines == first + second


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"event": "heard", "detail": {"pcm": ""}}, "Is a directory"),
        ({"t": "soon"}, "PlayerSample"),
    ],
)
def test_recorder_reports_a_sample_that_it_cannot_keep(tmp_path: Path, line: dict[str, object], why: str) -> None:
    (tmp_path / SOUND_PCM).mkdir()
    recorder = PlayerRecorder(Replay([SAMPLE], [line]), tmp_path / "player.jsonl", period=0.01)
    recorder.start()
    recorder._thread.join(5)
    assert why in (recorder.failure or "")
    recorder.stop()


def test_recorder_repeats_the_last_fetch_that_a_navigation_interrupts(tmp_path: Path) -> None:
    class Navigates(Replay):
        calls = 0

        def evaluate(self, script: str) -> list[dict[str, object]]:
            self.calls += 1
            if self.calls < 3:
                raise RuntimeError("Execution context was destroyed")
            return super().evaluate(script)

    recorder = PlayerRecorder(Navigates([SAMPLE]), tmp_path / "player.jsonl", period=60)
    recorder.start()
    recorder.stop()
    assert recorder.failure is None and recorder.latest is not None


def test_recorder_reports_a_page_that_keeps_its_last_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "_LAST_S", 0.05)
    ends = threading.Event()

    class Hangs(Replay):
        def evaluate(self, script: str) -> list[dict[str, object]]:
            ends.wait()
            return super().evaluate(script)

    recorder = PlayerRecorder(Hangs([]), tmp_path / "player.jsonl", period=60)
    recorder.start()
    recorder.stop()
    assert recorder.failure == "the page did not answer for 0.05 s"
    ends.set()
    recorder._thread.join()
