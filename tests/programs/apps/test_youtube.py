# SPDX-License-Identifier: Apache-2.0
"""The adapter against pieces of watch pages, in a real Chromium."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Route

from sojourn.apps.base import ServiceError
from sojourn.apps.youtube import AUTO, YouTube, asking, wait_playing, watch_page
from sojourn.hardware.machine.errors import Code
from sojourn.harness.options.model import Options
from sojourn.harness.options.rules import parse_options
from tests.programs.apps.tab import Tab
from tests.refusals import refusal

# A player with moving pictures from a canvas; what lies over it differs from test to test.
PLAYER = """
<div id="movie_player" class="html5-video-player">
  <video muted style="width:320px;height:180px"></video>
  <button class="ytp-fullscreen-button" onclick="movie_player.requestFullscreen()">full</button>
</div>
<canvas width="64" height="36"></canvas>
<script>
  const context = document.querySelector('canvas').getContext('2d');
  let n = 0;
  setInterval(() => { context.fillStyle = n++ % 2 ? 'red' : 'blue'; context.fillRect(0, 0, 64, 36); }, 30);
  window.asked = [];
  const video = document.querySelector('video');
  Object.assign(document.getElementById('movie_player'), {
    getPlaybackQuality: () => 'hd720',
    playVideo: () => { video.srcObject = document.querySelector('canvas').captureStream(30); video.play(); },
    setPlaybackQualityRange: (...range) => window.asked.push(range),
  });
</script>
"""
BUMP = """
<ytd-consent-bump-v2-lightbox style="position:fixed;inset:0;background:white">
  <div class="eom-buttons">
    <button aria-label="Reject the use of cookies and other data for the purposes described"
      onclick="answer = 'reject'; this.parentElement.parentElement.remove()">Reject all</button>
    <button aria-label="Accept the use of cookies" onclick="window.answer='accept'">Accept all</button>
  </div>
</ytd-consent-bump-v2-lightbox>
"""
FORM = """
<div id="wall">
  <form action="https://consent.youtube.com/save">
    <input type="hidden" name="set_eom" value="false"><button>Alles accepteren</button>
  </form>
  <form action="https://consent.youtube.com/save">
    <input type="hidden" name="set_eom" value="true"><button>Alles afwijzen</button>
  </form>
</div>
<script>
  document.addEventListener('submit', (event) => {
    event.preventDefault();
    window.answer = event.target.elements.set_eom.value === 'true' ? 'reject' : 'accept';
    document.getElementById('wall').remove();
  });
</script>
"""
ADVERT = """
<button class="ytp-skip-ad-button" style="position:fixed;top:9px;left:9px" hidden>Skip</button>
<script>
  movie_player.classList.add('ad-showing');
  const skip = document.querySelector('.ytp-skip-ad-button');
  skip.onclick = (event) => {
    if (!event.isTrusted) return;
    window.skips = (window.skips || 0) + 1;
    movie_player.classList.remove('ad-showing');
    skip.remove();
  };
  setTimeout(() => { skip.hidden = false; }, 600);
</script>
"""
#: One after the other, longer together than the film may take to come.
ADVERTS = """
<script>
  movie_player.classList.add('ad-interrupting');
  setTimeout(() => movie_player.classList.remove('ad-interrupting'), 3000);
</script>
"""
BOT = """
<div id="movie_player"><video></video><div class="ytp-error"><div class="ytp-error-content-wrap-reason">
  <span>Sign in to confirm you’re not a bot</span></div></div></div>
"""
UNAVAILABLE = """
<div id="movie_player"><video></video><div class="ytp-error"><div class="ytp-error-content-wrap-reason">
  <span>Video   unavailable</span></div></div></div>
