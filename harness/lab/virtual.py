# SPDX-License-Identifier: Apache-2.0
"""The virtual lab: three User-Mode Linux nodes and two namespaces of this host, connected by two switches.

::

    client ─┐                                     ┌─ server
            ├─ br-lan ── lan [router] wan ── br-wan ┤
    receiver┘                                     ├─ sender
                                                  └─ outside (see sojourn.harness.lab.uplink)

client and server are namespaces of the host (browser, origin, irtt); router, sender and receiver are separate kernels.
Control traffic (ssh) has a separate switch, so that it never shares the bottleneck.
"""

from __future__ import annotations

import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from sojourn.bottleneck.router import Router
from sojourn.hardware.confine.confinement import Confinement, Jail
from sojourn.hardware.images import own_tc
from sojourn.hardware.images.guest import Guest
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.cores import HOSTS, PROBES, ROUTER, Cores
from sojourn.hardware.machine.files import log_file
from sojourn.hardware.machine.ip import IpVersion
from sojourn.hardware.machine.namespaces import Namespaces
from sojourn.hardware.machine.place import NO_WAY_BACK, Place
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.scratch import socket_folder
from sojourn.hardware.node import MEMORY, READY, Interface, node_command
from sojourn.hardware.simulation import memory_bytes
from sojourn.harness.lab.contract import Lab, MadeLab, Tap
from sojourn.harness.lab.switches import HUB, OUTSIDE, PLANS, WAY_OUT, address, cable
from sojourn.harness.lab.uplink import open_uplink

_MGMT = {"router": "10.42.0.1", "sender": "10.42.0.2", "receiver": "10.42.0.3"}
_REPORTED = ("iproute2", "iperf3", "irtt", "tcpdump")
#: Up to this rate (bit/s, one direction) one core can run all three nodes next to a browser.
ONE_CORE_BPS = 30_000_000
#: Three kernels boot at once, on a host that may be busy.
_BOOT_S = 60


