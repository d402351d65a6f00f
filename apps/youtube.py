# SPDX-License-Identifier: Apache-2.0
"""YouTube: the real site (`live`) or the stand-in, driven through the same watch-page interface."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.browsers.account import StorageState
from sojourn.apps.browsers.browser import Browser, Driver
from sojourn.apps.chosen_player import ChosenPlayer
from sojourn.apps.credentials import read_credentials
from sojourn.apps.options import ServiceOptions
from sojourn.apps.page_service import states
from sojourn.apps.sites import WatchPage, read_site
from sojourn.apps.standins.clip import Clip
from sojourn.apps.standins.ladder import DEFAULT, LADDER, ladder_up_to
from sojourn.apps.standins.origin import HERE, Site, player_version

STATE = Path(__file__).with_name("youtube.js").read_text()
HOME = "https://www.youtube.com"
AUTO = "() => document.querySelector('#movie_player').setPlaybackQualityRange('auto', 'auto')"
STATS = "() => document.querySelector('#movie_player').getStatsForNerds()"
PLAY = "() => document.querySelector('#movie_player').playVideo()"
#: Time for consent, redirects and a slow start; time for several advertisements before the film.
_START_S, _ADS_S = 90.0, 240.0
#: The keys of an account that it can use: an automated browser cannot pass the site's login.
_ENOUGH = (("storage-state",), ("cookie",))


class YouTube(ChosenPlayer):
    """A watch page that plays one video."""

    name = "youtube"
    brand = "YouTube"
    published: ClassVar[Mapping[str, str]] = {"rate": "30mbit", "max-quality": "2160p"}
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        **ChosenPlayer.takes,
        "video-id": ("live",),
        "credentials": ("live",),
        "max-quality": ("stand-in",),
        "origin-pacing": ("stand-in",),
    }
    ladder = ("tiny", *(rung.quality for rung in LADDER))
    live_film = False

    def __init__(self, *, live: bool = False, video_id: str = "", **of_page: Any) -> None:
        """`live`: the real site, with `video_id`; for `of_page` see ChosenPlayer.

        Raises ServiceError for options that do not fit.
        """
        if live and not re.fullmatch(r"[\w-]{11}", video_id):
            raise ServiceError(
                f"--video-id={video_id!r}: a YouTube video id has 11 letters, digits, - or _", code="invalid-value"
            )
        super().__init__(standin=not live, **of_page)
        self.video_id = video_id or "sojourn"
        if self.chosen:
            self.ladder = tuple(f"{rung.height}p" for rung in self._rungs)

    @classmethod
    def page_options(cls, options: ServiceOptions) -> dict[str, Any]:
        rungs = {} if options.ladder else {"rungs": ladder_up_to(options.max_quality or DEFAULT[-1].height)}
        account = read_credentials(cls.name, options.credentials, _ENOUGH) if options.live else None
        video = options.video_id if options.live else ""
        known = {"live": options.live, "video_id": video, "credentials": account, "player": options.player}
        return known | {"pacing": options.origin_pacing} | rungs

    def site(self, stage: Stage, clip: Clip) -> tuple[Site, str]:
        if self.chosen:
            return self.chosen_site(self.chosen, stage.run, clip, range(len(clip.ladder)))
        return Site(HERE / "youtube", clip.folder, film=True), f"/watch?v={self.video_id}&buffer={self.buffer:g}"

    def address(self) -> tuple[str, tuple[str, ...]]:
        return f"{HOME}/watch?v={self.video_id}&hl=en", ()

    def before_page(self, browser: Browser, url: str) -> None:
        if not self.standin:
            browser.keep_state(StorageState(cookies=watch_page().cookies), [HOME])
        super().before_page(browser, url)

    def await_playing(self, browser: Browser) -> None:
        wait_playing(browser, live=not self.standin)

    @property
    def settled(self) -> bool:
        if self.chosen:
            return super().settled
        shown, _, best = str(self.ask(STATS).get("resolution", "")).partition(" / ")
        return bool(best) and shown == best

    @property
    def own_player(self) -> str:
        return player_version("dashjs") if self.standin else "YouTube"


def watch_page() -> WatchPage:
    """The known selectors and patterns of its pages."""
    return read_site("youtube", WatchPage)


def asking() -> str:
    """The script that returns what a watch page shows."""
    return f"() => (\n{STATE}\n)({watch_page().model_dump_json(include={'consent_shown', 'error'})})"


def wait_playing(browser: Driver, *, live: bool, timeout: float = _START_S, ads: float = _ADS_S) -> None:
    """Get through consent and advertisements until the film plays.

    Raises ServiceError with what the page shows instead after `timeout` s, extended by up to `ads` s while
    advertisements play.
    """
    state: dict[str, Any] = {}
    clicked, site = False, watch_page()
    for state in states(browser, asking(), timeout, more=ads, while_="ad"):
        if state["error"]:
            raise ServiceError(f"the player reports: {state['error']}{_advice(site, state['error'])}", code="refused")
        if state["consent"]:
            any(browser.click(selector, timeout=0.5) for selector in site.consent)
        elif state["ad"]:
            browser.click(site.skip, timeout=0.5)
        elif live and state["player"] and not clicked:
            browser.evaluate(AUTO)
            clicked = True
            browser.click(site.fullscreen)
        elif state["playing"]:
            return
        elif state["player"] and state["paused"]:
            browser.evaluate(PLAY)
    raise ServiceError(
        f"no film after {timeout:g} s: {_diagnosis(state)}{_advice(site, state.get('shown', ''))}", code="no-picture"
    )


def _advice(site: WatchPage, said: str) -> str:
    """Return the known advice for a page's message, if any."""
    plain = said.replace("’", "'")
    return next((f"; {do}" for pattern, do in site.refused.items() if re.search(pattern, plain, re.IGNORECASE)), "")


def _diagnosis(state: dict[str, Any]) -> str:
    if state.get("consent"):
        return "the consent dialog stays open; its buttons are unknown"
    if state.get("ad"):
        return "an advertisement is still playing"
    if not state.get("player"):
        return "the page has no player"
    return "the player has no pictures"
