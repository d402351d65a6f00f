# SPDX-License-Identifier: Apache-2.0
"""The physical lab: an APU (or any Linux router) and the bulk hosts, reached by the OpenSSH client.

The browser, the recorder and the irtt client run on this host. Users' own ``~/.ssh/config`` counts: host names in the
lab file are what they would type after ``ssh``.
"""

from __future__ import annotations

import contextlib
import tomllib
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from pydantic import BaseModel, ConfigDict, ValidationError

from bottleneck.router import Router
from harness.lab import Addresses, Lab, Tap
from harness.place import LOCAL, CommandError, Place
from harness.scratch import scratch_folder


class LabFileError(RuntimeError):
    """A lab file is missing or wrong; the text is one line that names the entry."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RouterEntry(_Entry):
    """The router: what to type after ``ssh``, and its interfaces towards the client and towards the server."""

    ssh: str
    lan: str
    wan: str


class HostEntry(_Entry):
    """A host: what to type after ``ssh`` (none: this host), its address, and the interface to capture on.

    ``netns`` is a network namespace of this host (``ip netns``) that stands for a host of its own.
    """

    ssh: str | None = None
    netns: str | None = None
    address: str
    interface: str | None = None


class LabFile(_Entry):
    """``lab.toml``: one table a machine. ``ssh_config`` replaces the user's own ssh configuration."""

    ssh_config: Path | None = None
    router: RouterEntry
    client: HostEntry
    receiver: HostEntry
    server: HostEntry
    sender: HostEntry


def read_lab_file(path: Path) -> LabFile:
    """Read and check a lab file; raises :class:`LabFileError`."""
    try:
        return LabFile.model_validate(tomllib.loads(path.read_text()))
    except OSError as missing:
        raise LabFileError(f"--lab-file: {path}: {missing.strerror}; docs/physical-lab.md shows one") from missing
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise LabFileError(f"--lab-file: {path}: no TOML: {broken}") from broken
    except ValidationError as wrong:
        first = wrong.errors()[0]
        entry = ".".join(str(part) for part in first["loc"])
        raise LabFileError(f"--lab-file: {path}: {entry}: {first['msg']}") from wrong


class PhysicalLab:
    """Reach every machine of a lab file; use as a context manager that yields a :class:`Lab`."""

    def __init__(self, file: LabFile) -> None:
        self._file = file
        self._stack = ExitStack()

    def __enter__(self) -> Lab:
        file = self._file
        with ExitStack() as stack:
            scratch = scratch_folder("-ssh")
            hosts = {
                "client": file.client,
                "receiver": file.receiver,
                "server": file.server,
                "sender": file.sender,
            }
            places = {name: self._place(name, entry.ssh, scratch, entry.netns) for name, entry in hosts.items()}
            places["router"] = self._place("router", file.router.ssh, scratch)
            for place in places.values():
                if place.quote:
                    stack.callback(_close_master, place)
                place.run(["true"], timeout=15)
            router = Router(places["router"], lan=file.router.lan, wan=file.router.wan)
            stack.callback(_restore, router)
            lab = Lab(
                name="apu",
                client=places["client"],
                server=places["server"],
                sender=places["sender"],
                receiver=places["receiver"],
                router=router,
                client_tap=self._tap("client", places),
                server_tap=self._tap("server", places),
                addresses=Addresses(**{name: entry.address for name, entry in hosts.items()}),
            )
            self._stack = stack.pop_all()
        return lab

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _place(self, name: str, ssh: str | None, scratch: Path, netns: str | None = None) -> Place:
        if ssh is None:
            there = ("nsenter", f"--net=/run/netns/{netns}", "--") if netns else ()
            return Place(name, (*LOCAL.prefix, *there))
        config = ("-F", str(self._file.ssh_config)) if self._file.ssh_config else ()
        options = ("BatchMode=yes", "ConnectTimeout=5", "ServerAliveInterval=5", "ControlMaster=auto",
                   "ControlPersist=yes", f"ControlPath={scratch}/%C")  # fmt: skip
        return Place(name, ("ssh", *config, *(part for o in options for part in ("-o", o)), ssh), quote=True)

    def _tap(self, name: str, places: dict[str, Place]) -> Tap:
        """Capture at the host itself, or at the router where the host names no interface."""
        entry = self._file.client if name == "client" else self._file.server
        router = self._file.router
        if entry.interface:
            return Tap(places[name], entry.interface)
        return Tap(places["router"], router.lan if name == "client" else router.wan)


def _restore(router: Router) -> None:
    with contextlib.suppress(CommandError):
        router.clear()


def _close_master(place: Place) -> None:
    *ssh, host = place.prefix
    with contextlib.suppress(CommandError):
        Place(place.name, tuple(ssh)).run(["-O", "exit", host], check=False, timeout=5)
