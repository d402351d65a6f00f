# SPDX-License-Identifier: Apache-2.0
"""The physical lab: an APU (or any Linux router), or a third-party box, and hosts reached by the OpenSSH client.

The browser, the recorder and the irtt client run on this host. The user's `~/.ssh/config` applies: host names in the
lab file are what they would type after `ssh`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from sojourn.bottleneck.lease import RouterLease, undo_stale
from sojourn.bottleneck.readback import ReadbackError
from sojourn.bottleneck.router import Router, RouterError
from sojourn.hardware.lab.console import ConsoleError, ConsoleLog, open_console
from sojourn.hardware.lab.lab_file import FAR, NEAR, LabFile, RouterEntry
from sojourn.hardware.machine.cores import PROBES, Cores
from sojourn.hardware.machine.files import log_file
from sojourn.hardware.machine.ip import ip_version
from sojourn.hardware.machine.orphans import end_orphans
from sojourn.hardware.machine.place import COMMANDS, LOCAL, NO_WAY_BACK, CommandError, Place
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.harness.lab.contract import Addresses, Lab, MadeLab, Tap
from sojourn.traffic.contender import ECN_FILES

CLOCK = "router-clock.jsonl"
_GREET_S = 15


class PhysicalLabError(RuntimeError):
    """A lab cannot be used in its present state; one line with the reason and the remedy."""


class PhysicalLab(MadeLab):
    """Reach every machine of a lab file and claim its router, if it has one; a context manager that yields a `Lab`.

    Consoles and the router's clock are written to `run`, if given; `notify` receives messages for the user.
    """

    def __init__(self, file: LabFile, run: Path | None = None, notify: Callable[[str], None] = lambda _: None) -> None:
        self._file, self._run, self._notify = file, run, notify
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
            if router and entry:
                lab.watched["the connection to the router"] = self._claim(router, entry.dead_man_s, stack)
            # Nothing is changed before the lab is known to be free.
            for place in places.values():
                if ended := end_orphans(place) if place.remote else []:
                    self._say(f"{place.name}: killed what an earlier, killed run had left: {'; '.join(ended)}")
            self._keep_settings(lab, stack)
            self._keep_consoles(stack)
            self._stack = stack.pop_all()
        return lab

    def _claim(self, router: Router, lease_s: int, stack: ExitStack) -> Callable[[], str | None]:
        """Claim the router in a clean state; keep others' configuration. The result says why the claim was lost."""
        if owner := undo_stale(router.place):
            self._say(f"router: undid what a run of {owner} had left")
        if foreign := router.foreign():
            queues, commands = zip(*foreign, strict=True)
            raise PhysicalLabError(
                f"router: it has queues set up by others: {', '.join(queues)}; to remove them, run there: "
                + " && ".join(commands)
            )
        lease = RouterLease(router.place, router.undo(), lease_s, self._run / CLOCK if self._run else None)
        lease.claim()

        def give_back() -> None:
            try:
                if not lease.holds():  # another run may have claimed it
                    lease.stop()
                    self._say("router: the claim is lost: the router undid the set-up by itself, or was rebooted")
                    return
                if lease.lost is None:  # while it is renewed, nobody else can have claimed it
                    router.clear()
                lease.release()
            except (CommandError, RouterError, ReadbackError) as failed:
                lease.stop()
                self._say(f"router: could not be restored: {failed}; it restores itself within {lease_s} s")

        stack.callback(give_back)
        return lambda: lease.lost

    def _keep_settings(self, lab: Lab, stack: ExitStack) -> None:
        """Restore what contenders and the origin change on the hosts: the ECN mode, the default route."""
        for place in dict.fromkeys((lab.sender, lab.receiver, lab.server, lab.client)):
            for file in ECN_FILES:
                was = place.run(["cat", file]).strip()
                stack.callback(self._put_back, place, ["sh", "-c", f"echo {was} >{file}"])
        ip = ["ip", f"-{ip_version(lab.addresses.server)}", "route"]
        if routes := lab.server.run([*ip, "show", "default"]).splitlines():
            kept = re.sub(r"\bexpires \S+", "", routes[0])  # from a router advertisement; ip does not accept it
            stack.callback(self._put_back, lab.server, [*ip, "replace", *kept.split()])

    def _put_back(self, place: Place, command: list[str]) -> None:
        try:
            place.run(command)
        except CommandError as failed:
            self._say(f"{place.name}: could not be restored ({' '.join(command)}): {failed}")

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
    scratch = scratch_folder("-ssh")
    hosts = {name: _place(file, name, entry.ssh, entry.netns, scratch) for name, entry in file.hosts.items()}
    router = {"router": _place(file, "router", file.router.ssh, None, scratch)} if file.router else {}
    return router | hosts


def router_of(entry: RouterEntry, file: LabFile, places: Mapping[str, Place]) -> Router:
    """Return the router of a lab file's entry."""
    near, far = ([file.hosts[name].address for name in names] for names in (NEAR, FAR))
    masqueraded = (near, far) if entry.nat else ((), ())
    return Router(places["router"], entry.lan, entry.wan, *masqueraded, cards=True)


def _addresses(router: Router) -> tuple[str, ...]:
    """Return the router's own addresses on the path, which a masquerading router uses for the hosts."""
    description = (
        router.place.run(["ip", "-4", "-o", "address", "show", "dev", device]) for device in (router.lan, router.wan)
    )
    return tuple(re.findall(r"\binet ([\d.]+)", "".join(description)))


def tap(name: str, file: LabFile, places: Mapping[str, Place]) -> Tap:
    """Return the capture point: the host, or the router if the host names no interface."""
    if interface := file.hosts[name].interface:
        return Tap(places[name], interface)
    assert file.router  # with a box, hosts name an interface
    return Tap(places["router"], file.router.lan if name == "client" else file.router.wan)


def _place(file: LabFile, name: str, ssh: str | None, netns: str | None, scratch: Path) -> Place:
    if ssh is None:
        there = ("nsenter", f"--net=/run/netns/{netns}", "--") if netns else ()
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
