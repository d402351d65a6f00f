# SPDX-License-Identifier: Apache-2.0
"""The physical lab: an APU (or any Linux router), or a third-party box, and hosts reached by the OpenSSH client.

The browser, the recorder and the irtt client run on this host. The user's `~/.ssh/config` applies: host names in the
lab file are what they would type after `ssh`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from sojourn.bottleneck.lease import MachineLease, Owner, owner_of, undo_stale
from sojourn.bottleneck.readback import ReadbackError
from sojourn.bottleneck.router import Router, RouterError
from sojourn.hardware.lab.console import ConsoleError, ConsoleLog, open_console
from sojourn.hardware.lab.lab_file import DEAD_MAN_S, FAR, HOSTS, NEAR, LabFile, RouterEntry
from sojourn.hardware.machine.cores import PROBES, Cores
from sojourn.hardware.machine.files import log_file
from sojourn.hardware.machine.ip import ip_version
from sojourn.hardware.machine.place import COMMANDS, LOCAL, NETNS, NO_WAY_BACK, CommandError, Place
from sojourn.hardware.machine.scratch import socket_folder
from sojourn.harness.lab.contract import Addresses, Lab, MadeLab, Tap
from sojourn.harness.lab.machine_checks import (
    finding_of,
    measured,
    require_ethernet,
    require_management,
    require_no_offloads,
)
from sojourn.traffic.contender import ECN_FILES
from sojourn.traffic.tso import SWITCH_2020
from sojourn.traffic.tunnel import TAKE_AWAY

CLOCK = "router-clock.jsonl"
_GREET_S = 15


class PhysicalLabError(RuntimeError):
    """A lab cannot be used in its present state; one line with the reason and the remedy."""


class PhysicalLab(MadeLab):
    """Reach and claim the machines of a lab file; a context manager that yields a `Lab`.

    Consoles and the router's clock are written to `run`, if given; `notify` receives messages for the user.
    `steps_bps`: see Router.
    """

    def __init__(
        self,
        file: LabFile,
        run: Path | None = None,
        notify: Callable[[str], None] = lambda _: None,
        steps_bps: Sequence[int] = (),
    ) -> None:
        self._file, self._run, self._notify, self._steps_bps = file, run, notify, steps_bps
        self._lost: list[str] = []
        super().__init__()

    def __enter__(self) -> Lab:
        file, hosts, entry = self._file, self._file.hosts, self._file.router
        with ExitStack() as stack:
            cores = stack.enter_context(Cores(one_core=False))
            places = places_of(file)
            for place in places.values():
                stack.callback(close_master, place)
                place.run(["true"], timeout=_GREET_S)
            router = router_of(entry, file, places) if entry else None
            if router:
                router.steps_bps = self._steps_bps
            addresses = Addresses(**{name: host.address for name, host in hosts.items()})
            own = _addresses(router) if router and entry and entry.nat else ()
            if cores.sharing:
                self._say(cores.sharing)
            lab = Lab(
                name=file.lab,
                client=places["client"],
                server=places["server"],
                sender=places["sender"],
                receiver=places["receiver"],
                router=router,
                box=file.box.name if file.box else "",
                client_tap=tap("client", file, places),
                server_tap=tap("server", file, places),
                addresses=addresses,
                hosts=(*asdict(addresses).values(), *own),
                viewers=(addresses.client, *own),
                realtime=cores.realtime(PROBES),
                on_time=cores.on_time(),
            )
            for place in places.values():
                if place.remote:
                    _refuse(f"{place.name}: ssh", require_management, place, measured(file, place.name))
            if router and entry:
                self._claim(lab, router.place, partial(_undo_router, router), stack, router)
            self._claim_hosts(lab, places, stack)
            _require_whole_packets(lab)
            self._keep_consoles(stack)
            self._stack = stack.pop_all()
        return lab

    def _claim_hosts(self, lab: Lab, places: Mapping[str, Place], stack: ExitStack) -> None:
        """Claim every host that this run can change."""
        owners: set[Owner] = set()
        for name in HOSTS:
            place = places[name]
            if not place.remote and os.geteuid():  # an ordinary user changes nothing here
                continue
            if owner_of(place) in owners:  # another name of a machine of this lab
                continue
            owners.add(self._claim(lab, place, partial(_undo_host, lab, name, place), stack))

    def _claim(
        self, lab: Lab, place: Place, undo: Callable[[], list[str]], stack: ExitStack, router: Router | None = None
    ) -> Owner:
        """Claim a machine in a clean state until the run ends. `undo` returns the lines that restore that state."""
        if left := undo_stale(place):
            self._say(f"{place.name}: undid what a run of {left} had left")
        lease_s = self._file.router.dead_man_s if self._file.router else DEAD_MAN_S
        lease = MachineLease(place, undo(), lease_s, self._run / CLOCK if self._run and router else None)
        owner = lease.claim()

        def give_back() -> None:
            try:
                if not lease.holds():  # another run may have claimed it
                    lease.stop()
                    lost = f"{place.name}: the claim is lost: all changes were undone there, or it was rebooted"
                    self._lost.append(lost)
                    self._say(lost)
                    return
                if router and lease.lost is None:  # while it is renewed, nobody else can have claimed it
                    router.clear()
                lease.release()
            except (CommandError, RouterError, ReadbackError) as failed:
                lease.stop()
                if isinstance(failed, CommandError):
                    self._lost.append(str(failed))
                self._say(f"{place.name}: could not be restored: {failed}; it restores itself within {lease_s} s")

        stack.callback(give_back)
        lab.watched[f"the connection to the {place.name}"] = lambda: lease.lost
        return owner

    def require_kept(self) -> None:
        """Raise PhysicalLabError, once the lab is left, if a machine was lost after a run last looked at it."""
        if self._lost:
            raise PhysicalLabError(f"the lab was not whole to the end: {'; '.join(self._lost)}")

    def _keep_consoles(self, stack: ExitStack) -> None:
        """Log the consoles: a dying kernel's messages appear nowhere else. A run works without them."""
        for name, machine in self._file.machines.items() if self._run else ():
            assert self._run
            try:
                if console := open_console(machine):
                    log = ConsoleLog(console, log_file(self._run, f"console-{name}")).start()
                    stack.callback(self._end_console, name, log)
            except ConsoleError as failed:
                self._say(f"{name}: no console: {failed}")

    def _end_console(self, name: str, log: ConsoleLog) -> None:
        log.stop()
        if log.error:
            self._say(f"{name}: its console log ends early: {log.error}")

    def _say(self, text: str) -> None:
        COMMANDS.info("%s", text)
        self._notify(text)


