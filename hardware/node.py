# SPDX-License-Identifier: Apache-2.0
"""The command line that starts a virtual node: a User-Mode Linux kernel on the guest's root."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

MEMORY = "128M"
"""The memory of a node."""
READY = r"sojourn: ready"
"""What a node prints on its console (stdout) when its network is up and ssh answers."""


@dataclass(frozen=True)
class Interface:
    """A network interface of a node."""

    name: str
    """Its name inside the node, e.g. `lan`."""
    device: str
    """The interface on the starting side that carries its frames, e.g. one end of a veth."""
    address: str
    """IP address with prefix length inside the node; the device itself must have none."""


def node_command(
    *,
    name: str,
    interfaces: Sequence[Interface],
    gateway: str | None = None,
    forward: bool = False,
    memory: str = MEMORY,
    untrusted: bool = False,
    extra: Sequence[str] = (),
) -> list[str]:
    """Return the argv of a node in a Jail with `linux` and `root` (`sojourn.hardware.confine`); start it where the
    devices are.

    The devices must be up with all offloads off (`ethtool -K DEV tso off gso off gro off tx off rx off`). The
    node prints READY on stdout when its ssh server answers (port 22, root, `guest.ssh_key`), and ends at SIGTERM or
    `poweroff`.

    Args:
        gateway: gateway of the default route.
        forward: whether it forwards IP, as a router does.
        memory: value of `mem=`.
        untrusted: whether programs in it may attack its kernel. With `seccomp=on`, each of them can change all
            memory of the machine through code that the kernel keeps there for its system calls; `seccomp=off` uses
            ptrace instead, which is slower.
        extra: more words for the kernel command line, e.g. `time-travel=inf-cpu`.

    Raises:
        ValueError: a value holds a blank or a comma, which the kernel command line cannot carry.
    """
    settings = {
        "name": name,
        "if": ",".join(
            f"vec{index}:{interface.name}:{interface.address}" for index, interface in enumerate(interfaces)
        ),
        "route": f"default:{gateway}" if gateway else "",
        "forward": str(int(forward)),
    }
    words = [
        f"mem={memory}",
        "root=/dev/root",
        "rootfstype=hostfs",
        "hostfs=/proc/self/cwd",  # the root of hostfs paths
        "rootflags=root/.",
        "ro",
        "init=/init",
        "quiet",
        "con0=null,fd:1",
        "con=null",
        f"seccomp={'off' if untrusted else 'on'}",
        "panic=-1",
        "uml_dir=/dev/null",  # no pid file that a killed node would leave behind
        *(
            f"vec{index}:transport=raw,ifname={interface.device},depth=64,gro=0,mac={mac(name, interface.name)}"
            for index, interface in enumerate(interfaces)
        ),
        *(f"sj_{key}={value}" for key, value in settings.items() if value),
        *extra,
    ]
    for value in (
        name,
        *(part for interface in interfaces for part in (interface.name, interface.device, interface.address)),
    ):
        if not value or any(char in value for char in " \t\n,"):
            raise ValueError(f"node {name}: {value!r} cannot be on a kernel command line: it has a blank or a comma")
    return ["./linux", *words]


def mac(node: str, interface: str) -> str:
    """A locally administered MAC address, the same for the same names, so that runs can be compared."""
    return "02:53:" + zlib.crc32(f"{node}/{interface}".encode()).to_bytes(4, "big").hex(":")
