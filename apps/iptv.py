# SPDX-License-Identifier: Apache-2.0
"""Internet television: live HLS from the stand-in, any HLS or DASH stream (`url`), or a channel's own page (`live`)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.browsers.account import AccountError
from sojourn.apps.browsers.browser import Browser, BrowserError, Driver
from sojourn.apps.chosen_player import ChosenPlayer
from sojourn.apps.credentials import Credentials, read_credentials
from sojourn.apps.options import ServiceOptions
from sojourn.apps.page_service import states
from sojourn.apps.sites import TelevisionPage, read_site
from sojourn.apps.standins.clip import Clip
from sojourn.apps.standins.hls import window_segments, write_playlists
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.standins.origin import (
    HERE,
    PLAYERS,
    Site,
    ensure_player,
    player_version,
)
from sojourn.apps.standins.own_folder import OwnFolder
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.hardware.machine.viewer import for_viewer
from sojourn.traffic import ports

STATE = Path(__file__).with_name("iptv.js").read_text()
PLAY = "() => document.querySelectorAll('video').forEach((video) => video.play().catch(() => {}))"
_PAGE = HERE / "iptv"
#: A site that has not answered a login within this time has refused it.
_LOGIN_S = 15.0
#: Without a sample for this time, the page no longer shows a video.
_SILENT_S = 3.0


class Iptv(ChosenPlayer):
    """One channel."""

    name = "iptv"
    watched = "TV channel"
    defaults: ClassVar[Mapping[str, str]] = {"buffer": "6", "origin-cc": "cubic"}
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        **ChosenPlayer.takes,
        "target-latency": ("stand-in",),
        "url": ("own", "stream", "live"),
        "buffer": ("stand-in", "own", "stream"),
        "origin-cc": ("stand-in", "own"),
        "origin-protocol": ("stand-in", "own"),
        "origin-server": ("stand-in", "own"),
        "credentials": ("live",),
    }
    #: Indices into Sojourn's ladder, lowest first; none above 720p, the height of the screen.
    rungs: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)
    live_film = True

    def __init__(
        self,
        *,
        live: bool = False,
        url: str = "",
        **of_page: Any,
    ) -> None:
        """`live`: open the page `url` of the real site; otherwise `url` is a stream, and without it the stand-in plays.

        For `of_page` see ChosenPlayer. Raises ServiceError for options that do not fit.
        """
        if live and not url:
            raise ServiceError(
                f"--service={self.name} --live: give the channel's page, --url=https://…", code="missing"
            )
        if url and "own" not in of_page and not is_address(url):
            raise ServiceError(f"--url={url}: is not an http or https address", code="invalid-value")
        super().__init__(standin=not url or "own" in of_page, **of_page)
        url = Path(url).name if self.standin else url  # its folder does not matter inside a lab
        self.live, self.url = live, url
        self.offered = tuple(range(len(self._rungs))) if self._rungs != DEFAULT else self.rungs
        self.ladder = tuple(f"{self._rungs[rung].height}p" for rung in self.offered)

    @classmethod
    def page_options(cls, options: ServiceOptions) -> dict[str, Any]:
        account = read_credentials(cls.name, options.credentials) if options.live else None
        own = {"own": Path(options.url)} if options.own_folder else {}
        chosen = {"player": options.player, "target_latency": options.target_latency_s}
        return {"live": options.live, "url": options.url, "credentials": account, **chosen, **own}

    def site(self, stage: Stage, clip: Clip) -> tuple[Site, str]:
        if self.chosen:
            return self.chosen_site(self.chosen, stage.run, clip, self.offered)
        live = write_playlists(stage.run / "live", clip, self.offered, window_segments(self.buffer, clip.segment_s))
        query = urlencode({"url": "live/master.m3u8", "buffer": f"{self.buffer:g}"})
        return Site(_PAGE, clip.folder, live, film=True), f"/watch?{query}"

    def own_site(self, own: OwnFolder) -> tuple[Site, str]:
        query = urlencode({"url": f"media/{own.entry}", "buffer": f"{self.buffer:g}"})
        return Site(_PAGE, own.folder), f"/watch?{query}"

    def address(self) -> tuple[str, tuple[str, ...]]:
        if self.live:
            return self.url, ()
        # From a folder: the page itself must not cross the bottleneck, and a stream may use plain http.
        folder = scratch_folder("-page")
        shutil.copytree(_PAGE, folder, dirs_exist_ok=True)
        for script, _ in PLAYERS.values():
            shutil.copy(ensure_player() / Path(script).name, folder)
        query = urlencode({"url": self.url, "buffer": f"{self.buffer:g}"})
        # A stream's server may not allow other sites to read it (CORS).
        return f"file://{for_viewer(folder)}/index.html?{query}", ("--disable-web-security",)

    def await_playing(self, browser: Browser) -> None:
        try:
            wait_playing(browser, self.url if self.live else "", self.credentials)
        except StreamError as error:
            unreachable = self.url and "no answer" in str(error)
            raise ServiceError(
                f"--url={self.url}: {error}" if unreachable else str(error),
                code="unreachable" if unreachable else error.code,
            ) from error

    @property
    def port(self) -> int:
        """The port of the stream's server."""
        if self.standin:
            return ports.ORIGIN
        return port_of(self.url)

    @property
    def settled(self) -> bool:
        """Always true for a live site: its best quality is not known."""
        return self.live or super().settled

    @property
    def failure(self) -> str | None:
        if failure := super().failure:
            return failure
        sample = self.sample()
        if sample is None or (sample.playing and time.time() - sample.t < _SILENT_S):
            return None
        try:
            return refusal(self.ask(asking()), self.credentials)
        except BrowserError:  # the page is navigating; a closed page is noticed above
            return None

    @property
    def own_player(self) -> str:
        if self.live:
            return f"{urlsplit(self.url).hostname}"
        return player_version("dashjs" if urlsplit(self.url).path.endswith(".mpd") else "hls.js")


