# SPDX-License-Identifier: Apache-2.0
"""An online game as the victim: its player at the client, its server at the origin's port; nothing is on a screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from sojourn.apps.base import Mode, Service, ServiceError, Stage
from sojourn.apps.options import ServiceOptions
from sojourn.captures.player import PlayerSample
from sojourn.hardware.machine.process import ProcessError
from sojourn.traffic.applications import Ends, GamePrograms
from sojourn.traffic.game import TICK_HZ


class OnlineGame(Service):
    """A first person shooter by `sojourn.traffic.game`."""

    name = "game"
    watched = "Game"
    brand = "Online game"
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {"game-dscp": ("stand-in",)}
    ladder = ()
    screen = False

    def __init__(self, *, dscp: int = 0) -> None:
        """`dscp` is the codepoint of all its packets: 45 is NQB (RFC 9956)."""
        self._dscp = dscp
        self._programs: GamePrograms | None = None

    @classmethod
    def from_options(cls, options: ServiceOptions) -> Self:
        return cls(dscp=options.game_dscp)

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        pass

    def start(self, stage: Stage) -> None:
        ends = Ends(stage.client, stage.server, "", stage.address)
        game = GamePrograms(ends, stage.run, self.name, port=stage.port, seed=str(stage.seed), dscp=self._dscp)
        try:
            game.start()
        except ProcessError as error:
            raise ServiceError(f"no game: {error}", code="failed") from error
        self._programs = game

    def sample(self) -> PlayerSample | None:
        return None

    @property
    def settled(self) -> bool:
        return self._programs is not None

    @property
    def stalls(self) -> int:
        return 0

    @property
    def failure(self) -> str | None:
        return self._programs.failure if self._programs else None

    @property
    def facts(self) -> dict[str, Any]:
        return {"live": False, "game": {"tick_hz": TICK_HZ, "dscp": self._dscp}}

    def stop(self) -> None:
        if self._programs:
            self._programs.stop()

    @property
    def versions(self) -> dict[str, str]:
        return {}
