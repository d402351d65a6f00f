# SPDX-License-Identifier: Apache-2.0
"""YouTube: the real site (`live`) or the stand-in, driven through the same watch page surface."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps import browser
from apps.base import Service, ServiceError, Stage
from apps.browser import Browser, BrowserError, Driver, flags
from apps.standins.clip import DEFAULT, Clip, ClipError, ensure_clip
from apps.standins.origin import (
    HOST,
    Http,
    Origin,
    OriginError,
    ensure_certificate,
    ensure_player,
    live_congestion_control,
    player_version,
    set_congestion_control,
)
from captures.player import SCRIPT, PlayerRecorder, PlayerSample
from harness.place import CommandError
from harness.process import ProcessError

if TYPE_CHECKING:
    from harness.options import Options

STATE = Path(__file__).with_name("youtube.js").read_text()
#: Buttons, tried in this order; "reject all" comes before "accept all".
CONSENT = (
    'form[action*="consent.youtube.com"] button[aria-label*="Reject"]',
    'form[action*="consent.youtube.com"]:has(input[name="set_eom"][value="true"]) button',
    'ytd-consent-bump-v2-lightbox button[aria-label*="Reject"]',
    "ytd-consent-bump-v2-lightbox .eom-buttons button",
    'form[action*="consent.youtube.com"] button',
)
SKIP = ".ytp-skip-ad-button, .ytp-ad-skip-button-modern, .ytp-ad-skip-button"
FULLSCREEN = ".ytp-fullscreen-button"
AUTO = "() => document.querySelector('#movie_player').setPlaybackQualityRange('auto', 'auto')"
STATS = "() => document.querySelector('#movie_player').getStatsForNerds()"
PLAY = "() => document.querySelector('#movie_player').playVideo()"
_POLL_S = 0.25
#: Start, warm-up and what a slow path makes late.
_FILM_MARGIN_S = 120


class YouTube(Service):
    """A watch page that plays one video."""

    name = "youtube"
    ladder = ("tiny", *(rung.quality for rung in DEFAULT), "hd1440", "hd2160")

    def __init__(
        self,
        *,
        live: bool = False,
        video_id: str = "",
        buffer: float = 12,
        http: Http = "h2",
        congestion_control: str | None = "bbr",
        film_seconds: int = 660,
    ) -> None:
        """`live`: the real site, with `video_id`. The rest is for the stand-in: seconds of film the player
        keeps ahead, protocol, the origin's TCP congestion control (None: the host's), length of the film.

        Raises ServiceError for options that do not fit.
        """
        if live and not re.fullmatch(r"[\w-]{11}", video_id):
            raise ServiceError(f"--video-id={video_id!r}: a YouTube video id has 11 letters, digits, - or _")
        if http not in ("h2", "h3"):
            raise ServiceError(f"http={http!r}: must be h2 or h3")
        if not 2 <= buffer <= 120:
            raise ServiceError(f"buffer={buffer:g}: must be 2 to 120 s")
        self.live, self.video_id, self.buffer, self.http = live, video_id or "sojourn", buffer, http
        self.congestion_control, self.film_seconds = congestion_control, film_seconds
        self._clip: Clip | None = None
        self._origin: Origin | None = None
        self._browser: Browser | None = None
        self._recorder: PlayerRecorder | None = None
        self._stage: Stage | None = None

    @classmethod
    def from_options(cls, options: Options) -> YouTube:
        film = sum(phase.seconds for phase in options.phases) + _FILM_MARGIN_S
        return cls(
            live=options.live,
            video_id=options.video_id if options.live else "",
            buffer=options.buffer_s,
            http=options.origin_protocol,
            congestion_control=options.origin_cc,
            film_seconds=max(660, round(film)),
        )

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        try:
            browser.check()
            if self.live:
                return
            ensure_certificate()
            ensure_player()
            self._clip = ensure_clip(progress, film_seconds=self.film_seconds)
        except (BrowserError, ClipError, OriginError) as error:
            raise ServiceError(str(error)) from error

    @property
    def clip(self) -> Clip | None:
        """The stand-in's clip, after `prepare`; None for the live site."""
        return self._clip

    def start(self, stage: Stage) -> None:
        self._stage = stage
        try:
            options: dict[str, Any] = {}
            if self.live:
                url = f"https://www.youtube.com/watch?v={self.video_id}&hl=en"
            else:
                url, options = self._serve(stage)
            arguments = flags(width=stage.width, height=stage.height, **options)
            self._browser = Browser(stage.client, stage.display, arguments, script=SCRIPT)
            self._recorder = PlayerRecorder(self._browser, stage.run / "player.jsonl")
            self._browser.open(url)
            self._recorder.start()
            wait_playing(self._browser, live=self.live)
            if not self.live and self.http == "h2" and self.congestion_control:
                self._check_congestion_control(stage)
        except (BrowserError, OriginError, ProcessError, CommandError) as error:
            self.stop()
            raise ServiceError(str(error)) from error
        except BaseException:
            self.stop()
            raise

    def _serve(self, stage: Stage) -> tuple[str, dict[str, Any]]:
        if self._clip is None:
            self.prepare()
        assert self._clip
        if self.congestion_control:
            set_congestion_control(stage.server, self.congestion_control)
        self._origin = Origin.start(
            stage.server, stage.address, self._clip.folder, stage.run, port=stage.port, http=self.http
        )
        options: dict[str, Any] = {"hosts": {HOST: stage.address}, "spki": self._origin.certificate.spki}
        if self.http == "h3":
            options["quic"] = f"{HOST}:{stage.port}"
        return f"{self._origin.url}/watch?v={self.video_id}&buffer={self.buffer:g}", options

    def _check_congestion_control(self, stage: Stage) -> None:
        found = self.live_congestion_control()
        if not found or set(found.values()) != {self.congestion_control}:
            asked = self.congestion_control
            raise ServiceError(f"the origin's connections: {asked} was asked, ss shows {found or 'none'}")

    def live_congestion_control(self) -> dict[str, str]:
        """What `ss -tin` shows at the origin now: {peer: congestion control}; empty over HTTP/3 and live."""
        if self._stage is None or self._origin is None:
            return {}
        return live_congestion_control(self._stage.server, self._stage.port)

    def sample(self) -> PlayerSample | None:
        return self._recorder.latest if self._recorder else None

    @property
    def settled(self) -> bool:
        shown, _, best = str(self.stats_for_nerds().get("resolution", "")).partition(" / ")
        return bool(best) and shown == best

    @property
    def stalls(self) -> int:
        """How often the player has stopped for want of data since the start."""
        return self._recorder.waits if self._recorder else 0

    @property
    def failure(self) -> str | None:
        """Why the player no longer plays (page crashed, origin gone); None while all is well."""
        if self._origin and not self._origin.process.alive():
            return f"the origin has ended: {self._origin.process.log_tail()}"
        return self._recorder.failure if self._recorder else None

    def stats_for_nerds(self) -> dict[str, Any]:
        """The player's own statistics, in the words of the page."""
        if self._browser is None:
            raise ServiceError("the player is not started")
        return dict(self._browser.evaluate(STATS))

    def stop(self) -> None:
        with contextlib.ExitStack() as last_first:  # each is tried, whatever the others do
            if self._origin:
                last_first.callback(self._origin.stop)
            if self._browser:
                last_first.callback(self._browser.close)
            if self._recorder:
                last_first.callback(self._recorder.stop)
            self._origin = self._browser = None

    @property
    def versions(self) -> dict[str, str]:
        found = {"player": "YouTube" if self.live else player_version()}
        if self._browser:
            found["chromium"] = self._browser.version
        if self._origin and self._stage:
            found["caddy"] = self._stage.server.run(["caddy", "version"]).strip()
        return found