def is_address(url: str) -> bool:
    """Whether it is a web address."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that are none
        return False


def port_of(url: str) -> int:
    """The server's port in an address."""
    address = urlsplit(url)
    return address.port or (80 if address.scheme == "http" else ports.ORIGIN)


class StreamError(ServiceError):
    """The player cannot load the stream."""


def television_page() -> TelevisionPage:
    """The known selectors and patterns of channels' pages."""
    return read_site("iptv", TelevisionPage)


def asking() -> str:
    """The script that returns what a page shows."""
    return f"() => (\n{STATE}\n)({television_page().model_dump_json()})"


def refusal(state: dict[str, Any], credentials: Credentials | None, logged_in: bool = True) -> str | None:
    """Why the page does not let the viewer watch; None if it does. `logged_in`: the account was already given."""
    source = credentials.source if credentials else ""
    if credentials:  # a page may quote the account that it refuses
        state = {key: credentials.hidden(value) if isinstance(value, str) else value for key, value in state.items()}
    if "HTTP 401" in state["error"] or "HTTP 403" in state["error"]:
        return f"the stream was refused because its token has expired or is wrong: {state['error']}"
    if state["error"]:
        return f"the player reports: {state['error']}"
    if state["expired"]:
        return f"the login has expired; renew {source or 'it'}; the page says: {state['expired']}"
    if state["login"] and not credentials:
        return "the page requires a login; give an account (--credentials, see docs/services.md)"
    if state["login"] and credentials and not credentials.password:
        return f"the page requires a login: the session of {source} has expired; renew it"
    if state["login"] and logged_in:
        said = f"; the page says: {state['refused']}" if state["refused"] else ""
        return f"the login was refused; check {source}{said}"
    return None


def wait_playing(browser: Driver, url: str, credentials: Credentials | None, timeout: float = 60) -> None:
    """Log in if the page requires it, return to `url`, and return when the channel plays.

    Raises StreamError for a stream that the player cannot load, ServiceError with what the page shows instead.
    """
    given, named = 0.0, False  # when the account was filled in; whether the user alone was
    state: dict[str, Any] = {}
    for state in states(browser, asking(), timeout):
        if state["playing"]:
            return
        waiting = bool(given) and state["login"] and time.monotonic() < given + _LOGIN_S and not state["refused"]
        if not waiting and (why := refusal(state, credentials, logged_in=bool(given))):
            raise StreamError(why, code="no-stream") if state["error"] else ServiceError(why, code="refused")
        if credentials and credentials.password and not given and (state["login"] or (state["asks"] and not named)):
            alone = not state["login"]
            log_in(browser, credentials, credentials.sites(url), alone=alone, named=named)
            given, named = (0.0 if alone else time.monotonic()), True
        elif given and not state["login"] and not state["video"]:
            browser.open(url)  # many sites open their front page after a login
        elif state["paused"]:
            browser.evaluate(PLAY)
    raise ServiceError(f"no picture after {timeout:g} s: {_diagnosis(state, credentials)}", code="no-picture")


def _diagnosis(state: Mapping[str, Any], credentials: Credentials | None) -> str:
    hidden = credentials.hidden if credentials else str
    if locked := state.get("locked"):
        why = "the video is protected and this browser has no key; use Chrome (--browser)"
        return f"{why}; the page says: {hidden(locked)}"
    if state.get("asks"):
        said = f"; the page says: {hidden(state['refused'])}" if state["refused"] else ""
        return "the page requires a login" + (said if credentials else "; give an account (--credentials)")
    return "the page has no playing video"


def log_in(
    browser: Driver, credentials: Credentials, origins: Collection[str], *, alone: bool = False, named: bool = False
) -> None:
    """Fill in and send the page's login form: the user `alone`, or only the password if the user was already `named`.

    Raises ServiceError if the page or its form belongs to no site of the account, or is not understood.
    """
    site = television_page()
    try:
        user = browser.fill_secret(site.user_first if alone else site.user, credentials.user, origins)
        filled = alone or browser.fill_secret(site.password, credentials.password, origins)
    except AccountError as error:
        raise ServiceError(
            f"{error} (to allow more sites, set origins in {credentials.source})", code=error.code
        ) from error
    if not (user or named) or not filled or not browser.click(site.submit_first if alone else site.submit):
        raise ServiceError(
            "the login form is unknown; log in by hand and give the browser's storage state instead", code="unsupported"
        )
