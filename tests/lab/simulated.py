# SPDX-License-Identifier: Apache-2.0
"""Two hosts and a router as namespaces of one simulated node: the sender's data crosses the router to the receiver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hardware import simulation
from hardware.build import Kernel
from hardware.guest import Guest

NETWORK = """#!/bin/sh
set -e
for name in sender router receiver; do ip netns add $name; ip -n $name link set lo up; done
ip link add eth0 netns sender type veth peer name wan netns router
ip link add eth0 netns receiver type veth peer name lan netns router
for end in sender:eth0 router:wan receiver:eth0 router:lan; do
    ip -n ${end%:*} link set ${end#*:} up
    ip netns exec ${end%:*} ethtool -K ${end#*:} tso off gso off gro off tx off sg off >/dev/null
done
ip -n sender address add 10.42.2.20/24 dev eth0
ip -n router address add 10.42.2.1/24 dev wan
ip -n router address add 10.42.1.1/24 dev lan
ip -n receiver address add 10.42.1.20/24 dev eth0
ip -n sender route add default via 10.42.2.1
ip -n receiver route add default via 10.42.1.1
for name in sender router receiver; do
    ip netns exec $name sh -c 'cd /proc/sys/net/ipv4; echo 1 >ip_forward; echo 3 >tcp_ecn
        echo "4096 131072 33554432" >tcp_rmem; echo "4096 65536 33554432" >tcp_wmem'
done
"""


@dataclass
class Simulated:
    """Runs shell scripts in the simulated network; each run has a folder of its own."""

    kernel: Kernel
    guest: Guest
    folder: Path

    def run(self, script: str, *, seed: int = 1) -> Path:
        """Run `script` after the network is up; returns the folder with what it wrote."""
        folder = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        job = folder / "run"
        job.write_text(NETWORK + script)
        job.chmod(0o755)
        simulation.run(self.kernel, self.guest, folder, seed=seed)
        return folder


def delay(rtt_ms: float) -> str:
    """Script: a round-trip time, all of it on the way back, so that data and delay never share a queue."""
    return f"tc -n receiver qdisc add dev eth0 root netem delay {rtt_ms}ms limit 100000\n"


def bottleneck(rate_mbit: float, qdisc: str) -> str:
    """Script: a shaper with `qdisc` inside at the router's egress to the receiver."""
    return (
        "tc -n router qdisc add dev lan root handle 1: htb default 1\n"
        f"tc -n router class add dev lan parent 1: classid 1:1 htb rate {rate_mbit}mbit quantum 1514\n"
        f"tc -n router qdisc add dev lan parent 1:1 handle 10: {qdisc}\n"
    )


def flows(controls: list[str], seconds: int, meanwhile: str = "") -> str:
    """Script: one iperf3 flow for each congestion control, side by side; JSON in flow0, flow1, …"""
    servers = "".join(f"ip netns exec receiver iperf3 -s -p {5201 + n} -D >/dev/null\n" for n in range(len(controls)))
    clients = "".join(
        f"ip netns exec sender iperf3 -c 10.42.1.20 -p {5201 + n} -C {control} -t {seconds} -i 1 -J >flow{n} &\n"
        for n, control in enumerate(controls)
    )
    return f"{servers}sleep 0.5\n{clients}{meanwhile}wait\n"