def wait_playing(browser: Driver, *, live: bool, timeout: float = 60) -> None:
    """Get through consent and advertisements until the film plays.

    Raises ServiceError that says what the page shows instead after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    state: dict[str, Any] = {}
    asked = False
    while time.monotonic() < deadline:
        try:
            state = browser.evaluate(STATE)
        except BrowserError:  # the page went on to another while it was asked
            time.sleep(_POLL_S)
            continue
        if state["error"]:
            raise ServiceError(f"the player reports: {state['error']}")
        if state["consent"]:
            any(browser.click(selector, timeout=0.5) for selector in CONSENT)
        elif state["ad"]:
            browser.click(SKIP, timeout=0.5)
        elif live and state["player"] and not asked:
            browser.evaluate(AUTO)
            asked = True
            browser.click(FULLSCREEN)
        elif state["playing"]:
            return
        elif state["player"] and state["paused"]:
            browser.evaluate(PLAY)
        time.sleep(_POLL_S)
    raise ServiceError(f"no film after {timeout:g} s: {_diagnosis(state)}")


def _diagnosis(state: dict[str, Any]) -> str:
    if state.get("consent"):
        return "the consent dialog stays; its buttons are not the known ones"
    if state.get("ad"):
        return "an advertisement is still playing"
    if not state.get("player"):
        return "the page has no player"
    return "the player has no pictures"
