# SPDX-License-Identifier: Apache-2.0
"""Our queues and SCE in simulated time: a burst's marks, what TCP feeds back, and any setting of tc."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from sojourn.bottleneck.qdiscs import marks
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from tests.lab.simulated import COUNTS, Simulated, Talk, bottleneck, counted, counts, delay, flows, talk
from tests.tiers import first

pytestmark = pytest.mark.lab
BURST = 120
OWN_AQM = ("cnq_codel_af", "lfq_cobalt", "twin_codel_af")
"""Each flow has one."""


@pytest.fixture
def simulated(tmp_path: Path) -> Simulated:
    return Simulated(ensure_kernel(), ensure_guest(), tmp_path)


def sent_through(queue: str, folder: Path, seconds: int, every_ns: int, size: int, *ecn: str) -> list[int]:
    """Send `size` bytes of ECT(0) through a queue each `every_ns`: how many packets arrive as each of `ecn`."""
    # Who waits for a neighbour's address has room for 92 packets.
    asked = "ip netns exec sender ping -q -c 1 10.42.1.20 >ping\n"
    script = f"{asked}tc -n router qdisc add dev lan root handle 10: {queue}\n"
    talk(script, [Talk(every_ns, size)], folder, seconds, *ecn)
    return counts(folder, "receiver")


def burst(queue: str, folder: Path) -> tuple[int, int, dict[str, int]]:
    """Send BURST packets of 1242 bytes on the wire at once: how many arrive as ECT(1), as CE, and what tc tells."""
    some, much = sent_through(queue, folder, 1, 2_000_000_000, BURST * 1200, "ect1", "ce")
    return some, much, json.loads((folder / "tc").read_text())[0]


# At 10 Mbit/s packet k waits 0.9936 ms k. CoDel has two signals within 120 ms: of a flow new to it the packet
# after the first that waited a target (5 ms) is signalled at once, and one 71 ms later. The ramp is certain
# from k = 6 on, and drawn for k = 3 to 5; that of sce-single is certain from k = 11 on, and drawn for 6 to 10.
@pytest.mark.parametrize(
    ("words", "low", "high"),
    first(1, [("sce", 113, 116), ("sce-single", 108, 113), ("no-sce", 0, 0)]),
)
@pytest.mark.parametrize("kind", ["cake", "cnq_cobalt"])
def test_the_marks_on_a_burst(tmp_path: Path, kind: str, words: str, low: int, high: int) -> None:
    queue = f"{kind} bandwidth 10mbit {'besteffort flowblind ' if kind == 'cake' else ''}{words}"
    some, much, told = burst(queue, tmp_path)
    assert much == 2
    assert low <= some + much - 1 <= high or some == low == 0
    assert told.get("sce_mark", 0) == some
    assert marks(told) == much


# The flow's second CoDel has a target of 2.5 ms and this part of 100 ms: of those that wait longer the second is marked
# at once, mark c comes 100 ms / part / sqrt(c) after the one before, and none that is due is forgotten.
@pytest.mark.parametrize(
    ("words", "marked"), first(1, [("sce", 2), ("sce-thresh 4", 11), ("sce-thresh 16", 89), ("no-sce", 0)])
)
@pytest.mark.parametrize("kind", OWN_AQM)
def test_the_marks_on_a_burst_where_each_flow_has_its_own_codel(
    tmp_path: Path, kind: str, words: str, marked: int
) -> None:
    some, much, told = burst(f"{kind} bandwidth 10mbit {words}", tmp_path)
    assert (some, much) == (marked, 2)
    assert (told["sce_mark"], marks(told)) == (some, much)


def shaped(queue: str) -> str:
    return f"tc -n router qdisc add dev lan root handle 10: {queue} bandwidth 10mbit\n"


def test_the_second_pair_of_queues_has_a_fifth_of_the_times(tmp_path: Path) -> None:
    """A target of 1 ms, signals of CE each 20 ms / sqrt(c) from the 2nd on, of SCE, unasked, each 5 ms / sqrt(c)."""
    talk(shaped("twin_codel_af"), [Talk(2_000_000_000, 70 * 1200, dscp=4)], tmp_path, 1, "ect1", "ce")
    (told,) = json.loads((tmp_path / "tc").read_text())
    assert (told["second"], told["sce_mark"], marks(told)) == (70, 49, 7)
    assert counts(tmp_path, "receiver") == [49, 7]


@pytest.mark.parametrize(("one", "three"), [(0, 4), (4, 0)])
def test_two_pairs_of_queues_are_served_by_how_many_flows_have_packets_in_each(
    tmp_path: Path, one: int, three: int
) -> None:
    """A flow alone in its pair, that sends twice as much as each of three in the other, has a quarter all the same."""
    flows = [Talk(500_000, 1200, dscp=one), *[Talk(1_000_000, 1200, dscp=three)] * 3]
    packets = talk(shaped("twin_codel_af target 4s interval 4s"), flows, tmp_path, 1)
    busy = packets.filter((pl.col("t_s") * 1e6 + pl.col("delay_us")).is_between(0.2e6, 0.9e6))
    shares = busy.group_by("talk").len().sort("talk")["len"] / len(busy)
    assert shares.to_list() == pytest.approx([0.25] * 4, abs=0.01)


# Where each flow has its own BLUE, none of it waits for four intervals: it would be dropped.
@pytest.mark.parametrize(
    ("kind", "words", "seconds", "every_ns", "packets"),
    first(
        1,
        [
            ("cnq_cobalt", "interval 1us", 3, 20_000_000, 80_000 // 145),
            *((kind, "interval 5ms limit 500", 4, 1_000_000, 45) for kind in OWN_AQM),
        ],
    ),
)
def test_a_queue_that_signals_without_end_goes_on(
    tmp_path: Path, kind: str, words: str, seconds: int, every_ns: int, packets: int
) -> None:
    """More signals than CoDel counts (2^16), an interval and less from the last, to a sender that hears of none."""
    queue = f"{kind} bandwidth 400mbit target 1us {words}"
    (marked,) = sent_through(queue, tmp_path, seconds, every_ns, packets * 1200, "ce")
    assert marked > 1 << 16


@pytest.mark.parametrize("kind", first(1, OWN_AQM))
def test_blue_drops_of_a_flow_that_waits_for_four_intervals(tmp_path: Path, kind: str) -> None:
    """ECN-capable or not: of twice what the link carries BLUE leaves little more than that, and no queue."""
    flows = [Talk(500_000, 1200), Talk(20_000_000, 1200)]
    packets = talk(shaped(f"{kind} interval 10ms limit 10000"), flows, tmp_path, 3).filter(pl.col("t_s") > 2)
    lost = packets.group_by("talk").agg(pl.col("delay_us").null_count() / pl.len()).sort("talk")["delay_us"].to_list()
    assert 0.5 < lost[0] < 0.6 and lost[1] == 0
    assert packets["delay_us"].max() < 5000  # type: ignore[operator]


@pytest.mark.parametrize("control", ["reno-sce", "cubic-sce"])
def test_the_sender_hears_of_each_mark(simulated: Simulated, control: str) -> None:
    """Of all data as much is acknowledged with ESCE as came as ECT(1), within runs by delayed ACKs; and ss shows it."""
    folder = simulated.run(
        "for end in sender receiver; do ip netns exec $end sh -c 'cd /proc/sys/net/ipv4; echo 1 >tcp_ecn; "
        "echo reno-sce >tcp_congestion_control'; done\n"
        + delay(20)
        + bottleneck(1000, "cake bandwidth 20mbit flowblind sce")
        + counted("receiver", "tcp dport 5201 ip ecn ect1", "tcp dport 5201 ip ecn { ect0, ect1, ce }")
        # The bit of the header that was NS, and is AE where accurate ECN is spoken.
        + counted("sender", "tcp sport 5201 @th,103,1 1", "tcp sport 5201 tcp flags & (syn | ack) == ack")
        + flows([control], 10, "sleep 9.5\nip netns exec sender ss -tinH dport 5201 >ss\n")
        + COUNTS.format("receiver")
        + COUNTS.format("sender")
    )
    marked, data = counts(folder, "receiver")
    esce, acks = counts(folder, "sender")
    assert 0.02 < marked / data < 0.6
    assert 0 < esce < acks
    assert 0.5 < acks / data < 0.75, acks / data
    flow = next(line for line in (folder / "ss").read_text().splitlines() if "ab_ecn" in line and "ce_state:1" in line)
    told, of = (int(re.search(rf"{key}:(\d+)", flow)[1]) for key in ("ab_ecn", "ab_tot"))  # type: ignore[index]
    assert told / of == pytest.approx(marked / data, rel=0.05)
    assert json.loads((folder / "flow0").read_text())["end"]["sum_received"]["bits_per_second"] > 18e6


def settings(count: int, seed: int) -> list[str]:
    """Draw tc commands for the queue of the bottleneck, many of them wrong in a value."""
    draw = random.Random(seed)
    number = [0, 1, 2, 7, 1000, 1024, 1025, 2**31 - 1, 2**32 - 1]
    words: dict[str, Sequence[int | str]] = {
        "bandwidth": [f"{n}bit" for n in (0, 8, 9000)] + ["1mbit", "10mbit", "40gbit"],
        "limit": number,
        "target": [f"{n}us" for n in number],
        "interval": [f"{n}us" for n in number],
        "rtt": [f"{n}us" for n in number],
        "memlimit": number,
        "overhead": [-64, 0, 256],
        "mpu": [0, 256],
        "sce-thresh": number,
        "sce-target": [f"{n}us" for n in (*number, 4_000_000)],
        "drop-target": [f"{n}us" for n in (*number, 4_000_000)],
    }
    flags = ["sce", "no-sce", "sce-single", "unlimited"]
    cake = ["flowblind", "triple-isolate", "besteffort", "diffserv8", "nat", "wash", "ack-filter", "ingress", "ptm"]
    cnq = ["bandwidth", "limit", "target", "interval", "sce-thresh"]
    takes = {
        "cake": ["bandwidth", "rtt", "memlimit", "overhead", "mpu", "sce-thresh"],
        "cnq_cobalt": cnq,
        "cnq_codel_af": cnq,
        "lfq_cobalt": cnq,
        "twin_codel_af": cnq,
        "deltic": ["target", "sce-target", "drop-target", "limit"],
    }
    commands = []
    for _ in range(count):
        kind = draw.choice(list(takes))
        chosen = draw.sample(takes[kind], draw.randint(0, len(takes[kind])))
        some = [f"{word} {draw.choice(words[word])}" for word in chosen]
        some += draw.sample(flags + (cake if kind == "cake" else []), draw.randint(0, 3))
        draw.shuffle(some)
        verb = draw.choice(["replace", "change"])
        commands.append(f"qdisc {verb} dev lan parent 1:1 handle 10: {kind} {' '.join(some)}")
    return commands


OPEN = "qdisc replace dev lan parent 1:1 handle 10: pfifo limit 1000"
"""After every other ten settings, so that flows that were starved live on."""


def survives(simulated: Simulated, count: int, seed: int) -> None:
    """Set the queue anew ten times each 20 ms while flows of both kinds and odd packets pass it."""
    commands, at_once = settings(count, seed), 10
    chunks = "".join(
        f"tc -n router -force -batch - >/dev/null 2>&1 <<'END' || true\n{lines}\nEND\nsleep 0.02\n"
        for lines in (
            "\n".join([*commands[n : n + at_once], OPEN][: at_once + n // at_once % 2])
            for n in range(0, count, at_once)
        )
    )
    seconds = count // at_once // 50 + 5
    folder = simulated.run(
        "for end in sender receiver; do ip netns exec $end sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_ecn'; done\n"
        "ip netns exec receiver sh -c 'echo reno-sce >/proc/sys/net/ipv4/tcp_congestion_control'\n"
        + delay(10)
        + bottleneck(20, "cnq_codel_af")
        + flows(
            ["reno-sce", "dctcp-sce", "cubic"],
            seconds,
            "ip netns exec sender ping -q -i 0.01 -s 3000 -w 1000 10.42.1.20 >/dev/null &\npings=$!\n"
            "ip netns exec sender ping -q -i 0.01 -s 0 -Q 1 -w 1000 10.42.1.20 >/dev/null &\nothers=$!\nsleep 1\n"
            f"{chunks}"
            "kill $pings $others\n",
        )
        + "dmesg >dmesg\ntc -n router -s -j qdisc show dev lan >tc\n"
    )
    said = (folder / "dmesg").read_text()
    assert not re.search(r"BUG|WARNING|Oops|Call Trace|use-after-free", said), said[-2000:]
    assert any(queue["handle"] == "10:" for queue in json.loads((folder / "tc").read_text()))
    for n in range(3):
        # Less than the link carries, since many settings let little through.
        seen = json.loads((folder / f"flow{n}").read_text())["intervals"]
        assert sum(second["sum"]["bytes"] for second in seen) > 100_000


@pytest.mark.nightly
def test_random_settings_do_not_end_the_guest(simulated: Simulated) -> None:
    survives(simulated, 300, seed=0)


@pytest.mark.nightly
def test_ten_thousand_random_settings_do_not_end_the_guest(simulated: Simulated) -> None:
    for seed in range(1, 11):
        survives(simulated, 1000, seed)
