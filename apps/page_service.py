# SPDX-License-Identifier: Apache-2.0
"""A service that plays in a page of a real browser, and the origin of its stand-in if it is not live."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import TypeAdapter

from sojourn.apps.base import Mode, Service, ServiceError, Stage
from sojourn.apps.browsers.browser import Browser, BrowserEndedError, BrowserError, Driver, flags
from sojourn.apps.browsers.drivers import DRIVERS
from sojourn.apps.browsers.shown import kept_as
from sojourn.apps.credentials import Credentials, let_in
from sojourn.apps.options import ServiceOptions
from sojourn.apps.standins.clip import Clip, ClipError, ensure_clip
from sojourn.apps.standins.film import Film
from sojourn.apps.standins.ladder import DEFAULT, Rung, rung_of
from sojourn.apps.standins.origin import (
    HOST,
    Http,
    Origin,
    OriginError,
    Site,
    ensure_certificate,
    ensure_player,
    ensure_server,
    live_congestion_control,
    set_congestion_control,
    set_ecn_of,
)
from sojourn.apps.standins.own_folder import FolderError, OwnFolder, ensure_own_folder
from sojourn.captures.player import FRAMES_SCRIPT, SCRIPT, PlayerRecorder, PlayerSample
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.ip import ip_version
from sojourn.hardware.machine.place import CommandError
from sojourn.hardware.machine.process import ProcessError

#: Time for start, warm-up and a slow path.
_FILM_MARGIN_S = 120
_POLL_S = 0.25


class PageService(Service):
    """What all services in a page share; a service adds its page and the condition for playback."""

    def __init__(
        self,
        *,
        standin: bool = True,
        buffer: float = 12,
        http: Http = "h2",
        server: Literal["caddy", "noq"] = "caddy",
        congestion_control: str | None = None,
        film_seconds: int = 660,
        rungs: Sequence[Rung] = DEFAULT,
        film: Path | None = None,
        own: Path | None = None,
        driver: str = "playwright",
        browser: Path | None = None,
        profile: Path | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """`standin`: the lab's origin serves the page. `buffer`: seconds of video that its player buffers.

        `own`: the origin serves the folder of this file instead of Sojourn's film.

        `http`, `server`, `congestion_control` (TCP's, None: the host's; QUIC's if `server` is noq), `film_seconds`,
        `rungs` and `film` (the user's, which may be shorter) apply to the origin. `driver` drives the browser,
        `browser` is its program and `profile` its initial profile; None: the default. Raises ServiceError for options
        that do not fit.
        """
        if http not in ("h2", "h3"):
            raise ServiceError(f"http={http!r} is invalid; give h2 or h3", code="invalid-value")
        if not 2 <= buffer <= 120:
            raise ServiceError(f"buffer={buffer:g} is out of range; give 2 to 120 s", code="out-of-range")
        self.standin, self.buffer, self.http, self.server = standin, buffer, http, server
        self.congestion_control, self.film_seconds = congestion_control, film_seconds
        self._rungs, self._film, self._entry = tuple(rungs), film, own
        self._own: OwnFolder | None = None
        self._driver = DRIVERS[driver]
        self.browser, self.profile, self.credentials = browser, profile, credentials
        self._clip: Clip | None = None
        self._program: Path | None = None
        self._origin: Origin | None = None
        self._browser: Browser | None = None
        self._recorder: PlayerRecorder | None = None
        self._stage: Stage | None = None

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
        film = options.seconds + _FILM_MARGIN_S
        return cls(
            buffer=options.buffer_s,
            http=options.origin_protocol,
            server=options.origin_server,
            congestion_control=options.origin_cc,
            film_seconds=max(660, round(film)),
            driver=options.driver,
            browser=options.browser,
            profile=options.profile,
            film=options.clip,
            **({"rungs": tuple(rung_of(*rung) for rung in options.ladder)} if options.ladder else {})
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

    @property
    @abstractmethod
    def player(self) -> str:
        """Name and version of the player."""

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        try:
            ensure_player()
            if self.standin and not self._ready:
                ensure_certificate()
            if self.standin and self.server == "noq" and not self._program:
                self._program = ensure_server()
            if self._entry and not self._own:
                self._own = ensure_own_folder(self._entry)
                self._entry = None  # from here on its copy is served
            elif self.standin and not self._ready:
                film = Film(self._film) if self._film else None
                self._clip = ensure_clip(
                    progress, ladder=self._rungs, film_seconds=self.film_seconds, own=film, encoder=self.encoder
                )
                self._film = None  # the same for the clip
        except (ClipError, FolderError, OriginError) as error:
            raise ServiceError(str(error), code=error.code) from error

    @property
    def prepared(self) -> dict[str, Any]:
        made = {"clip": self._clip, "own": self._own}
        program = {"program": self._program} if self._program else {}
        return {name: asdict(it) for name, it in made.items() if it} | program

    def take(self, prepared: Mapping[str, Any]) -> None:
        if clip := prepared.get("clip"):
            self._clip = TypeAdapter(Clip).validate_python(clip)
        if own := prepared.get("own"):
            self._own, self._entry = TypeAdapter(OwnFolder).validate_python(own), None
        if program := prepared.get("program"):
            self._program = Path(program)

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

    def start(self, stage: Stage) -> None:
        self._stage = stage
        try:
            trusted: dict[str, Any] = {}
            further: tuple[str, ...] = ()
            if self.standin:
                url, trusted = self._serve(stage)
            else:
                url, further = self.address()
            arguments = [*flags(width=stage.width, height=stage.height, **trusted), *further]
            scripts = [SCRIPT, *([FRAMES_SCRIPT] if self.standin else [])]
            self._browser = self._driver(
                stage.client, stage.display, arguments, scripts=scripts, program=self.browser, profile=self.profile
            )
            self._recorder = PlayerRecorder(self._browser, stage.run / "player.jsonl")
            self.before_page(self._browser, url)
            self._browser.open(url)
            self._recorder.start()
            self.await_playing(self._browser)
            if self.standin and self.http == "h2" and self.congestion_control:
                self._check_congestion_control(stage)
        except (ServiceError, BrowserError, OriginError, ProcessError, CommandError) as error:
            said = f"{error}{self.keep_shown()}"
            self.stop()
            raise ServiceError(said, code=error.code) from error
        except BaseException:
            self.stop()
            raise

    def before_page(self, browser: Browser, url: str) -> None:
        """Prepare the browser before it opens `url`. Raises ServiceError if that is not permitted."""
        let_in(browser, self.credentials, url)

    def keep_shown(self) -> str:
        if not self._browser or not self._stage:
            return ""
        secrets = self.credentials.secrets if self.credentials else ()
        return kept_as(self._browser.keep_shown(self._stage.run, secrets=secrets))

    def _serve(self, stage: Stage) -> tuple[str, dict[str, Any]]:
        if not self._ready:
            self.prepare()
        if self.congestion_control and self.server == "caddy":
            set_congestion_control(stage.server, self.congestion_control, version=ip_version(stage.address))
            if self.http == "h2":
                set_ecn_of(self.congestion_control, stage.server, stage.client)
        if self._own:
            site, path = self.own_site(self._own)
        else:
            assert self._clip
            site, path = self.site(stage, self._clip)
        where = stage.server, stage.address, site, stage.run
        if self.server == "noq":
            assert self._program and self.congestion_control
            self._origin = Origin.start_noq(*where, self._program, self.congestion_control, port=stage.port)
        else:
            self._origin = Origin.start(*where, port=stage.port, http=self.http)
        trusted: dict[str, Any] = {"hosts": {HOST: stage.address}, "spki": self._origin.certificate.spki}
        if self.http == "h3":
            trusted["quic"] = f"{HOST}:{stage.port}"
        return self._origin.url + path, trusted

    def _check_congestion_control(self, stage: Stage) -> None:
        control = live_congestion_control(stage.server, stage.port)
        if not control or set(control.values()) != {self.congestion_control}:
            requested = self.congestion_control
            raise ServiceError(f"the origin's connections: requested {requested}, ss shows {control or 'none'}")

    def sample(self) -> PlayerSample | None:
        return self._recorder.latest if self._recorder else None

    @property
    def stalls(self) -> int:
        return self._recorder.waits if self._recorder else 0

    @property
    def failure(self) -> str | None:
        if self._origin and not self._origin.process.alive():
            return f"the origin has ended: {self._origin.process.log_tail()}"
        return self._recorder.failure if self._recorder else None

    def ask(self, script: str) -> Any:
        """Call a JavaScript function in the page. Raises ServiceError before the start, BrowserError without answer."""
        if self._browser is None:
            raise ServiceError("the player has not been started")
        return self._browser.evaluate(script)

    def stop(self) -> None:
        with contextlib.ExitStack() as last_first:  # all are tried, even if one fails
            if self._origin:
                last_first.callback(self._origin.stop)
            if self._browser:
                last_first.callback(self._browser.close)
            if self._recorder:
                last_first.callback(self._recorder.stop)
            self._origin = self._browser = None

    @property
    def versions(self) -> dict[str, str]:
        versions = {"player": self.player}
        if self._browser:
            versions |= {"chromium": self._browser.version, "driver": self._browser.driver}
        if self._program:
            versions["origin"] = cache.digest([("program", self._program.read_bytes())])
        elif self._origin and self._stage:
            versions["caddy"] = self._stage.server.run(["caddy", "version"]).strip()
        return versions


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