class VirtualLab(MadeLab):
    """Boot the virtual lab; a context manager that yields a `Lab`.

    `one_core`: see `sojourn.hardware.machine.cores.Cores`; suitable up to ONE_CORE_BPS. `uplink`: client and server
    reach the internet, whose TCP is relayed to the client with this congestion control.

    Node consoles are written to `logs/` of `run`. Raises `ProcessError` with the end of the console if a
    node does not boot.
    """

    def __init__(
        self, kernel: Kernel, guest: Guest, run: Path, *, one_core: bool = False, version: IpVersion = 4,
        uplink: str | None = None,
    ) -> None:  # fmt: skip
        self._kernel, self._guest, self._run, self._plan, self._uplink = kernel, guest, run, PLANS[version], uplink
        super().__init__()
        self._cores = Cores(one_core)
        self.nodes: dict[str, Process] = {}
        #: The lab's internet access, if any.
        self.ways_out: dict[str, Process] = {}

    def __enter__(self) -> Lab:
        with ExitStack() as stack:
            stack.enter_context(self._cores)
            scratch = socket_folder()
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            names = [HUB, "client", "server", *_MGMT, *([OUTSIDE] if self._uplink else [])]
            spaces = stack.enter_context(Namespaces(names))
            cable(spaces, {"router": "apu-", "receiver": "apu-", "sender": "apu-"}, mgmt=_MGMT)
            self._boot(spaces, stack)
            for end in ("client", "server"):
                address(spaces[end], end, self._plan)
            if self._uplink:
                wrap = self._cores.realtime(HOSTS)
                self.ways_out = open_uplink(spaces, self._plan, self._uplink, self._run, stack, wrap)
            ssh = {name: _ssh(spaces[HUB], name, self._guest, scratch) for name in _MGMT}
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda name: _greet(self.nodes[name], ssh[name], self._kernel), _MGMT))
            lab = Lab(
                name="virtual",
                client=spaces["client"],
                server=spaces["server"],
                sender=ssh["sender"],
                receiver=ssh["receiver"],
                router=Router(ssh["router"]),
                client_tap=Tap(spaces[HUB], "lan-router"),
                server_tap=Tap(spaces[HUB], "wan-router"),
                addresses=self._plan.ends,
                # Name lookups are excluded from the captures.
                hosts=tuple(asdict(self._plan.ends).values()) if self._uplink else (),
                viewers=(self._plan.ends.client,) if self._uplink else (),
                realtime=self._cores.realtime(PROBES),
                all_cores=self._cores.all(),
                on_time=self._cores.on_time(),
                watched={name: process.last_words for name, process in self.ways_out.items()},
                versions={
                    **({"beside": self._cores.sharing} if self._cores.sharing else {}),
                    **({"uplink": f"TCP relayed by {self._uplink}"} if self._uplink else {}),
                    "kernel source": self._kernel.source,
                    "kernel build": self._kernel.digest,
                    "guest build": self._guest.digest,
                    **{
                        f"guest {name}": version
                        for name, version in self._guest.versions.items()
                        if name in _REPORTED or name.startswith("archive of ")
                    },
                },
            )
            self._stack = stack.pop_all()
        return lab

    def _boot(self, spaces: Namespaces, stack: ExitStack) -> None:
        kernel, guest, plan = self._kernel, self._guest, self._plan
        wired = {
            "router": {"lan": plan.lan, "wan": plan.wan},
            "sender": {"eth0": plan.ends.sender},
            "receiver": {"eth0": plan.ends.receiver},
        }
        way_out = WAY_OUT if self._uplink else None
        for name, devices in wired.items():
            interfaces = [Interface(dev, f"apu-{dev}", f"{ip}/{plan.length}") for dev, ip in devices.items()]
            interfaces.append(Interface("mgmt", "apu-mgmt", f"{_MGMT[name]}/24"))
            words = node_command(
                name=name,
                interfaces=interfaces,
                gateway=way_out if name == "router" else plan.gateway(name),
                forward=name == "router",
            )
            self.nodes[name] = Process.start(
                spaces[name],
                stack.enter_context(node_jail(kernel.linux, guest.root, kernel.tc)).argv(words, {"TMPDIR": "memory"}),
                stdout=log_file(self._run, f"node-{name}"),
                wrap=self._cores.realtime(ROUTER if name == "router" else HOSTS),
            )
            stack.callback(self.nodes[name].stop, signal.SIGKILL)


def node_jail(linux: Path, root: Path, tc: Path | None = None) -> Jail:
    """Return the jail of a node: in a lab's namespaces, further namespaces are always available."""
    shown = {"linux": linux, "root": root, **({own_tc.NAME: tc} if tc else {})}
    return Jail(shown, {}, memory_bytes(MEMORY), packets=True, kind=Confinement.NAMESPACES)


def _ssh(hub: Place, name: str, guest: Guest, scratch: Path) -> Place:
    """Return the node `name` as a place reached by ssh from the hub."""
    config = scratch / "ssh_config"
    if not config.exists():
        config.write_text(
            "Host *\n  User root\n  BatchMode yes\n  LogLevel ERROR\n  ConnectTimeout 3\n  ServerAliveInterval 2\n"
            "  ServerAliveCountMax 3\n  ControlMaster auto\n  ControlPersist yes\n"
            f"  IdentityFile {guest.ssh_key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {guest.known_hosts}\n"
            f"  HostKeyAlias sojourn-node\n  ControlPath {scratch}/%n\n"
            + "".join(f"  {option.replace('=', ' ')}\n" for option in NO_WAY_BACK)
            + "".join(f"Host {node}\n  HostName {ip}\n" for node, ip in _MGMT.items())
        )
    return Place(name, (*hub.prefix, "ssh", "-F", str(config), name), remote=True)


def _greet(node: Process, ssh: Place, kernel: Kernel) -> None:
    """Wait until the node is up, and open the ssh connection that all later commands share."""
    node.await_ready(READY, "stdout", timeout=_BOOT_S)
    ssh.run(["sh", "-ec", own_tc.USE] if kernel.tc else ["true"])
