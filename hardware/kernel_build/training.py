# SPDX-License-Identifier: Apache-2.0
"""The training of the compiler: bulk flows through the queues of most cells, in simulated time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from sojourn.hardware import simulation
from sojourn.hardware.images.guest import Guest
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.simulation import SimulationError

HOT = (
    *("arch/um/kernel/time", "drivers/net/veth", "lib/rbtree", "lib/siphash", "lib/timerqueue", "mm/slub"),
    *("kernel/sched/core", "kernel/sched/idle", "kernel/softirq"),
    *(f"kernel/time/{name}" for name in ("clockevents", "hrtimer", "tick-common", "tick-oneshot", "tick-sched")),
    *(f"kernel/time/{name}" for name in ("timekeeping", "timer")),
    *(f"net/core/{name}" for name in ("dev", "dst", "flow_dissector", "gro", "neighbour", "skbuff", "sock", "stream")),
    "net/ethernet/eth",
    *(f"net/ipv4/{name}" for name in ("fib_frontend", "fib_semantics", "fib_trie", "inet_connection_sock")),
    *(f"net/ipv4/{name}" for name in ("inet_hashtables", "ip_forward", "ip_input", "ip_output", "route")),
    *(f"net/ipv4/tcp{part}" for part in ("", "_cong", "_cubic", "_input", "_ipv4", "_output", "_prague")),
    *(f"net/ipv4/tcp{part}" for part in ("_rate", "_recovery", "_timer")),
    *(f"net/sched/sch_{name}" for name in ("api", "dualpi2", "fq_codel", "generic", "htb", "netem", "pie")),
)
"""Files of the kernel source, without `.c`, on every packet's path; the rest of a run's time is spread thinly."""
SECONDS = 10
QDISCS = ("fq_codel flows 1", "dualpi2", "pie")
RATE = "50mbit"
TIMEOUT_S = 120.0
#: Counts go to the machine's folder `profile`, without the files' paths (libgcov's variables).
_COUNTED = {"GCOV_PREFIX": "profile", "GCOV_PREFIX_STRIP": "99"}
JOB = """#!/bin/sh
set -e
ip -batch - <<'END'
netns add sender
netns add router
netns add receiver
link add eth0 netns sender type veth peer name wan netns router
link add lan netns router type veth peer name eth0 netns receiver
END
in_each() { for space in sender router receiver; do ip netns exec $space "$@"; done; }
in_each sh -c 'echo 3 >/proc/sys/net/ipv4/tcp_ecn; echo 1 >/proc/sys/net/ipv4/ip_forward'
ip -n sender -batch - <<'END'
link set dev eth0 up
address add 10.42.2.20/24 dev eth0
route add default via 10.42.2.1
END
ip -n router -batch - <<'END'
link set dev wan up
link set dev lan up
address add 10.42.2.1/24 dev wan
address add 10.42.1.1/24 dev lan
END
ip -n receiver -batch - <<'END'
link set dev eth0 up
address add 10.42.1.20/24 dev eth0
route add default via 10.42.1.1
END
tc -n sender qdisc add dev eth0 root netem limit 200000 delay 10ms
tc -n router -batch - <<'END'
qdisc add dev wan root netem limit 200000 delay 10ms
qdisc add dev lan root handle 1: htb default 10
class add dev lan parent 1: classid 1:10 htb rate RATE ceil RATE burst 6250 cburst 6250 quantum 1514
END
for device in 'sender ethtool -K eth0' 'router ethtool -K wan' 'router ethtool -K lan' 'receiver ethtool -K eth0'; do
    ip netns exec $device tso off gso off gro off >>setup
done
send() { ip netns exec sender iperf3 -c 10.42.1.20 -t SECONDS -i 0.1 "$@" >>sent; }
through() {
    tc -n router qdisc replace dev lan parent 1:10 handle 10: "$@"
    ip netns exec receiver iperf3 -s -1 -p 5201 >/tmp/first &
    ip netns exec receiver iperf3 -s -1 -p 5202 >/tmp/second &
    sleep 0.5
    send -p 5201 -C prague &
    send -p 5202 -C cubic
    wait
    tc -n router qdisc del dev lan parent 1:10 handle 10:
}
"""


def job() -> str:
    """Return the shell script of the training: Prague and CUBIC through every queue of QDISCS in turn."""
    return JOB.replace("RATE", RATE).replace("SECONDS", str(SECONDS)) + "".join(f"through {q}\n" for q in QDISCS)


def train(kernel: Kernel, guest: Guest, profile: Path) -> None:
    """Run the training on an instrumented kernel, which writes its counts to `profile` at its end.

    Raises BuildError if the run fails or writes no counts.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile.mkdir(exist_ok=True)
        (folder / "run").write_text(job())
        (folder / "run").chmod(0o755)
        try:
            simulation.run(kernel, guest, folder, timeout=TIMEOUT_S, mounts={"profile": profile}, environment=_COUNTED)
        except SimulationError as failed:
            raise BuildError(f"the training failed: {failed}") from failed
    if not any(profile.glob("*.gcda")):
        raise BuildError("the training wrote no counts", code="missing")
