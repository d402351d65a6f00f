# SPDX-License-Identifier: Apache-2.0
"""Two hosts and a router as namespaces of one simulated node: the sender's data crosses the router to the receiver."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sojourn.hardware import simulation
from sojourn.hardware.images.guest import Guest, ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.traffic.endpoints import ensure_endpoints
from sojourn.traffic.irtt import TOS
from sojourn.traffic.ports import TALK

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


def counted(namespace: str, *matches: str) -> str:
    """Script: count what arrives in a namespace by each match of nft."""
    rules = "".join(f"{match} counter\n" for match in matches)
    return (
        f"ip netns exec {namespace} nft -f - <<'END'\n"
        f"table ip seen {{\nchain seen {{\ntype filter hook input priority 0\n{rules}}}\n}}\nEND\n"
    )


COUNTS = "ip netns exec {0} nft list table ip seen >{0}.nft\n"


def counts(folder: Path, namespace: str) -> list[int]:
    return [int(number) for number in re.findall(r"counter packets (\d+)", (folder / f"{namespace}.nft").read_text())]


@dataclass(frozen=True)
class Talk:
    """A flow of UDP: so many bytes at once, every so often, in packets of at most 1200 bytes (1242 on the wire)."""

    every_ns: int
    size: int
    first_ns: int = 100_000_000
    dscp: int = 0

    def bursts(self, seconds: int) -> Iterator[str]:
        """Yield the lines of a plan for its packets in a cell of `seconds` s."""
        whole, rest = divmod(self.size, 1200)
        for at in range(self.first_ns, seconds * 10**9, self.every_ns):
            yield from (f"burst {at} {count} {size}\n" for count, size in ((whole, 1200), (1, rest)) if count and size)


def talk(
    queue: str, talks: Sequence[Talk], folder: Path, seconds: int, *ecn: str, tos: int = TOS["ect0"]
) -> pl.DataFrame:
    """Send talks through a queue (a script that sets it up); counts what arrives as each of `ecn`.

    Returns talks.csv: `talk`, `t_s` of sending, `delay_us` of each packet (null: lost) in the order in which they are
    sent. Leaves the router's `tc -s -j` as `tc`, and the counts for `counts`.
    """
    plan = f"cell {seconds}000000000 1000000000 4\nhost sender 1\nhost receiver 1\n" + "".join(
        f"talk sender receiver 10.42.1.20 {TALK + n} {tos | flow.dscp << 2} 0\n{''.join(flow.bursts(seconds))}"
        for n, flow in enumerate(talks)
    )
    shutil.copy(ensure_endpoints(), folder / "bulk")
    ports = f"{TALK}-{TALK + len(talks) - 1}"
    (folder / "run").write_text(
        # Nobody else sends: IPv6 looks for routers and neighbours when it draws to.
        f"{NETWORK}for end in sender router receiver; do\n"
        "ip netns exec $end sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6'\ndone\n"
        f"{queue}"
        + counted("receiver", *(f"udp dport {ports} ip ecn {field}" for field in ecn))
        + f"./bulk <<'END'\n{plan}END\n{COUNTS.format('receiver')}tc -n router -s -j qdisc show dev lan >tc\n"
    )
    (folder / "run").chmod(0o755)
    simulation.run(ensure_kernel(), ensure_guest(), folder, timeout=60)
    return pl.read_csv(folder / "talks.csv", schema_overrides={"delay_us": pl.Float64})
