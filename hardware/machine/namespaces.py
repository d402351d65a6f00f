# SPDX-License-Identifier: Apache-2.0
"""Network namespaces for one lab, which end with this process; on a host, within a private user namespace.

There, one `unshare` process holds everything: it creates a user, a mount and a pid namespace, and when it ends, the
kernel kills every process in that pid namespace, and with them the network namespaces, veths and mounts. It ends with
this process, however that ends: its parent-death signal is SIGKILL, as for everything at LOCAL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.hardware.machine.scratch import scratch_file
from sojourn.hardware.machine.viewer import UID, becomes_viewer

# The holder is pid 1: each of its sleeping children holds a network namespace, and `wait` reaps orphans.
_HOLDER = """
for name in "$@"; do
    unshare --net sh -c 'echo "holds $0 $$"; exec sleep infinity' "$name" &
done
while :; do wait; done
"""


# Its users are mapped from outside, because only there can several be mapped: the caller as its root, and the viewer.
_PRIVATE = ["unshare", "--user", "--", "sh", "-c", 'echo "waits for its users"; read go && exec "$@"', "sh"]
# A process that becomes their root loses its parent-death signal, and must set it again.
_PRIVATE += [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "--",
    "unshare",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]


class Namespaces:
    """Network namespaces by name; each is a `Place`. Use as a context manager.

    `pids` has the process that holds each namespace, as pids inside the pid namespace.

    With `shared`, only the network is a namespace: a simulated machine is private already, and every further namespace
    that a program enters costs time there. Raises `ProcessError` if the kernel refuses user namespaces; the message has
    the fix.
    """

    def __init__(self, names: Sequence[str], *, shared: bool = False) -> None:
        self._log = scratch_file(".holders")
        unshare = [] if shared else _PRIVATE
        try:
            self._holder = Process.start(
                LOCAL,
                [
                    *unshare,
                    "sh",
                    "-c",
                    _HOLDER,
                    "sojourn-lab",
                    *names,
                ],
                stdout=self._log,
                stdin=True,
                ready="^waits" if unshare else None,
                ready_in="stdout",
            )
            if unshare:
                _name_users(self._holder)
            self._holder.await_ready("".join(f"(?=[\\s\\S]*^holds {re.escape(name)} )" for name in names), "stdout")
        except ProcessError as refused:
            self._log.unlink(missing_ok=True)
            raise ProcessError(
                f"user namespaces are refused here ({refused}); allow them with "
                "`sysctl kernel.unprivileged_userns_clone=1` or `kernel.apparmor_restrict_unprivileged_userns=0`, "
                "or run as root",
                code="unsupported",
            ) from refused
        self.pids = {m[1]: int(m[2]) for m in re.finditer(r"^holds (\S+) (\d+)$", self._log.read_text(), re.MULTILINE)}
        self._log.unlink()
        init = psutil.Process(self._holder.popen.pid)
        outer = {_inner_pid(child.pid): child.pid for child in (init if shared else init.children()[0]).children()}
        self.places = {name: _place(name, outer[inner], shared) for name, inner in self.pids.items()}
        #: Inside, except for the network, which is this host's.
        self.on_this_network = _place("", next(iter(outer.values())), shared, net=False)

    def __getitem__(self, name: str) -> Place:
        return self.places[name]

    def cable(self, hub: str, ports: Mapping[str, tuple[str, str]]) -> None:
        """Connect `hub` to other namespaces by veth pairs: port name → (namespace, interface name there).

        Both ends are up with all offloads off. Raises `CommandError`.
        """
        # `netns PID` is read in the pid namespace of ip itself, which nsenter has entered.
        pairs = [
            f"link add {port} type veth peer name {dev} netns {self.pids[name]}\n"
            for port, (name, dev) in ports.items()
        ]
        self[hub].run(["ip", "-batch", "-"], input="".join(pairs))
        ends = {hub: list(ports)}
        for name, dev in ports.values():
            ends.setdefault(name, []).append(dev)
        for name, devices in ends.items():
            self[name].run(["sh", "-c", _UP, "up", *devices])

    def close(self) -> None:
        """Kill every process of the lab, which removes all that it created. Safe to call twice."""
        self._holder.stop(sig=9)

    def __enter__(self) -> Namespaces:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Offloads would let packets of 64 KiB cross the bottleneck; IPv6 would add unwanted packets.
_UP = """
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
ip link set lo up
for dev; do
    ethtool -K "$dev" tso off gso off gro off tx off rx off sg off >/dev/null 2>&1
    echo 1 >"/proc/sys/net/ipv6/conf/$dev/disable_ipv6"
    ip link set "$dev" up
done
"""


def _name_users(holder: Process) -> None:
    """Map this user to root in the user namespace where `holder` waits, and let it continue."""
    own, stdin = Path(f"/proc/{holder.popen.pid}"), holder.popen.stdin
    assert stdin
    viewer = f"{UID} {UID} 1\n" if becomes_viewer() else ""
    if not viewer:  # otherwise the kernel lets only root map groups
        (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"0 {os.geteuid()} 1\n{viewer}")
    (own / "gid_map").write_text(f"0 {os.getegid()} 1\n{viewer}")
    stdin.write(b"go\n")
    stdin.flush()


def _place(name: str, pid: int, shared: bool, *, net: bool = True) -> Place:
    others = () if shared else ("--user", "--preserve-credentials", "--mount", "--pid")
    return Place(name, ("nsenter", "--target", str(pid), *others, *(("--net",) if net else ()), "--"))


def _inner_pid(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1])
