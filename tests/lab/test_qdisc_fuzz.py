# SPDX-License-Identifier: Apache-2.0
"""Random settings of every queue under traffic in simulated time: the kernel complains of nothing, no packet stays."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from sojourn.bottleneck.qdiscs import KINDS
from sojourn.hardware import simulation
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import RECIPE, SANITIZED, ensure_kernel
from sojourn.hardware.kernel_build.kbuild import Recipe
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.kernel_build.self_check import CONGESTION_CONTROLS
from tests.lab.simulated import NETWORK
from tests.lab.tc_settings import DEVICE, PAUSE, SCHEDULE, START, settings

pytestmark = pytest.mark.lab

#: What a kernel says that has found a fault in itself.
FAULT = re.compile(r"BUG|WARNING|UBSAN|KASAN|INFO: |Oops|ODEBUG|refcount_t|suspicious|unreferenced object|Call Trace")
#: Times of less than a packet, of a few, and of many, s.
EVERY = ("0.0005", "0.004", "0.02")
#: Shaped by itself, or by a rate for each flow, a queue may keep what it has for years.
OWN_RATE = re.compile(r" bandwidth |\bfq |tbf")

JOB = (
    """
cat /dev/kmsg >kmsg 2>&1 &
kernel=$!
mount -t debugfs none /sys/kernel/debug 2>/dev/null || true
ip netns exec sender ethtool -K eth0 tx on sg on tso on gso on >/dev/null
for end in sender:eth0:fd02::20 router:wan:fd02::1 router:lan:fd01::1 receiver:eth0:fd01::20; do
    address=${end#*:*:}; part=${end%":$address"}
    ip -n ${part%:*} address add $address/64 dev ${part#*:} nodad
done
ip netns exec router sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
ip -n sender -6 route add default via fd02::1
ip -n receiver -6 route add default via fd01::1
for name in sender receiver; do ip netns exec $name sh -c 'echo "4096 65536 131072" >/proc/sys/net/ipv4/tcp_wmem'; done
tc -n sender qdisc add dev eth0 root netem rate 100mbit delay 2ms limit 1000
port=5201
flow() {
    ip netns exec receiver iperf3 -s -p $port -D >/dev/null
    ip netns exec sender iperf3 -p $port -t 80000 -i 0 "$@" >/dev/null 2>>flows &
    port=$((port + 1))
}
sleep 3
"""
    + "".join(f"flow -c 10.42.1.20 -C {control}\n" for control in CONGESTION_CONTROLS)
    + f"""
flow -c 10.42.1.20 -u -b 8M -l 300 -S 0x12
flow -c 10.42.1.20 -u -b 8M -l 1400 -S 0x10
flow -c 10.42.1.20 -u -b 8M -l 8000 -S 0xb9
flow -c fd01::20 -u -b 8M -l 1200 -S 0x11
flow -c fd01::20 -C cubic
sleep 1
leaks=/sys/kernel/debug/kmemleak
scan() {{
    for time in 1 2 3; do echo scan >$leaks; sleep 6; done
}}
if [ -e $leaks ]; then
    scan
    echo clear >$leaks  # what was lost as the machine started
fi
rest() {{
    tc -n router qdisc add dev wan clsact
    tc -n router filter add dev wan ingress matchall action drop
    sleep 10
    echo "$last" >>rested
    tc -n router -s -j qdisc show {DEVICE} >>rested
    tc -n router qdisc del dev wan clsact
}}
set +e
while read -r pause line; do
    case $line in
        {PAUSE}) rest ;;
        {SCHEDULE}*) printf '%s\\n' ${{line#{SCHEDULE} }} >/proc/slots ;;
        {START}) echo {START} >/proc/slots ;;
        *) echo "$line" >trying
           tc -n router -s $line >>shown 2>>refusals && last=$line && echo "$line" >>taken
           sleep $pause ;;
    esac
done <settings
ip -n router -s -j link show lan >carried
ip -n router link delete lan
ip netns delete receiver
sleep 10
if [ -e $leaks ]; then
    scan
    cat $leaks >leaks
fi
kill $kernel
exit 0
"""
)


def fuzzed(kernel: Kernel, folder: Path, seed: int, count: int, timeout: float) -> None:
    """Set up `count` queues under traffic and assert that the kernel and its queues are well."""
    lines = [*settings(seed, count)]
    (folder / "settings").write_text("".join(f"{EVERY[n % 3]} {line}\n" for n, line in enumerate(lines)))
    (folder / "run").write_text(NETWORK + JOB)
    (folder / "run").chmod(0o755)
    try:
        simulation.run(kernel, ensure_guest(), folder, seed=seed, memory="768M", timeout=timeout)
    finally:
        trying = (folder / "trying").read_text() if (folder / "trying").exists() else ""
        said = "".join(
            (folder / name).read_text(errors="replace")
            for name in ("kmsg", "leaks", "console")
            if (folder / name).exists()
        )
        if fault := FAULT.search(said):
            pytest.fail(f"as tc did {trying!r}: {said[fault.start() : fault.start() + 3000]}")
    taken = (folder / "taken").read_text().splitlines()
    kinds = Counter(word for line in taken for word in line.split() if word in KINDS)
    assert kinds.keys() == KINDS.keys(), "a queue that was never set up"
    assert len(taken) > 0.4 * count, Counter((folder / "refusals").read_text().splitlines()).most_common(5)
    (lan,) = json.loads((folder / "carried").read_text())
    assert lan["stats64"]["tx"]["packets"] > 5 * count, (folder / "flows").read_text()
    assert not [*stranded((folder / "rested").read_text())]


def stranded(text: str) -> list[str]:
    """Queues that still count a packet, or bytes without one, long after the last one came."""
    wrong = []
    for last, shown in zip(*[iter(text.splitlines())] * 2, strict=True):
        for queue in json.loads(shown):
            packets, backlog = queue.get("qlen", 0), queue.get("backlog", 0)
            if (packets > 0) != (backlog > 0) or (packets and not OWN_RATE.search(last)):
                wrong.append(f"{queue['kind']}: {packets} packets, {backlog} bytes after {last!r}")
    return wrong


def test_settings_at_random_under_traffic(tmp_path: Path) -> None:
    fuzzed(ensure_kernel(), tmp_path, seed=1, count=300, timeout=600)


@pytest.mark.nightly
@pytest.mark.timeout(7200)  # the first one builds a kernel
@pytest.mark.parametrize("recipe", [RECIPE, SANITIZED], ids=["as used", "sanitized"])
@pytest.mark.parametrize("seed", range(2, 12))
def test_ten_thousand_settings_at_random_under_traffic(tmp_path: Path, seed: int, recipe: Recipe) -> None:
    fuzzed(ensure_kernel(recipe=recipe), tmp_path, seed=seed, count=1000, timeout=3600)