def places_of(file: LabFile) -> dict[str, Place]:
    """Return the router, if there is one, and the hosts of a lab file as places; nothing is started."""
    scratch = socket_folder()
    hosts = {name: _place(file, name, entry.ssh, entry.netns, scratch) for name, entry in file.hosts.items()}
    router = {"router": _place(file, "router", file.router.ssh, None, scratch)} if file.router else {}
    return router | hosts


def router_of(entry: RouterEntry, file: LabFile, places: Mapping[str, Place]) -> Router:
    """Return the router of a lab file's entry."""
    near, far = ([file.hosts[name].address for name in names] for names in (NEAR, FAR))
    masqueraded = (near, far) if entry.nat else ((), ())
    return Router(places["router"], entry.lan, entry.wan, *masqueraded, cards=True)


def _undo_router(router: Router) -> list[str]:
    """Return the lines that undo a set-up of a router without others' queues. Raises PhysicalLabError."""
    if foreign := router.foreign():
        queues, commands = zip(*foreign, strict=True)
        raise PhysicalLabError(
            f"router: it has queues set up by others: {', '.join(queues)}; to remove them, run there: "
            + " && ".join(commands)
        )
    return router.undo()


def _undo_host(lab: Lab, name: str, place: Place) -> list[str]:
    """Return the lines that restore what contenders, tunnels and the origin change on a host."""
    lines = [TAKE_AWAY]
    for file in (*ECN_FILES, SWITCH_2020):
        if was := place.run(["cat", file], check=False).strip():
            lines.append(f"echo {was} >{file}")
    if name == "server":
        ip = ["ip", f"-{ip_version(lab.addresses.server)}", "route"]
        for route in place.run([*ip, "show", "match", lab.addresses.client]).splitlines():
            kept = re.sub(r"\bexpires \S+", "", route)  # from a router advertisement; ip does not accept it
            lines.append(shlex.join([*ip, "replace", *kept.split()]))
    return lines


