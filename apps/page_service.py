# SPDX-License-Identifier: Apache-2.0
"""A service that plays in a page of a real browser, and the origin of its stand-in if it is not live."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.browsed import BrowsedService
from sojourn.apps.browsers.browser import Browser, BrowserEndedError, BrowserError, Driver
from sojourn.apps.credentials import Credentials, let_in
from sojourn.apps.options import ServiceOptions
from sojourn.apps.standins.clip import SEGMENT_SECONDS, Clip, ClipError, ensure_clip
from sojourn.apps.standins.film import Film
from sojourn.apps.standins.ladder import DEFAULT, Rung, rung_of
from sojourn.apps.standins.origin import HOST, Origin, OriginError, Site, ensure_certificate, ensure_player
from sojourn.apps.standins.own_folder import FolderError, OwnFolder, ensure_own_folder
from sojourn.captures.player import FRAMES_SCRIPT, SCRIPT, PlayerRecorder

#: Time for start, warm-up and a slow path.
_FILM_MARGIN_S = 120
_POLL_S = 0.25
#: The height that a page of ours shows, and its best; no player yet: 0 of 0.
_SHOWN = "() => window.player ? [window.player.shown(), window.player.best()] : [0, 0]"


class PageService(BrowsedService):
    """What all services in a page share; a service adds its page and the condition for playback."""

    def __init__(
        self,
        *,
        standin: bool = True,
        buffer: float = 12,
        film_seconds: int = 660,
        rungs: Sequence[Rung] = DEFAULT,
        film: Path | None = None,
        segment_s: float = SEGMENT_SECONDS,
        own: Path | None = None,
        profile: Path | None = None,
        credentials: Credentials | None = None,
        **of_browser: Any,
    ) -> None:
        """`standin`: the lab's origin serves the page. `buffer`: seconds of video that its player buffers.

        `own`: the origin serves the folder of this file instead of Sojourn's film.

        `film_seconds`, `rungs`, `film` (the user's, which may be shorter) and `segment_s` apply to the origin.
        `profile` is the browser's initial profile. For `of_browser` see BrowsedService. Raises ServiceError for options
        that do not fit.
        """
        super().__init__(**of_browser)
        if not 2 <= buffer <= 120:
            raise ServiceError(f"buffer={buffer:g} is out of range; give 2 to 120 s", code="out-of-range")
        self.standin, self.buffer, self.film_seconds = standin, buffer, film_seconds
        self._rungs, self._film, self._entry, self.segment_s = tuple(rungs), film, own, segment_s
        self._own: OwnFolder | None = None
        self.profile, self.credentials = profile, credentials
        self._clip: Clip | None = None

    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        "live": ("live",),
        "profile": ("live",),
        "buffer": ("stand-in",),
        "origin-cc": ("stand-in",),
        "origin-protocol": ("stand-in",),
        "origin-server": ("stand-in",),
        "clip": ("stand-in",),
        "ladder": ("stand-in",),
    }

    @classmethod
    def from_options(cls, options: ServiceOptions) -> Self:
        film = options.longest_s + _FILM_MARGIN_S
        return cls(
            buffer=options.buffer_s,
            film_seconds=max(660, round(film)),
            profile=options.profile,
            film=options.clip,
            segment_s=options.segment_s,
            **cls.browsed_options(options)
            | ({"rungs": tuple(rung_of(*rung) for rung in options.ladder)} if options.ladder else {})
            | cls.page_options(options),
        )

    @classmethod
    @abstractmethod
    def page_options(cls, options: ServiceOptions) -> dict[str, Any]:
        """The keyword arguments that only this service has, from the user's options."""

    @abstractmethod
    def site(self, stage: Stage, clip: Clip) -> tuple[Site, str]:
        """What the stand-in's origin serves, and the path of the page that plays it."""

    def own_site(self, own: OwnFolder) -> tuple[Site, str]:
        """The same for the user's folder. Raises ServiceError if the service cannot play one."""
        raise ServiceError(f"--service={self.name} cannot play a local folder; give an address", code="unsupported")

    @abstractmethod
    def address(self) -> tuple[str, tuple[str, ...]]:
        """The page that plays without a stand-in, and its browser's further arguments."""

    @abstractmethod
    def await_playing(self, browser: Browser) -> None:
        """Return when the page plays. Raises ServiceError with what it shows instead."""

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        try:
            ensure_player()
            if self.standin and not self._ready:
                ensure_certificate()
            if self.standin:
                self.ensure_program()
            if self._entry and not self._own:
                self._own = ensure_own_folder(self._entry)
                self._entry = None  # from here on its copy is served
            elif self.standin and not self._ready:
                film = Film(self._film, max(SEGMENT_SECONDS, int(self.segment_s))) if self._film else None
                self._clip = ensure_clip(
                    progress, ladder=self._rungs, film_seconds=self.film_seconds, own=film, encoder=self.encoder,
                    segment_s=self.segment_s,
                )  # fmt: skip
                self._film = None  # the same for the clip
        except (ClipError, FolderError, OriginError) as error:
            raise ServiceError(str(error), code=error.code) from error

    @property
    def prepared(self) -> dict[str, Any]:
        made = {"clip": self._clip, "own": self._own}
        return {name: asdict(it) for name, it in made.items() if it} | super().prepared

    def take(self, prepared: Mapping[str, Any]) -> None:
        super().take(prepared)
        if clip := prepared.get("clip"):
            self._clip = TypeAdapter(Clip).validate_python(clip)
        if own := prepared.get("own"):
            self._own, self._entry = TypeAdapter(OwnFolder).validate_python(own), None

    @property
    def _ready(self) -> bool:
        return bool(self._clip or self._own) and bool(self._program or self.server == "caddy")

    @property
    def clip(self) -> Clip | None:
        return self._clip

    @property
    def facts(self) -> dict[str, Any]:
        own = {"own_folder": self._own.digest} if self._own else {}
        return super().facts | own | ({"frame_log": True} if self._clip else {})

    def open(self, stage: Stage) -> None:
        if self.standin:
            url, trusted = self.serve(stage)
            browser = self.browse(stage, [SCRIPT, FRAMES_SCRIPT], profile=self.profile, **trusted)
        else:
            url, further = self.address()
            browser = self.browse(stage, [SCRIPT], *further, profile=self.profile)
        self._watcher = recorder = PlayerRecorder(browser, stage.run / "player.jsonl")
        self.before_page(browser, url)
        browser.open(url)
        recorder.start()
        self.await_playing(browser)
        self.check_congestion_control(stage)

    @property
    def settled(self) -> bool:
        shown, best = self.ask(_SHOWN)
        return bool(best) and shown == best

    def before_page(self, browser: Browser, url: str) -> None:
        """Prepare the browser before it opens `url`. Raises ServiceError if that is not permitted."""
        let_in(browser, self.credentials, url)

    def serve(self, stage: Stage) -> tuple[str, dict[str, Any]]:
        """Start the stand-in's origin; return the page's address, and how the browser trusts it, as for `flags`."""
        if not self._ready:
            self.prepare()
        self.set_congestion_control(stage)
        if self._own:
            site, path = self.own_site(self._own)
        else:
            assert self._clip
            site, path = self.site(stage, self._clip)
        where = stage.server, stage.address, site, stage.run
        if self.server == "noq":
            assert self._program and self.congestion_control
            origin = Origin.start_noq(*where, self._program, self.congestion_control, port=stage.port)
        else:
            origin = Origin.start(*where, port=stage.port, http=self.http)
        self._origin = origin.process
        trusted: dict[str, Any] = {"hosts": {HOST: stage.address}, "spki": origin.certificate.spki}
        if self.http == "h3":
            trusted["quic"] = f"{HOST}:{stage.port}"
        return origin.url + path, trusted

    def ask(self, script: str) -> Any:
        """Call a JavaScript function in the page. Raises ServiceError before the start, BrowserError without answer."""
        if self._browser is None:
            raise ServiceError("the player has not been started")
        return self._browser.evaluate(script)


def states(
    browser: Driver, script: str, timeout: float, *, more: float = 0.0, while_: str = ""
) -> Iterator[dict[str, Any]]:
    """Yield what `script` returns a few times per second for `timeout` s, except during a navigation.

    While the state has `while_`, the timeout is paused, for up to `more` s. Raises BrowserEndedError.
    """
    deadline = time.monotonic() + timeout
    state: dict[str, Any] = {}
    while (now := time.monotonic()) < deadline:
        try:
            state = browser.evaluate(script)
        except BrowserEndedError:
            raise
        except BrowserError:  # a navigation that was requested
            pass
        else:
            yield state
        time.sleep(_POLL_S)
        if state.get(while_) and more > 0:
            spent = min(time.monotonic() - now, more)
            deadline, more = deadline + spent, more - spent
