# SPDX-License-Identifier: Apache-2.0
"""Stand-ins whose film another player can play, instead of the service's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.page_service import PageService
from sojourn.apps.standins import http1
from sojourn.apps.standins.clip import Clip
from sojourn.apps.standins.hls import target_duration
from sojourn.apps.standins.origin import OriginError, Site, ensure_player
from sojourn.apps.standins.paced import paced_film

if TYPE_CHECKING:
    from sojourn.apps.players import PlayedFilm

#: Behind the live edge, HTTP Live Streaming's least distances (RFC 8216bis, 4.4.3.8), in target durations and in parts.
_LEAST_BEHIND, _LEAST_PARTS = 3, 2


class ChosenPlayer(PageService):
    """A stand-in whose film another player can play (apps/players), which is loaded for such a run only."""

    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        **PageService.takes,
        "player": ("stand-in",),
        "segment": ("stand-in",),
    }
    #: Whether the film is a broadcast.
    live_film: ClassVar[bool]

    def __init__(
        self, *, player: str | None = None, target_latency: float | None = None, pacing: str = "none", **of_page: Any
    ) -> None:
        """`player`: a name in `sojourn.apps.options.PLAYERS`; None: the service's own.

        `target_latency`: s that the player aims to be behind a broadcast in chunks; None: a broadcast in segments.
        `pacing`: of a film on demand by its origin, none or sammy.

        For `of_page` see PageService. Raises ServiceError for options that do not fit.
        """
        super().__init__(**of_page)
        self.chosen, self.target_latency, self.pacing = player, target_latency, pacing
        self._played: PlayedFilm | None = None
        if target_latency is not None:
            self._require_latency(target_latency)
            self.buffer = target_latency
        elif self.buffer < self.segment_s:
            raise ServiceError(
                f"--buffer={self.buffer:g}: less than a segment, of {self.segment_s:g} s; give "
                f"--buffer={self.segment_s:g} or more, or a shorter --segment",
                code="out-of-range",
            )
        least = _LEAST_BEHIND * target_duration(self.segment_s)
        if player == "video.js" and self.live_film and self.buffer < least:
            raise ServiceError(
                f"--buffer={self.buffer:g}: video.js stays at least {least} s behind a broadcast; give "
                f"--buffer={least} or more, or another --player",
                code="out-of-range",
            )

    def _require_latency(self, target_s: float) -> None:
        """Raise ServiceError for a target latency of which chunks leave too little."""
        from sojourn.apps.players.manifests import CHUNKS

        least = _LEAST_PARTS * self.segment_s / CHUNKS
        if target_s < least:
            raise ServiceError(
                f"--target-latency={target_s:g}: a segment of {self.segment_s:g} s comes in chunks of "
                f"{self.segment_s / CHUNKS:g} s; give --target-latency={least:g} or more, or a shorter --segment",
                code="out-of-range",
            )

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        super().prepare(progress)
        if not self.chosen:
            return
        from sojourn.apps.players import ensure_players

        try:
            ensure_players()
        except OriginError as error:
            raise ServiceError(str(error), code=error.code) from error

    def chosen_site(self, player: str, run: Path, clip: Clip, offered: Sequence[int]) -> tuple[Site, str]:
        """Return what the origin serves for the chosen player, and its page's path; writes manifests to `run`/live.

        `offered` are indices into the clip's ladder.
        """
        from sojourn.apps.players import played_film

        settings = {"live": self.live_film, "buffer": self.buffer, "target_latency": self.target_latency}
        self._played = played_film(player, run, clip, offered, **settings)  # type: ignore[arg-type]
        return self._played.site, self._played.path

    @property
    def _own_origin(self) -> bool:
        """Whether an origin of Sojourn's over HTTP/1.1 serves the film."""
        return self.target_latency is not None or self.pacing != "none"

    def serve(self, stage: Stage) -> tuple[str, dict[str, Any]]:
        if not self._own_origin:
            return super().serve(stage)
        if not self._ready:
            self.prepare()
        assert self._clip
        site, path = self.site(stage, self._clip)
        self.set_congestion_control(stage)
        if self._played and self._played.broadcast:
            served = "broadcast", asdict(self._played.broadcast) | {"live": str(site.live)}
        else:
            served = "paced", paced_film(self._clip, self.buffer)
        self._origin, url, trusted = http1.start(stage, *served, [site.page, ensure_player()])
        return url + path, trusted

    @property
    def facts(self) -> dict[str, Any]:
        broadcast = self._played.broadcast if self._played else None
        paced = {} if self.pacing == "none" else {"paced_origin": {"http": "1.1", "pacing": self.pacing}}
        return super().facts | ({"broadcast": {"start": broadcast.start}} if broadcast else {}) | paced

    def origin_version(self, stage: Stage) -> dict[str, str]:
        return http1.origin_version() if self._own_origin else super().origin_version(stage)

    @property
    def player(self) -> str:
        if not self.chosen:
            return self.own_player
        from sojourn.apps.players import BY_NAME

        return BY_NAME[self.chosen].version

    @property
    @abstractmethod
    def own_player(self) -> str:
        """Name and version of the service's own player."""