def _require_whole_packets(lab: Lab) -> None:
    """Raise PhysicalLabError if an interface of the router or a capture is missing, or its packets are not the wire's.

    Offloads change packets, and a capture of anything but Ethernet cannot be scored.
    """
    router = lab.router
    routed = [Tap(router.place, device) for device in (router.lan, router.wan)] if router else []
    for tap in dict.fromkeys([*routed, lab.client_tap, lab.server_tap]):
        _refuse(f"{tap.place.name}: offloads of {tap.interface}", require_no_offloads, tap.place, tap.interface)
    for tap in dict.fromkeys([lab.client_tap, lab.server_tap]):
        _refuse(f"{tap.place.name}: capture", require_ethernet, tap.place, tap.interface)


def _refuse(what: str, check: Callable[..., str], *given: Any) -> None:
    """Raise PhysicalLabError if a check fails; what it only notes passes."""
    finding = finding_of(what, check, *given)
    if finding.verdict == "missing":
        raise PhysicalLabError(f"{what}: {finding.found}; {finding.fix}")


def _addresses(router: Router) -> tuple[str, ...]:
    """Return the router's own addresses on the path, which a masquerading router uses for the hosts."""
    description = (
        router.place.run(["ip", "-4", "-o", "address", "show", "dev", device]) for device in (router.lan, router.wan)
    )
    return tuple(re.findall(r"\binet ([\d.]+)", "".join(description)))


def require_idle(file: LabFile, machine: str) -> None:
    """Raise LeaseError if a run uses the machine of this name, or for a box any host; undo what a dead run left there.

    A machine that does not answer passes: switching it may be the remedy.
    """
    places = places_of(file)
    for place in [places[machine]] if machine in places else places.values():
        with contextlib.suppress(CommandError):
            undo_stale(place)
        close_master(place)


def tap(name: str, file: LabFile, places: Mapping[str, Place]) -> Tap:
    """Return the capture point: the host, or the router if the host names no interface."""
    if interface := file.hosts[name].interface:
        return Tap(places[name], interface)
    assert file.router  # with a box, hosts name an interface
    return Tap(places["router"], file.router.lan if name == "client" else file.router.wan)


def _place(file: LabFile, name: str, ssh: str | None, netns: str | None, scratch: Path) -> Place:
    if ssh is None:
        there: tuple[str, ...] = ("nsenter", f"{NETNS}{netns}", "--") if netns else ()
        if netns and Path(f"/etc/netns/{netns}").is_dir():  # its own files of /etc, such as a resolver
            there += ("ip", "netns", "exec", netns)
        return Place(name, (*LOCAL.prefix, *there))
    config = ("-F", str(file.ssh_config)) if file.ssh_config else ()
    # An unused connection ends by itself, so a killed run leaves none.
    options = (*NO_WAY_BACK, "BatchMode=yes", "ConnectTimeout=5", "ServerAliveInterval=5", "ControlMaster=auto",
               "ControlPersist=60", f"ControlPath={scratch}/%C")  # fmt: skip
    return Place(
        name, (*LOCAL.prefix, "ssh", *config, *(part for o in options for part in ("-o", o)), ssh), remote=True
    )


def close_master(place: Place) -> None:
    """Close the connection shared by the commands of an ssh place, if there is one."""
    if not place.remote:
        return
    *ssh, host = place.prefix
    with contextlib.suppress(CommandError):
        Place(place.name, tuple(ssh)).run(["-O", "exit", host], check=False, timeout=5)
