# SPDX-License-Identifier: Apache-2.0
"""What every lab offers an experiment: four hosts, a router or a box, and two points where packets are captured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from sojourn.bottleneck.router import Router
from sojourn.hardware.machine.place import Place


@dataclass(frozen=True)
class Addresses:
    """All of one IP version; client and receiver are behind the router's LAN side, server and sender behind its WAN."""

    client: str
    receiver: str
    server: str
    sender: str


@dataclass(frozen=True)
class Tap:
    """Where packets are captured: an interface at a place."""

    place: Place
    interface: str


@dataclass
class Lab:
    """The places of one lab while it is up."""

    name: str
    client: Place
    server: Place
    sender: Place
    receiver: Place
    #: None: between the hosts is a box that nobody sets up or reads, called `box`.
    router: Router | None
    client_tap: Tap
    server_tap: Tap
    addresses: Addresses
    box: str = ""
    #: Whose packets are captured, by their addresses, and those of them by which the client is seen; empty: all.
    hosts: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    #: Whether its clock is the host's, which may be late; else computing takes no time.
    real_time: bool = True
    versions: dict[str, str] = field(default_factory=dict)
    #: Put before the argv of latency-critical programs, e.g. `("chrt", "-r", "20")` where the user may.
    realtime: tuple[str, ...] = ()
    #: Put before the argv of programs of the server's side that need more than the cores that the nodes leave.
    all_cores: tuple[str, ...] = ()
    #: Put before the argv of recorders, so that no frame is late because browsers are busy.
    on_time: tuple[str, ...] = ()
    #: Parts of the lab that must live while it is up: the name of each and what says why it no longer does.
    watched: dict[str, Callable[[], str | None]] = field(default_factory=dict)


class MadeLab:
    """A lab that is undone by one stack, whatever it was that it made."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class LabFactory(Protocol):
    """A context manager that yields a running `Lab` and undoes all of it."""

    def __enter__(self) -> Lab: ...

    def __exit__(self, *exc: Any) -> None: ...
