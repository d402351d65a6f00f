# SPDX-License-Identifier: Apache-2.0
"""Web pages: a user opens one after the other, and reads each for a while, over the whole timeline.

The pages are drawn from the Web Almanac's percentiles, or have the requests of the user's HAR file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sojourn.apps.base import Mode, Service, ServiceError, Stage
from sojourn.apps.browsers.browser import Browser, BrowserError, flags
from sojourn.apps.browsers.drivers import DRIVERS
from sojourn.apps.browsers.shown import kept_as
from sojourn.apps.options import ServiceOptions
from sojourn.apps.standins.origin import (
    Http,
    OriginError,
    ensure_certificate,
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

if TYPE_CHECKING:
    from sojourn.apps.standins.web.session import PageVisits
    from sojourn.apps.standins.web.site import WebSite

PAGES = 8
"""Pages of a run, which a user visits in order and, if there is time, again."""
_FIRST_LOAD_S = 60.0


class Web(Service):
    """Every page begins with new connections and an empty cache, as HTTP Archive measures pages."""

    name = "web"
    watched = "Web page"
    brand = "Web page"
    defaults: ClassVar[Mapping[str, str]] = {"origin-cc": "cubic"}
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        "url": ("own",),
        "origin-cc": ("stand-in", "own"),
        "origin-protocol": ("stand-in", "own"),
        "origin-server": ("stand-in", "own"),
    }
    loads_pages = True
    ladder: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        seed: int = 1,
        har: Path | None = None,
        http: Http = "h2",
        server: Literal["caddy", "noq"] = "caddy",
        congestion_control: str | None = None,
        driver: str = "playwright",
        browser: Path | None = None,
    ) -> None:
        """`seed` decides pages and times of reading, `har` is the user's file with other pages.

        `http`, `server` and `congestion_control` apply to the origin, as for `sojourn.apps.page_service.PageService`;
        `driver` drives the browser, `browser` is its program.
        """
        self.seed, self._har, self.http, self.server = seed, har, http, server
        self.congestion_control, self._driver, self.browser = congestion_control, DRIVERS[driver], browser
        self._site: WebSite | None = None
        self._program: Path | None = None
        self._stage: Stage | None = None
        self._origin: Process | None = None
        self._browser: Browser | None = None
        self._visits: PageVisits | None = None

    @classmethod
    def from_options(cls, options: ServiceOptions) -> Self:
        return cls(
            seed=options.page_seed,
            har=Path(options.url) if options.own_folder else None,
            http=options.origin_protocol,
            server=options.origin_server,
            congestion_control=options.origin_cc,
            driver=options.driver,
            browser=options.browser,
        )

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        from sojourn.apps.standins.har import HarFormatError
        from sojourn.apps.standins.web.har import read_pages
        from sojourn.apps.standins.web.pages import drawn_pages
        from sojourn.apps.standins.web.site import ensure_site

        try:
            pages = read_pages(self._har) if self._har else drawn_pages(self.seed, PAGES)
            self._site = ensure_site(pages, self.seed)
            if self.server == "noq":
                ensure_certificate()
                self._program = ensure_server()
        except HarFormatError as error:
            raise ServiceError(f"--url={error}", code=error.code) from error
        except OriginError as error:
            raise ServiceError(str(error), code=error.code) from error

    @property
    def prepared(self) -> dict[str, Any]:
        assert self._site
        return {"site": self._site.folder} | ({"program": self._program} if self._program else {})

    def take(self, prepared: Mapping[str, Any]) -> None:
        from sojourn.apps.standins.web.site import WebSite

        self._site = WebSite.read(Path(prepared["site"]))
        self._program = Path(prepared["program"]) if "program" in prepared else None

    def start(self, stage: Stage) -> None:
        from sojourn.apps.standins.web import session

        self._stage = stage
        try:
            if not self._site:
                self.prepare()
            assert self._site
            trusted = self._serve(stage, self._site)
            arguments = flags(width=stage.width, height=stage.height, **trusted)
            self._browser = self._driver(
                stage.client, stage.display, arguments, scripts=[session.SCRIPT], program=self.browser
            )
            self._visits = session.PageVisits(self._browser, self._site, stage.run, self.seed)
            self._visits.warm_up(_FIRST_LOAD_S)
            if self.http == "h2" and self.congestion_control:
                self._check_congestion_control(stage)
            self._visits.start()
        except (ServiceError, BrowserError, OriginError, ProcessError, CommandError) as error:
            said = f"{error}{self.keep_shown()}"
            self.stop()
            raise ServiceError(said, code=error.code) from error
        except BaseException:
            self.stop()
            raise

    def _serve(self, stage: Stage, site: WebSite) -> dict[str, Any]:
        """Start the origin; return how the browser trusts it, as for `flags`."""
        from sojourn.apps.standins.web import site as sites

        if self.congestion_control and self.server == "caddy":
            set_congestion_control(stage.server, self.congestion_control, version=ip_version(stage.address))
            if self.http == "h2":
                set_ecn_of(self.congestion_control, stage.server, stage.client)
        if self.server == "noq":
            assert self._program and self.congestion_control
            self._origin = sites.start_noq(stage, site, self._program, self.congestion_control)
            keys = [ensure_certificate().spki]
        else:
            self._origin = sites.start_caddy(stage, site, self.http)
            keys = [its.spki for its in sites.certificates(site).values()]
        trusted: dict[str, Any] = {"hosts": dict.fromkeys(site.hosts, stage.address), "spki": ",".join(keys)}
        if self.http == "h3":
            trusted["quic"] = ",".join(f"{host}:{stage.port}" for host in site.hosts)
        return trusted

    def _check_congestion_control(self, stage: Stage) -> None:
        control = live_congestion_control(stage.server, stage.port)
        if not control or set(control.values()) != {self.congestion_control}:
            requested = self.congestion_control
            raise ServiceError(f"the origin's connections: requested {requested}, ss shows {control or 'none'}")

    def sample(self) -> PlayerSample | None:
        return self._visits.sample() if self._visits else None

    @property
    def settled(self) -> bool:
        """Always true: a page has no quality that rises."""
        return True

    @property
    def stalls(self) -> int:
        return 0

    @property
    def failure(self) -> str | None:
        if self._origin and (words := self._origin.last_words()) is not None:
            return f"the origin has ended: {words}"
        return self._visits.failure if self._visits else None

    def keep_shown(self) -> str:
        if not self._browser or not self._stage:
            return ""
        return kept_as(self._browser.keep_shown(self._stage.run))

    @property
    def facts(self) -> dict[str, Any]:
        assert self._site
        pages = [
            {"requests": len(page.sizes), "bytes": sum(page.sizes.values()), "hosts": page.hosts}
            for page in self._site.pages
        ]
        return {"live": False, "web": {"pages": pages, "digest": self._site.digest}}

    def stop(self) -> None:
        with contextlib.ExitStack() as last_first:  # all are tried, even if one fails
            if self._origin:
                last_first.callback(self._origin.stop)
            if self._browser:
                last_first.callback(self._browser.close)
            if self._visits:
                last_first.callback(self._visits.stop)
            self._origin = self._browser = None

    @property
    def versions(self) -> dict[str, str]:
        versions = {"player": "web pages"}
        if self._browser:
            versions |= {"chromium": self._browser.version, "driver": self._browser.driver}
        if self._program:
            versions["origin"] = cache.digest([("program", self._program.read_bytes())])
        elif self._origin and self._stage:
            versions["caddy"] = self._stage.server.run(["caddy", "version"]).strip()
        return versions
