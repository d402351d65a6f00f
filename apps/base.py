# SPDX-License-Identifier: Apache-2.0
"""The interface of every service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from sojourn.apps.options import ServiceOptions
from sojourn.apps.standins.clip import Clip, Encoder
from sojourn.captures.player import PlayerSample
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.place import Place
from sojourn.traffic import ports

Mode = Literal["stand-in", "own", "stream", "live"]
"""What is watched: Sojourn's stand-in, the user's own folder, a stream at an address, or the real site."""


class ServiceError(CodedError):
    """The service cannot be played: not reachable, refused, or a program is missing."""


@dataclass(frozen=True)
class Stage:
    """Where a service plays: the viewer's host and screen, the origin's host and address, the run directory."""

    client: Place
    server: Place
    address: str  # the origin listens here; the viewer can reach it
    run: Path
    display: str  # X display, e.g. ":77"
    port: int = 443
    width: int = 1280
    height: int = 720
    #: Prefix to the argv of server programs that must not share the viewer's cores (see Lab.all_cores).
    all_cores: tuple[str, ...] = ()
    #: Prefix to the argv of a recorder (see Lab.on_time).
    on_time: tuple[str, ...] = ()
    #: Whether the lab's clock is the host's.
    real_time: bool = True
    #: The run's seed.
    seed: int = 1


class Service(ABC):
    """A service under test. Order of calls: prepare, start, sample and phases, stop; stop is always safe."""

    name: ClassVar[str]
    #: The noun for it in headlines.
    watched: ClassVar[str] = "Video"
    #: The site that it is or imitates, as it writes itself, for titles.
    brand: ClassVar[str] = ""
    #: The service's default options, as on the command line: {"rate": "5mbit"}.
    defaults: ClassVar[Mapping[str, str]] = {}
    #: Further options of its published run, for --service=all.
    published: ClassVar[Mapping[str, str]] = {}
    #: The options that only some victims support: which apply to this one, and the mode that each selects.
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {}
    #: Whether it loads pages, whose timings the browser itself reports: its figures need no recording of the screen.
    loads_pages: ClassVar[bool] = False
    #: Names of the qualities, lowest first.
    ladder: tuple[str, ...]
    #: Seconds of video that its player buffers.
    buffer: float = 0.0
    #: The part of the screen that it fills, from the upper left corner, in px, once started; None: all.
    fills: tuple[int, int] | None = None
    #: Whether it shows a picture on the client's screen, which is recorded.
    screen: ClassVar[bool] = True
    #: What encodes its film.
    encoder = Encoder()

    @classmethod
    @abstractmethod
    def from_options(cls, options: ServiceOptions) -> Self:
        """Create the service from the user's options. Raises ServiceError for options that do not fit."""

    @abstractmethod
    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        """Create and cache what is needed, before any lab is up; `progress` receives the share done, 0 to 1."""

    @property
    def prepared(self) -> dict[str, Any]:
        """The result of `prepare` as JSON with paths, for the same service in a simulated machine."""
        return {}

    def take(self, prepared: Mapping[str, Any]) -> None:
        """Use another process's `prepared` instead of calling `prepare`; its paths are strings."""
        assert not prepared, f"{self.name} does not support prepared data"

    @abstractmethod
    def start(self, stage: Stage) -> None:
        """Start playback and return when pictures are shown. Raises ServiceError with the reason if none are."""

    def begin_phase(self) -> None:  # noqa: B027
        """Note that a phase of the timeline begins, with its contender if it has one. Most play on."""

    def end_phase(self) -> None:  # noqa: B027
        """Note that the phase has ended."""

    @abstractmethod
    def sample(self) -> PlayerSample | None:
        """Return the newest sample of the player, None before the first."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether it shows the best quality for its window; call it at most a few times per second."""

    @property
    @abstractmethod
    def stalls(self) -> int:
        """How often the player has stopped for lack of data since it first played."""

    @property
    @abstractmethod
    def failure(self) -> str | None:
        """Why it no longer plays (page crashed, origin gone); None while it plays."""

    def keep_shown(self) -> str:
        """Save what its pages show to the run's logs, without secrets; return the end of an error message."""
        return ""

    @property
    def clip(self) -> Clip | None:
        """The test clip, once prepared; None for a live service."""
        return None

    @property
    def port(self) -> int:
        """The port of the server from which the pictures come, TCP or UDP."""
        return ports.ORIGIN

    @property
    def facts(self) -> dict[str, Any]:
        """What scoring must know about the pictures, for lab.json; serialisable as JSON."""
        if not (clip := self.clip):
            return {}
        heights = [rung.height for rung in clip.ladder]
        facts = {"frames": clip.frames, "fps": clip.fps, "heights": heights, "rates_bps": clip.rates}
        return {"clip": facts | ({"film": clip.film} if clip.film else {})}

    @abstractmethod
    def stop(self) -> None:
        """Stop everything that `start` started; samples are on disk afterwards."""

    @property
    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the programs that play, for the manifest."""
