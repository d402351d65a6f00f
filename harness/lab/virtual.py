# SPDX-License-Identifier: Apache-2.0
"""The virtual lab: three User-Mode Linux nodes and two namespaces of this host, joined by two switches.

::

    client ─┐                                     ┌─ server
            ├─ br-lan ── lan [router] wan ── br-wan ┤
    receiver┘                                     └─ sender

client and server are namespaces of the host (browser, origin, irtt); router, sender and receiver are kernels of their
own. Control traffic (ssh) has a switch of its own, so that it never shares the bottleneck.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from bottleneck.router import Router
from hardware.build import Kernel
from hardware.guest import Guest
from hardware.machine.files import log_file
from hardware.machine.namespaces import Namespaces
from hardware.machine.place import LOCAL, Place
from hardware.machine.process import Process
from hardware.machine.scratch import scratch_folder
from hardware.node import READY, Interface, node_command
from harness.lab.contract import Addresses, Lab, Tap
from harness.lab.switches import HUB, ROUTER_LAN, ROUTER_WAN, address, cable

_MGMT = {"router": "10.42.0.1", "sender": "10.42.0.2", "receiver": "10.42.0.3"}
_TOLD = ("iproute2", "iperf3", "irtt", "tcpdump")
#: The router goes before the probes that measure it, and these before the hosts that fill it.
_ROUTER, PROBES, _HOSTS = 30, 25, 20
_RECORDERS = 10
_LATENCY = "/dev/cpu_dma_latency"
#: Up to this rate (bit/s, one direction) one core carries all three nodes beside a browser.
ONE_CORE_BPS = 30_000_000


class VirtualLab:
    """Boot the virtual lab; use as a context manager that yields a :class:`Lab`.

    ``one_core``: see :class:`Cores`; right up to ONE_CORE_BPS.

    Node consoles are written to ``logs/`` of ``run``. Raises :class:`ProcessError` with the end of the console when a
    node does not come up.
    """

    def __init__(self, kernel: Kernel, guest: Guest, run: Path, *, one_core: bool = False) -> None:
        self._kernel, self._guest, self._run = kernel, guest, run
        self._stack = ExitStack()
        self._cores = Cores(one_core)
        self.nodes: dict[str, Process] = {}

    def __enter__(self) -> Lab:
        with ExitStack() as stack:
            stack.enter_context(self._cores)
            scratch = scratch_folder("-ssh")
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            spaces = stack.enter_context(Namespaces([HUB, "client", "server", *_MGMT]))
            cable(spaces, {"router": "apu-", "receiver": "apu-", "sender": "apu-"}, mgmt=_MGMT)
            self._boot(spaces, stack)
            addresses = Addresses()
            for end in ("client", "server"):
                address(spaces[end], end)
            ssh = {name: _ssh(spaces[HUB], name, self._guest, scratch) for name in _MGMT}
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda name: _greet(self.nodes[name], ssh[name]), _MGMT))
            lab = Lab(
                name="virtual",
                client=spaces["client"],
                server=spaces["server"],
                sender=ssh["sender"],
                receiver=ssh["receiver"],
                router=Router(ssh["router"]),
                client_tap=Tap(spaces[HUB], "lan-router"),
                server_tap=Tap(spaces[HUB], "wan-router"),
                addresses=addresses,
                realtime=self._cores.realtime(PROBES),
                all_cores=self._cores.all(),
                on_time=self._cores.on_time(),
                versions={
                    "kernel source": self._kernel.source,
                    "kernel build": self._kernel.digest,
                    "guest build": self._guest.digest,
                    **{f"guest {name}": self._guest.versions[name] for name in _TOLD if name in self._guest.versions},
                },
            )
            self._stack = stack.pop_all()
        return lab

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _boot(self, spaces: Namespaces, stack: ExitStack) -> None:
        kernel, guest = self._kernel, self._guest
        wired = {
            "router": {"lan": f"{ROUTER_LAN}/24", "wan": f"{ROUTER_WAN}/24"},
            "sender": {"eth0": f"{Addresses.sender}/24"},
            "receiver": {"eth0": f"{Addresses.receiver}/24"},
        }
        gateway = {"sender": ROUTER_WAN, "receiver": ROUTER_LAN}
        for name, devices in wired.items():
            interfaces = [
                Interface(dev, f"apu-{dev}", ip) for dev, ip in {**devices, "mgmt": f"{_MGMT[name]}/24"}.items()
            ]
            self.nodes[name] = Process.start(
                spaces[name],
                node_command(
                    kernel.linux,
                    guest.root,
                    name=name,
                    interfaces=interfaces,
                    gateway=gateway.get(name),
                    forward=name == "router",
                ),
                stdout=log_file(self._run, f"node-{name}"),
                wrap=self._cores.realtime(_ROUTER if name == "router" else _HOSTS),
            )
            stack.callback(self.nodes[name].stop, signal.SIGKILL)


def _ssh(hub: Place, name: str, guest: Guest, scratch: Path) -> Place:
    """Return the node ``name`` as a place that is reached by ssh from the hub."""
    config = scratch / "ssh_config"
    if not config.exists():
        config.write_text(
            "Host *\n  User root\n  BatchMode yes\n  LogLevel ERROR\n  ConnectTimeout 3\n  ServerAliveInterval 2\n"
            "  ServerAliveCountMax 3\n  ControlMaster auto\n  ControlPersist yes\n"
            f"  IdentityFile {guest.ssh_key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {guest.known_hosts}\n"
            f"  HostKeyAlias sojourn-node\n  ControlPath {scratch}/%n\n"
            + "".join(f"Host {node}\n  HostName {ip}\n" for node, ip in _MGMT.items())
        )
    return Place(name, (*hub.prefix, "ssh", "-F", str(config), name), quote=True)


def _greet(node: Process, ssh: Place) -> None:
    """Wait until the node is up, and make the ssh connection that all later commands share."""
    node.await_ready(READY, "stdout")
    ssh.run(["true"])


class Cores:
    """Which cores the real-time nodes and everything else run on; undoes what it changed when left.

    A packet visits the nodes one after the other. With ``one_core`` they share the last core and leave the others to
    the browser and the recorder: a wake-up on the same core needs no interrupt to another one, which beside busy
    programs in a virtual machine can wait for the next timer tick (measured: 4 ms instead of 0.03 ms). Idle cores are
    kept from sleeping as cyclictest does it, by /dev/cpu_dma_latency, where the user may open that. Nothing is changed
    where the user may have no real-time priority (RLIMIT_RTPRIO), or on a single core.
    """

    def __init__(self, one_core: bool) -> None:
        self._before = os.sched_getaffinity(0)
        self._last = max(self._before)
        self._apart = one_core and _may_be_realtime() and len(self._before) > 1
        self._awake: int | None = None

    def __enter__(self) -> Cores:
        if self._apart:
            os.sched_setaffinity(0, self._before - {self._last})
        with suppress(OSError):
            self._awake = os.open(_LATENCY, os.O_WRONLY)
            os.write(self._awake, (0).to_bytes(4, sys.byteorder))  # us; in force while the file is open
        return self

    def __exit__(self, *_: object) -> None:
        os.sched_setaffinity(0, self._before)
        if self._awake is not None:
            os.close(self._awake)
            self._awake = None

    def all(self) -> tuple[str, ...]:
        """Return the argv prefix that gives a program every core; empty where all have them."""
        return ("taskset", "--cpu-list", ",".join(map(str, sorted(self._before)))) if self._apart else ()

    def on_time(self) -> tuple[str, ...]:
        """Return the argv prefix that lets a recorder go before browsers, on any core; empty where the user may not."""
        return ("chrt", "--rr", str(_RECORDERS)) if _may_be_realtime() else ()

    def realtime(self, priority: int) -> tuple[str, ...]:
        """Return the argv prefix that gives real-time ``priority``; empty where the user may not."""
        if not _may_be_realtime():
            return ()
        core = ("taskset", "--cpu-list", str(self._last)) if self._apart else ()
        return (*core, "chrt", "--rr", str(priority))


@functools.cache
def _may_be_realtime() -> bool:
    wanted = os.environ.get("SOJOURN_REALTIME", "1") != "0"
    return wanted and LOCAL.run(["sh", "-c", f"chrt --rr {_ROUTER} true 2>&1 || echo no"]).strip() == ""
