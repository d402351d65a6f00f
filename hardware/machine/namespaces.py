# SPDX-License-Identifier: Apache-2.0
"""Network namespaces for one lab, which die with us; on a host in a private world, which a plain user may make.

There everything hangs on one `unshare` process: it makes a user, mount and pid namespace, and the kernel ends every
process in that pid namespace (and with them the network namespaces, veths and mounts) when it ends. It ends when we
do, however we end, as everything at LOCAL does: its parent-death signal is SIGKILL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil

from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.hardware.machine.scratch import scratch_file
from sojourn.hardware.machine.viewer import UID, becomes_viewer

# The holder is pid 1: it holds one network namespace by each sleeping child, and `wait` reaps orphans.
_HOLDER = """
for name in "$@"; do
    unshare --net sh -c 'echo "holds $0 $$"; exec sleep infinity' "$name" &
done
while :; do wait; done
"""


# Who its users are is written from outside, as only there more than one can be: us as its root, and root's viewer.
_PRIVATE = ["unshare", "--user", "--", "sh", "-c", 'echo "waits for its users"; read go && exec "$@"', "sh"]
# What becomes their root loses the signal at our death, and must ask for it again.
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

    `pids` tells of each the process that holds it, as pids count within.

    With `shared` only the network is a namespace: a simulated machine is private already, and there each one that a
    program enters costs time. Raises `ProcessError` when the kernel refuses user namespaces; the text names the
    fix.
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
                "or run as root"
            ) from refused
        self.pids = {m[1]: int(m[2]) for m in re.finditer(r"^holds (\S+) (\d+)$", self._log.read_text(), re.MULTILINE)}
        self._log.unlink()
        init = psutil.Process(self._holder.popen.pid)
        outer = {_inner_pid(child.pid): child.pid for child in (init if shared else init.children()[0]).children()}
        self.places = {name: _place(name, outer[inner], shared) for name, inner in self.pids.items()}
        #: Within, but for the network: that is this host's.
        self.on_this_network = _place("", next(iter(outer.values())), shared, net=False)

    def __getitem__(self, name: str) -> Place:
        return self.places[name]

    def cable(self, hub: str, ports: Mapping[str, tuple[str, str]]) -> None:
        """Plug veth pairs from `hub` into other namespaces: port name → (namespace, interface name there).

        Both ends come up with every offload off. Raises `CommandError`.
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
        """End every process of the lab and with them all that it made. Safe to call twice."""
        self._holder.stop(sig=9)

    def __enter__(self) -> Namespaces:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# Offloads would let packets of 64 KiB cross the bottleneck; IPv6 would add packets that nobody asked for.
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
    """Make us the root of the user namespace that `holder` waits in, and let it go on."""
    own, stdin = Path(f"/proc/{holder.popen.pid}"), holder.popen.stdin
    assert stdin
    viewer = f"{UID} {UID} 1\n" if becomes_viewer() else ""
    if not viewer:  # else the kernel lets nobody but root name groups
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
