# SPDX-License-Identifier: Apache-2.0
"""What every service offers an experiment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sojourn.apps.options import ServiceOptions
from sojourn.captures.player import PlayerSample
from sojourn.hardware.machine.place import Place
from sojourn.traffic import ports

if TYPE_CHECKING:
    from sojourn.apps.standins.clip import Clip


Mode = Literal["stand-in", "own", "stream", "live"]
"""What is watched: our stand-in, what is in a folder of the user's, what is at an address of his, or the real site."""


class ServiceError(RuntimeError):
    """The service cannot be played: not reachable, refused, or a program is missing."""


@dataclass(frozen=True)
class Stage:
    """Where a service plays: the viewer's place and screen, the origin's place and address, the folder."""

    client: Place
    server: Place
    address: str  # at which the origin listens and which the viewer can reach
    run: Path
    display: str  # X display, e.g. ":77"
    port: int = 443
    width: int = 1280
    height: int = 720
    #: Put before the argv of programs at the server that must not share the viewer's cores (see Lab.all_cores).
    all_cores: tuple[str, ...] = ()
    #: Put before the argv of a recorder (see Lab.on_time).
    on_time: tuple[str, ...] = ()


class Service(ABC):
    """A service under test. Order of calls: prepare, start, sample …, stop; stop is always safe."""

    name: ClassVar[str]
    #: What a headline calls that which is watched.
    watched: ClassVar[str] = "Video"
    #: Options that come with the service where the user names none, as on the command line: {"rate": "5mbit"}.
    defaults: ClassVar[Mapping[str, str]] = {}
    #: Further ones of its published run, for --service=all.
    published: ClassVar[Mapping[str, str]] = {}
    #: Of the options that are for some victims only, those that it has a use for, and what of it then is watched.
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {}
    #: Names of the qualities, lowest first.
    ladder: tuple[str, ...]
    #: Seconds of film that its player keeps ahead.
    buffer: float = 0.0
    #: What it fills of the screen, from the upper left corner, in px, once it has started; None: all.
    fills: tuple[int, int] | None = None

    @classmethod
    @abstractmethod
    def from_options(cls, options: ServiceOptions) -> Self:
        """Make the service as the user asked for it. Raises ServiceError for options that do not fit."""

    @abstractmethod
    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        """Make and cache what is needed, before any lab is up; `progress` is told the share done, 0..1."""

    @property
    def prepared(self) -> dict[str, Any]:
        """What `prepare` made, as JSON with paths, for the same service in a simulated machine."""
        return {}

    def take(self, prepared: Mapping[str, Any]) -> None:
        """Use what another process has `prepared`, in place of `prepare`; its paths are texts."""
        assert not prepared, f"{self.name} does not take what it prepared"

    @abstractmethod
    def start(self, stage: Stage) -> None:
        """Begin to play and return when pictures are shown; ServiceError with the reason if they are not."""

    @abstractmethod
    def sample(self) -> PlayerSample | None:
        """Return the newest sample of the player, None before the first one."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether it shows the best quality that its window has use for; to be asked at most a few times a second."""

    @property
    @abstractmethod
    def stalls(self) -> int:
        """How often the player has stopped for want of data since it first played."""

    @property
    @abstractmethod
    def failure(self) -> str | None:
        """Why it no longer plays (page crashed, origin gone); None while all is well."""

    def keep_shown(self) -> str:
        """Keep in the run's logs what its pages show, nothing secret in it; gives the end of an error's line."""
        return ""

    @property
    def clip(self) -> Clip | None:
        """The test clip that is shown, once prepared; None for a live service."""
        return None

    @property
    def port(self) -> int:
        """The port of the server from which the pictures come, TCP or UDP."""
        return ports.ORIGIN

    @property
    def facts(self) -> dict[str, Any]:
        """What scoring must know of the pictures, JSON-ready, for lab.json."""
        if not (clip := self.clip):
            return {}
        heights = [rung.height for rung in clip.ladder]
        facts = {"frames": clip.frames, "fps": clip.fps, "heights": heights, "rates_bps": clip.rates}
        return {"clip": facts | ({"film": clip.film} if clip.film else {})}

    @abstractmethod
    def stop(self) -> None:
        """End everything that `start` began; samples are on disk afterwards."""

    @property
    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the programs that play, for the manifest."""
