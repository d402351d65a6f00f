# SPDX-License-Identifier: Apache-2.0
"""The way out of a virtual lab: one more host on its WAN side, behind which pasta goes on by sockets of this host.

::

    br-wan ── eth0 [outside] uplink ── pasta ── this host's own connections

So nothing of this host's network is touched, and nobody need be root. What goes out is masqueraded behind the
bottleneck: there every packet has its own addresses. TCP ends at a relay (`sojourn.traffic.relay`) whose kernel sends
it on through the bottleneck; UDP (QUIC, WebRTC, names) goes through as it is.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from sojourn.hardware.machine.files import log_file
from sojourn.hardware.machine.namespaces import Namespaces
from sojourn.hardware.machine.place import CommandError, Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.hardware.machine.programs import find
from sojourn.hardware.machine.requirements import ToolError
from sojourn.hardware.machine.scratch import scratch_file
from sojourn.harness.lab.switches import OUTSIDE, WAY_OUT, Plan, address_outside
from sojourn.traffic import relay
from sojourn.traffic.ports import RELAY

_TUN = "/dev/net/tun"
_OWN, _BEYOND = "10.42.3.2", "10.42.3.1"
_MTU = 65520  # pasta's own: only what leaves by eth0 is cut to packets of a network
_START_S = 10
# Only where a user's own namespaces are named may pasta look for one (Debian's AppArmor profile of it), and in the
# lab's /proc it has given up the right to look.
_JOIN = """
folder=/run/user; [ -d "$folder" ] || folder=/mnt
mount -t tmpfs tmpfs "$folder" && mkdir -p "$folder/0/netns" && : >"$folder/0/netns/lab" &&
    mount --bind "/proc/$0/ns/net" "$folder/0/netns/lab" && exec pasta --netns "$folder/0/netns/lab" "$@"
"""
# Nothing comes in, and this host's loopback is out of reach but for the resolver that it may have there.
_PASTA = ["--foreground", "--ipv4-only", "--no-map-gw", "--ns-ifname", "uplink"]
_PASTA += [part for option in "tuTU" for part in (f"-{option}", "none")]
_PASTA += ["--address", _OWN, "--netmask", "24", "--gateway", _BEYOND, "--dns-forward", _BEYOND]
_ROUTE = [
    f"link set uplink mtu {_MTU} up",
    f"address replace {_OWN}/24 dev uplink",
    f"route replace default via {_BEYOND} dev uplink",
]
_TABLE = f"""
table ip sojourn {{
    chain in {{
        type nat hook prerouting priority dstnat
        iifname "eth0" ip protocol tcp redirect to :{RELAY}
    }}
    chain out {{
        type nat hook postrouting priority srcnat
        oifname "uplink" masquerade
    }}
}}
"""


def check() -> None:
    """Raise ToolError with the fix where this host lacks what an uplink needs."""
    for program, package in (("pasta", "passt"), ("nft", "nftables")):
        if not find(program):
            fix = f"as root: apt-get install --no-install-recommends {package}"
            raise ToolError(f"--lab=virtual: its way to the internet needs {program}, which is not here; {fix}")
    if not os.access(_TUN, os.R_OK | os.W_OK):
        fix = f"as root: modprobe tun && chmod 0666 {_TUN}"
        raise ToolError(f"--lab=virtual: its way to the internet needs {_TUN}, which this user cannot open; {fix}")


def open_uplink(
    spaces: Namespaces, plan: Plan, control: str, run: Path, stack: ExitStack, wrap: Sequence[str] = ()
) -> dict[str, Process]:
    """Join the namespace OUTSIDE to the internet, and let all places of the lab look names up there.

    TCP is sent on by congestion control `control`; `wrap` is put before the programs, whose logs go to `run`. Returns
    them by what they are. Raises CommandError, ProcessError, ToolError.
    """
    check()
    outside = spaces[OUTSIDE]
    join = ["unshare", "--mount", "--", "sh", "-c", _JOIN, str(spaces.pids[OUTSIDE]), *_PASTA]
    pasta = Process.start(spaces.on_this_network, join, stderr=log_file(run, "pasta"), wrap=wrap)
    stack.callback(pasta.stop)
    _await_interface(pasta, outside)
    address_outside(outside, spaces["server"], plan)
    outside.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
    outside.run(["ip", "-batch", "-"], input="\n".join(_ROUTE) + "\n")
    outside.run(["nft", "-f", "-"], input=_TABLE)
    command = [sys.executable, "-P", relay.__file__, WAY_OUT, str(RELAY), control]
    passing = Process.start(
        outside, command, stdout=log_file(run, "relay"), ready=relay.READY, ready_in="stdout", wrap=wrap
    )
    stack.callback(passing.stop)
    # After pasta has read the host's own. All places of a lab see one tree of mounts, and nobody else sees it.
    names = scratch_file(".resolv")
    names.write_text(f"nameserver {_BEYOND}\n")
    names.chmod(0o644)
    outside.run(["mount", "--bind", str(names), "/etc/resolv.conf"])
    return {"the uplink (pasta)": pasta, "the uplink's relay": passing}


def _await_interface(pasta: Process, outside: Place) -> None:
    """Return once pasta has made its interface. Raises ProcessError."""
    deadline = time.monotonic() + _START_S
    while pasta.alive() and time.monotonic() < deadline:
        try:
            outside.run(["ip", "link", "show", "uplink"])
        except CommandError:
            continue
        return
    words = pasta.last_words() or f"no interface within {_START_S} s"
    raise ProcessError(f"--lab=virtual: no way to the internet: pasta: {words}")
