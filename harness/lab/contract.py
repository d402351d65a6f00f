# SPDX-License-Identifier: Apache-2.0
"""The interface of every lab: four hosts, a router or a box, and two capture points."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sojourn.bottleneck.router import Router
from sojourn.hardware.machine.place import Place
from sojourn.traffic.program_flow import installed
from sojourn.traffic.user_program import UserProgram

Side = Literal["client", "server"]
SIDES: tuple[Side, ...] = ("client", "server")
"""The capture points: after the bottleneck and before it, in the downward direction."""


@dataclass(frozen=True)
class Addresses:
    """Addresses of one IP version; client and receiver are on the router's LAN side, server and sender on WAN."""

    client: str
    receiver: str
    server: str
    sender: str


@dataclass(frozen=True)
class Tap:
    """A capture point: an interface at a place."""

    place: Place
    interface: str


@dataclass
class Lab:
    """The places of a running lab."""

    name: str
    client: Place
    server: Place
    sender: Place
    receiver: Place
    #: None: between the hosts is a black box named `box`, neither configured nor read.
    router: Router | None
    client_tap: Tap
    server_tap: Tap
    addresses: Addresses
    box: str = ""
    #: Addresses whose packets are captured, and the client's addresses among them; empty: all.
    hosts: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    #: Whether its clock is the host's, which can lag; otherwise, computing takes no time.
    real_time: bool = True
    #: The longest time between two releases of packets at each host, µs; 0: unknown, or at once.
    bunching_us: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    #: Prefix to the argv of latency-critical programs, e.g. `("chrt", "-r", "20")` if permitted.
    realtime: tuple[str, ...] = ()
    #: Prefix to the argv of server-side programs that need more cores than the nodes leave.
    all_cores: tuple[str, ...] = ()
    #: Prefix to the argv of recorders, so that busy browsers do not delay frames.
    on_time: tuple[str, ...] = ()
    #: Parts of the lab that must stay alive: name → function that returns why it has ended, if so.
    watched: dict[str, Callable[[], str | None]] = field(default_factory=dict)
    #: The user's programs that may compete, by the contender's name.
    programs: dict[str, UserProgram] = field(default_factory=dict)

    @property
    def varies_ms(self) -> float:
        """The most by which its hosts may delay a round trip, ms."""
        return 2 * self.bunching_us / 1000

    def tap(self, side: Side) -> Tap:
        """Return the capture point on one side of the bottleneck."""
        return self.client_tap if side == "client" else self.server_tap


class MadeLab:
    """A lab whose set-up is undone by one stack."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class LabFactory(Protocol):
    """A context manager that yields a running `Lab` and undoes its set-up."""

    def __enter__(self) -> Lab: ...

    def __exit__(self, *exc: Any) -> None: ...


class WithPrograms(MadeLab):
    """A lab of another factory, with the user's programs at the hosts of its bulk flows.

    Raises CommandError, and what the factory raises.
    """

    def __init__(self, factory: LabFactory, programs: Iterable[UserProgram]) -> None:
        super().__init__()
        self._factory, self._programs = factory, programs

    def __enter__(self) -> Lab:
        with ExitStack() as stack:
            lab = stack.enter_context(self._factory)
            lab.programs = {program.name: program for program in self._programs}
            for program in lab.programs.values():
                for place in (lab.sender, lab.receiver):
                    installed(program, place)
            self._stack = stack.pop_all()
        return lab
