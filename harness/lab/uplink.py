# SPDX-License-Identifier: Apache-2.0
"""Internet access of a virtual lab: a further host on its WAN side, connected by pasta to this host's sockets.

::

    br-wan ── eth0 [outside] uplink ── pasta ── this host's connections

So this host's network is not changed, and root is not needed. Outgoing traffic is masqueraded after the bottleneck, so
that packets in the bottleneck have their own addresses. TCP ends at a relay (`sojourn.traffic.relay`), whose kernel
sends it through the bottleneck; UDP (QUIC, WebRTC, DNS) passes unchanged.
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
from sojourn.hardware.machine.requirements import ToolError
from sojourn.hardware.machine.scratch import scratch_file
from sojourn.harness.lab.switches import OUTSIDE, WAY_OUT, Plan, address_outside
from sojourn.traffic import relay
from sojourn.traffic.ports import RELAY

_TUN = "/dev/net/tun"
_OWN, _BEYOND = "10.42.3.2", "10.42.3.1"
_MTU = 65520  # pasta's default: only packets that leave by eth0 get a network's size
_START_S = 10
# Debian's AppArmor profile lets pasta search only folders with a user's namespaces, and in the lab's /proc it has given
# up the right to search.
_JOIN = """
folder=/run/user; [ -d "$folder" ] || folder=/mnt
mount -t tmpfs tmpfs "$folder" && mkdir -p "$folder/0/netns" && : >"$folder/0/netns/lab" &&
    mount --bind "/proc/$0/ns/net" "$folder/0/netns/lab" && exec pasta --netns "$folder/0/netns/lab" "$@"
"""
# No inbound connections; this host's loopback is unreachable, except for a resolver there.
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
    """Raise ToolError with the fix if this user cannot open the device that an uplink needs."""
    if not os.access(_TUN, os.R_OK | os.W_OK):
        fix = f"as root: modprobe tun && chmod 0666 {_TUN}"
        raise ToolError(
            f"--lab=virtual: internet access needs {_TUN}, which this user cannot open; {fix}", code="not-writable"
        )


def open_uplink(
    spaces: Namespaces, plan: Plan, control: str, run: Path, stack: ExitStack, wrap: Sequence[str] = ()
) -> dict[str, Process]:
    """Connect the namespace OUTSIDE to the internet, and let all places of the lab resolve names there.

    TCP is relayed with congestion control `control`; `wrap` is a prefix to the programs, whose logs go to `run`.
    Returns the programs by description. Raises CommandError, ProcessError, ToolError.
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
    # After pasta has read the host's resolver. All places of a lab, and nobody else, see this mount.
    names = scratch_file(".resolv")
    names.write_text(f"nameserver {_BEYOND}\n")
    names.chmod(0o644)
    outside.run(["mount", "--bind", str(names), "/etc/resolv.conf"])
    return {"the uplink (pasta)": pasta, "the uplink's relay": passing}


def _await_interface(pasta: Process, outside: Place) -> None:
    """Return once pasta has created its interface. Raises ProcessError."""
    deadline = time.monotonic() + _START_S
    while pasta.alive() and time.monotonic() < deadline:
        try:
            outside.run(["ip", "link", "show", "uplink"])
        except CommandError:
            continue
        return
    words = pasta.last_words() or f"no interface within {_START_S} s"
    raise ProcessError(f"--lab=virtual: no internet access: pasta: {words}", code="unreachable")
