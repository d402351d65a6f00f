# SPDX-License-Identifier: Apache-2.0
"""A film whose segments have the sizes of a recorded service, through a player that chooses among its renditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

from pydantic import TypeAdapter

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.browsers.browser import Browser
from sojourn.apps.iptv import wait_playing
from sojourn.apps.options import ServiceOptions
from sojourn.apps.page_service import PageService
from sojourn.apps.players import BY_NAME, ensure_players
from sojourn.apps.standins.clip import Clip, ClipError
from sojourn.apps.standins.film import Film
from sojourn.apps.standins.origin import OriginError, Site, ensure_certificate, ensure_player
from sojourn.apps.standins.profile.film import ensure_sized_film
from sojourn.apps.standins.profile.playlists import write_sized_playlists
from sojourn.apps.standins.profile.recorded import ServiceProfile, ServiceProfileError, read_profile

_DEFAULT = "dash-dynamic"


class RecordedService(PageService):
    """A service of which `sojourn profile` made a profile."""

    name = "profile"
    watched = "Video"
    brand = "Service profile"
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        "url": ("own",),
        "player": ("own",),
        "clip": ("own",),
        "origin-cc": ("own",),
        "origin-protocol": ("own",),
        "origin-server": ("own",),
    }
    ladder: tuple[str, ...] = ()

    def __init__(self, *, recorded: ServiceProfile | None, player: str | None = None, **of_page: Any) -> None:
        """`recorded`: what is played; None in a simulated machine, which gets the film. `player`: a name in `PLAYERS`.

        For `of_page` see PageService. Raises ServiceError for options that do not fit.
        """
        super().__init__(**of_page)
        self._recorded, self._larger, self._digest, self._segment_s = recorded, 0, "", 0.0
        self.chosen = player or _DEFAULT
        if recorded:
            self.buffer = recorded.buffer_s

    @classmethod
    def page_options(cls, options: ServiceOptions) -> dict[str, Any]:
        if not options.url:
            raise ServiceError(
                "--service=profile: give a profile, --url=service.toml; `sojourn profile` makes one",
                code="missing",
            )
        known: dict[str, Any] = {"player": options.player, "recorded": None}
        if Path(options.url).is_absolute():  # not in a simulated machine
            try:
                known["recorded"] = read_profile(Path(options.url))
            except ServiceProfileError as error:
                raise ServiceError(f"--url={error}", code=error.code) from error
        return known

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        assert self._recorded
        try:
            ensure_player()
            ensure_players()
            ensure_certificate()
            film = Film(self._film) if self._film else None
            made = ensure_sized_film(self._recorded, progress, self.film_seconds, film, encoder=self.encoder)
        except (ClipError, OriginError) as error:
            raise ServiceError(str(error), code=error.code) from error
        self._clip, self._larger, self._film = made.clip, made.larger, None
        self._digest, self._segment_s = self._recorded.digest, made.segment_s
        self.ladder = tuple(rung.quality for rung in made.clip.ladder)

    @property
    def prepared(self) -> dict[str, Any]:
        known = {"larger": self._larger, "digest": self._digest, "segment_s": self._segment_s, "buffer": self.buffer}
        return super().prepared | known

    def take(self, prepared: Mapping[str, Any]) -> None:
        self._clip = TypeAdapter(Clip).validate_python(prepared["clip"])
        self._larger, self._digest = prepared["larger"], prepared["digest"]
        self._segment_s, self.buffer = prepared["segment_s"], prepared["buffer"]
        self.ladder = tuple(rung.quality for rung in self._clip.ladder)

    def site(self, stage: Stage, clip: Clip) -> tuple[Site, str]:
        player, live = BY_NAME[self.chosen], stage.run / "live"
        if player.form == "hls":
            write_sized_playlists(live, clip, self._segment_s)
        query = {
            "player": player.script,
            "library": player.library,
            "rule": player.rule,
            "manifest": "live/master.m3u8" if player.form == "hls" else "media/manifest.mpd",
            "buffer": f"{self.buffer:g}",
            "rungs": ",".join(f"{rung.height}:{rate}" for rung, rate in zip(clip.ladder, clip.rates, strict=True)),
            "offered": ",".join(map(str, range(len(clip.ladder)))),
        }
        folder = live if player.form == "hls" else None
        return Site(ensure_players(), clip.folder, folder, film=True), f"/watch?{urlencode(query)}"

    def address(self) -> tuple[str, tuple[str, ...]]:
        raise ServiceError("--service=profile has no address", code="unsupported")

    def await_playing(self, browser: Browser) -> None:
        wait_playing(browser, "", None)

    @property
    def facts(self) -> dict[str, Any]:
        return super().facts | {"profile": {"digest": self._digest, "larger_segments": self._larger}}

    @property
    def player(self) -> str:
        return BY_NAME[self.chosen].version
