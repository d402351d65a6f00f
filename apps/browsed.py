# SPDX-License-Identifier: Apache-2.0
"""What all services in pages of a real browser share: the browser, what watches its pages, and their origin."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from sojourn.apps.base import Service, ServiceError, Stage
from sojourn.apps.browsers.browser import Browser, BrowserError, flags
from sojourn.apps.browsers.drivers import DRIVERS
from sojourn.apps.browsers.shown import kept_as
from sojourn.apps.credentials import Credentials
from sojourn.apps.options import ServiceOptions
from sojourn.apps.standins.origin import (
    Http,
    OriginError,
    ensure_server,
    live_congestion_control,
    set_congestion_control,
    set_ecn_of,
)
from sojourn.captures.player import PlayerSample
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.ip import ip_version
from sojourn.hardware.machine.place import CommandError
from sojourn.hardware.machine.process import Process, ProcessError


class Watcher(Protocol):
    """What reads the pages and writes player.jsonl."""

    @property
    def latest(self) -> PlayerSample | None:
        """The newest sample, None before the first."""

    @property
    def waits(self) -> int:
        """How often playback has stopped for lack of data."""

    @property
    def failure(self) -> str | None:
        """Why it no longer reads; None while it does."""

    def stop(self) -> None:
        """Stop, also before a start; all samples are on disk afterwards."""


@contextlib.contextmanager
def stopped_on_failure(service: Service) -> Iterator[None]:
    """Stop a service whose start fails in the block; a known error becomes a ServiceError with what its pages show."""
    try:
        yield
    except (ServiceError, BrowserError, OriginError, ProcessError, CommandError) as error:
        said = f"{error}{service.keep_shown()}"
        service.stop()
        raise ServiceError(said, code=error.code) from error
    except BaseException:
        service.stop()
        raise


class BrowsedService(Service):
    """A service in a browser; the origin of its pages, if it is not live, is Caddy or Sojourn's HTTP/3 server."""

    credentials: Credentials | None = None

    def __init__(
        self,
        *,
        http: Http = "h2",
        server: Literal["caddy", "noq"] = "caddy",
        congestion_control: str | None = None,
        driver: str = "playwright",
        browser: Path | None = None,
    ) -> None:
        """`http`, `server` and `congestion_control` (TCP's, None: the host's; QUIC's if `server` is noq): the origin's.

        `driver` drives the browser, `browser` is its program; None: the default. Raises ServiceError for options that
        do not fit.
        """
        if http not in ("h2", "h3"):
            raise ServiceError(f"http={http!r} is invalid; give h2 or h3", code="invalid-value")
        self.http, self.server, self.congestion_control = http, server, congestion_control
        self.browser, self._driver = browser, DRIVERS[driver]
        self._program: Path | None = None
        self._stage: Stage | None = None
        self._origin: Process | None = None
        self._browser: Browser | None = None
        self._watcher: Watcher | None = None

    @classmethod
    def browsed_options(cls, options: ServiceOptions) -> dict[str, Any]:
        """Return the keyword arguments of this class, from the user's options."""
        return {
            "http": options.origin_protocol,
            "server": options.origin_server,
            "congestion_control": options.origin_cc,
            "driver": options.driver,
            "browser": options.browser,
        }

    @property
    @abstractmethod
    def player(self) -> str:
        """Name and version of the player."""

    @abstractmethod
    def open(self, stage: Stage) -> None:
        """Serve the pages and open the browser; return when they are shown. `start` cleans up after an error.

        Raises ServiceError, BrowserError, OriginError, ProcessError, CommandError.
        """

    def start(self, stage: Stage) -> None:
        self._stage = stage
        with stopped_on_failure(self):
            self.open(stage)

    def ensure_program(self) -> None:
        """Compile Sojourn's server on first use, if it is the origin. Raises OriginError."""
        if self.server == "noq" and not self._program:
            self._program = ensure_server()

    @property
    def prepared(self) -> dict[str, Any]:
        return {"program": self._program} if self._program else {}

    def take(self, prepared: Mapping[str, Any]) -> None:
        if program := prepared.get("program"):
            self._program = Path(program)

    def set_congestion_control(self, stage: Stage) -> None:
        """Set that of the server's TCP or Caddy's QUIC, with its ECN. Raises OriginError, CommandError."""
        if self.congestion_control and self.server == "caddy":
            set_congestion_control(stage.server, self.congestion_control, version=ip_version(stage.address))
            if self.http == "h2":
                set_ecn_of(self.congestion_control, stage.server, stage.client)

    def check_congestion_control(self, stage: Stage) -> None:
        """Raise ServiceError if the origin's TCP connections have another one than requested."""
        if not (self._origin and self.http == "h2" and self.congestion_control):
            return
        control = live_congestion_control(stage.server, stage.port)
        if not control or set(control.values()) != {self.congestion_control}:
            requested = self.congestion_control
            raise ServiceError(f"the origin's connections: requested {requested}, ss shows {control or 'none'}")

    def browse(
        self, stage: Stage, scripts: Sequence[Path], *further: str, profile: Path | None = None, **trusted: Any
    ) -> Browser:
        """Start the browser with `further` arguments, without a page; `trusted` is as for `flags`."""
        arguments = [*flags(width=stage.width, height=stage.height, **trusted), *further]
        self._browser = self._driver(
            stage.client, stage.display, arguments, scripts=scripts, program=self.browser, profile=profile
        )
        return self._browser

    def keep_shown(self) -> str:
        if not self._browser or not self._stage:
            return ""
        secrets = self.credentials.secrets if self.credentials else ()
        return kept_as(self._browser.keep_shown(self._stage.run, secrets=secrets))

    def sample(self) -> PlayerSample | None:
        return self._watcher.latest if self._watcher else None

    @property
    def stalls(self) -> int:
        return self._watcher.waits if self._watcher else 0

    @property
    def failure(self) -> str | None:
        if self._origin and (words := self._origin.last_words()) is not None:
            return f"the origin has ended: {words}"
        return self._watcher.failure if self._watcher else None

    def stop(self) -> None:
        with contextlib.ExitStack() as last_first:  # all are tried, even if one fails
            if self._origin:
                last_first.callback(self._origin.stop)
            if self._browser:
                last_first.callback(self._browser.close)
            if self._watcher:
                last_first.callback(self._watcher.stop)
            self._origin = self._browser = None

    @property
    def versions(self) -> dict[str, str]:
        versions = {"player": self.player}
        if self._browser:
            versions |= {"chromium": self._browser.version, "driver": self._browser.driver}
        return versions | (self.origin_version(self._stage) if self._origin and self._stage else {})

    def origin_version(self, stage: Stage) -> dict[str, str]:
        """Return the version of the running origin by the name of its program."""
        if self._program:
            return {"origin": cache.digest([("program", self._program.read_bytes())])}
        return {"caddy": stage.server.run(["caddy", "version"]).strip()}
