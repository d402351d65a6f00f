# SPDX-License-Identifier: Apache-2.0
"""Web pages: a user opens one after the other, and reads each for a while, over the whole timeline.

The pages are drawn from the Web Almanac's percentiles, or have the requests of the user's recording, a HAR or a WARC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.browsed import BrowsedService
from sojourn.apps.options import ServiceOptions
from sojourn.apps.standins.origin import ACCESS_LOG, OriginError, ensure_certificate, start_caddy, start_noq

if TYPE_CHECKING:
    from sojourn.apps.standins.web.session import PageVisits
    from sojourn.apps.standins.web.site import WebSite

PAGES = 8
"""Pages of a run, which a user visits in order and, if there is time, again."""
_FIRST_LOAD_S = 60.0


class Web(BrowsedService):
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
    _watcher: PageVisits | None
    ladder: tuple[str, ...] = ()

    def __init__(self, *, seed: int = 1, recording: Path | None = None, **of_browser: Any) -> None:
        """`seed` decides pages and times of reading, `recording` is the user's file with other pages.

        For `of_browser` see BrowsedService.
        """
        super().__init__(**of_browser)
        self.seed, self._recording = seed, recording
        self._site: WebSite | None = None

    @classmethod
    def from_options(cls, options: ServiceOptions) -> Self:
        recording = Path(options.url) if options.own_folder else None
        return cls(seed=options.page_seed, recording=recording, **cls.browsed_options(options))

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        from sojourn.apps.standins.har import ArchiveError
        from sojourn.apps.standins.web.har import read_pages
        from sojourn.apps.standins.web.pages import drawn_pages
        from sojourn.apps.standins.web.site import ensure_site

        try:
            pages = read_pages(self._recording) if self._recording else drawn_pages(self.seed, PAGES)
            self._site = ensure_site(pages, self.seed)
            if self.server == "noq":
                ensure_certificate()
            self.ensure_program()
        except ArchiveError as error:
            raise ServiceError(f"--url={error}", code=error.code) from error
        except OriginError as error:
            raise ServiceError(str(error), code=error.code) from error

    @property
    def prepared(self) -> dict[str, Any]:
        assert self._site
        return {"site": self._site.folder} | super().prepared

    def take(self, prepared: Mapping[str, Any]) -> None:
        from sojourn.apps.standins.web.site import WebSite

        super().take(prepared)
        self._site = WebSite.read(Path(prepared["site"]))

    def open(self, stage: Stage) -> None:
        from sojourn.apps.standins.web import session

        if not self._site:
            self.prepare()
        assert self._site
        self.set_congestion_control(stage)
        trusted = self._serve(stage, self._site)
        browser = self.browse(stage, [session.SCRIPT], **trusted)
        self._watcher = visits = session.PageVisits(browser, self._site, stage.run, self.seed)
        visits.warm_up(_FIRST_LOAD_S)
        self.check_congestion_control(stage)
        visits.start()

    def begin_phase(self) -> None:
        if self._watcher:
            self._watcher.begin_phase()

    def end_phase(self) -> None:
        if self._watcher:
            self._watcher.end_phase()

    def _serve(self, stage: Stage, site: WebSite) -> dict[str, Any]:
        """Start the origin; return how the browser trusts it, as for `flags`."""
        from sojourn.apps.standins.web import site as sites

        if self.server == "noq":
            assert self._program and self.congestion_control
            # Browsers trust its only certificate by the key, and open a connection for every host; it names none.
            served = stage.address, {"/": site.folder}, stage.run, self._program, self.congestion_control
            self._origin = start_noq(stage.server, *served, port=stage.port)
            keys = [ensure_certificate().spki]
        else:
            config = sites.caddyfile(stage.address, stage.port, self.http, site, stage.run / ACCESS_LOG)
            self._origin = start_caddy(stage.server, config, stage.run)
            keys = [its.spki for its in sites.certificates(site).values()]
        trusted: dict[str, Any] = {"hosts": dict.fromkeys(site.hosts, stage.address), "spki": ",".join(keys)}
        if self.http == "h3":
            trusted["quic"] = ",".join(f"{host}:{stage.port}" for host in site.hosts)
        return trusted

    @property
    def player(self) -> str:
        return "web pages"

    @property
    def settled(self) -> bool:
        """Always true: a page has no quality that rises."""
        return True

    @property
    def facts(self) -> dict[str, Any]:
        assert self._site
        pages = [
            {"requests": len(page.sizes), "bytes": sum(page.sizes.values()), "hosts": page.hosts}
            for page in self._site.pages
        ]
        return {"live": False, "web": {"pages": pages, "digest": self._site.digest}}