"""


def test_player_at_rest_is_set_playing(tab: Tab) -> None:
    tab.page.set_content(PLAYER)
    assert tab.evaluate(asking())["paused"]
    wait_playing(tab, live=False, timeout=10)
    assert tab.evaluate(asking())["playing"]
    assert tab.clicks == []


@pytest.mark.parametrize("dialog", [BUMP, FORM])
def test_consent_is_refused(tab: Tab, dialog: str) -> None:
    tab.page.set_content(PLAYER + dialog)
    assert tab.evaluate(asking())["consent"]
    wait_playing(tab, live=False, timeout=10)
    assert tab.evaluate("() => window.answer") == "reject"


def test_live_asks_for_auto_quality_and_the_whole_screen(tab: Tab) -> None:
    tab.page.set_content(PLAYER)
    wait_playing(tab, live=True, timeout=10)
    assert tab.evaluate("() => window.asked") == [["auto", "auto"]]
    assert tab.clicks == [watch_page().fullscreen]
    assert tab.evaluate(asking())["fullscreen"]
    assert "auto" in AUTO


def test_advertisement_is_skipped_once_it_can_be(tab: Tab) -> None:
    tab.page.set_content(PLAYER + ADVERT)
    assert tab.evaluate(asking())["ad"]
    wait_playing(tab, live=False, timeout=10)
    assert tab.evaluate("() => window.skips") == 1
    assert {*tab.clicks} <= {watch_page().skip}  # a busy browser answers a click too late
    assert not tab.evaluate(asking())["ad"]


def test_the_time_of_advertisements_is_not_the_films(tab: Tab) -> None:
    tab.page.set_content(PLAYER + ADVERTS)
    wait_playing(tab, live=False, timeout=2, ads=30)


def test_the_answer_to_the_consent_dialog_is_there_before_the_page(tab: Tab) -> None:
    sent: list[str] = []

    def answer(route: Route) -> None:
        sent.append(route.request.all_headers().get("cookie", ""))
        route.fulfill(body=PLAYER, content_type="text/html")

    tab.page.route("**/*", answer)
    service = YouTube(live=True, video_id="aqz-KE-bpKQ")
    url, _ = service.address()
    service.before_page(tab, url)  # type: ignore[arg-type]
    tab.open(url)
    assert "SOCS=CAI" in sent[0]
    (kept,) = (cookie for cookie in tab.page.context.cookies() if cookie["name"] == "SOCS")
    assert kept["domain"] == ".youtube.com" and kept["secure"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (BOT, ("refused", "you’re not a bot; ", "--profile")),
        ("<p>Our systems have detected unusual traffic</p>", ("no-picture", "player", "IP address")),
        (UNAVAILABLE, ("refused", ": Video unavailable")),
        ("<p>Service unavailable</p>", ("no-picture", " 1 s: ", "player")),
        (PLAYER + BUMP.replace("button", "span"), ("no-picture", " 1 s: ", "consent")),
        (
            PLAYER + "<script>movie_player.classList.add('ad-showing')</script>",
            ("no-picture", "advertisement"),
        ),
    ],
)
def test_what_stands_in_the_way_is_named(tab: Tab, content: str, why: tuple[Code, *tuple[str, ...]]) -> None:
    tab.page.set_content(content)
    with refusal(ServiceError, *why):
        wait_playing(tab, live=True, timeout=1, ads=1)


def options(**given: str) -> Options:
    return parse_options({name.replace("_", "-"): value for name, value in given.items()})


def test_the_origin_offers_what_the_window_shows_or_as_much_as_is_asked() -> None:
    best = [YouTube.page_options(options(**given))["rungs"][-1].height for given in ({}, {"max_quality": "2160p"})]
    assert best == [720, 2160]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"live": True, "video_id": "nope"}, ("invalid-value", "--video-id='nope': ")),
        ({"http": "h1"}, ("invalid-value", "http='h1' ", "h2", "h3")),
        ({"buffer": 0.5}, ("out-of-range", "buffer=0.5 ", " 2 to 120 s")),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], why: tuple[Code, *tuple[str, ...]]) -> None:
    with refusal(ServiceError, *why):
        YouTube(**options)
