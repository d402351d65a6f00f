# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise
from statistics import median, quantiles

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix.cells.guest import plan
from sojourn.traffic import nstat, recorded_call
from sojourn.traffic.spec import Call, Flow, Probe, RecordedCall, ShortFlows
from tests.unit.harness.matrix.cells.guest.cells import SHAPED, cell


def test_the_senders_of_a_cell_are_paced_as_asked() -> None:
    def hosts(asked: Cell) -> list[str]:
        return [line for line in plan.plan(asked, 1).splitlines() if line.startswith("host ")]

    assert hosts(cell(20_000)) == ["host host0 3", "host receiver 3"]
    assert hosts(cell(20_000, pacing_percent=(100, 40))) == ["host host0 3 100 40", "host receiver 3 100 40"]


def test_the_seed_sets_the_start_order_and_nothing_else() -> None:
    asked = cell(20_000, 20_000, 20_000)
    first, again, other = (plan.starts(asked, seed) for seed in (1, 1, 2))
    assert first == again != other and all(0 <= start <= plan.START_SPREAD_S for start in first + other)
    rest = [[line for line in plan.plan(asked, seed).splitlines() if line[:4] != "flow"] for seed in (1, 2)]
    assert rest[0] == rest[1]


def test_steps_come_in_the_order_of_their_times() -> None:
    hops = [
        Hop(down=SHAPED, schedule=[RateStep(at_s=20, rate_bps=10_000_000), RateStep(at_s=40, rate_bps=50_000_000)]),
        Hop(down=SHAPED, up=SHAPED, schedule_up=[RateStep(at_s=30, rate_bps=5_000_000)]),
    ]
    lines = [line.split() for line in plan.plan(cell(0, hops=hops), 1).splitlines() if line.startswith("step")]
    assert [(line[1], line[2], line[6]) for line in lines] == [
        (f"{t}000000000", hop, dev) for t, hop, dev in ((20, "hop0", "lan"), (30, "hop1", "wan"), (40, "hop0", "lan"))
    ]


def test_short_flows_have_the_lengths_and_gaps_asked_for() -> None:
    asked = ShortFlows(rtt_us=0, count=20_000, mean_gap_s=0.2, p5_bytes=65_536, p95_bytes=2_097_152)
    found = plan.arrivals(asked, seed=1, seconds=1e6)
    cuts = quantiles([size for _, size in found], n=20)
    assert cuts[0] == pytest.approx(65_536, rel=0.05) and cuts[-1] == pytest.approx(2_097_152, rel=0.05)
    gaps = [b - a for (a, _), (b, _) in pairwise(found)]
    assert sum(gaps) / len(gaps) == pytest.approx(0.2e9, rel=0.03)
    assert median(gaps) == pytest.approx(0.2e9 * 0.6931, rel=0.05)
    assert found == plan.arrivals(asked, seed=1, seconds=1e6) != plan.arrivals(asked, seed=2, seconds=1e6)
    assert all(at < 60e9 for at, _ in plan.arrivals(asked, seed=1, seconds=60))


@pytest.mark.parametrize("remember", [False, True])
def test_short_flows_are_fetched_from_the_host_of_their_path(remember: bool) -> None:
    short = ShortFlows(contender="cubic-noecn", rtt_us=40_000, count=3, remember_ssthresh=remember)
    lines = plan.plan(cell(20_000, short_flows=short), 1).splitlines()
    (line,) = (line.split() for line in lines if line.startswith("short"))
    assert line[1:] == ["host1", "receiver", "10.42.2.21", "5100", "cubic", "0", str(int(remember))]
    assert sum(line.startswith("transfer") for line in lines) == 3


@pytest.mark.parametrize("offloads", [False, True])
def test_offloads_stay_only_where_asked(offloads: bool) -> None:
    asked = cell(20_000).model_copy(update={"offloads": offloads})
    lines = [line for line in plan.plan(asked, 1).splitlines() if line.startswith("device")]
    assert lines and all(line.endswith(f" {int(offloads)}") for line in lines)


def test_captures_are_of_the_outermost_devices_and_change_nothing_else() -> None:
    asked = cell(20_000, 80_000)
    captured = [
        "tap receiver eth0 client.pcapng 0 0",
        "tap hop0 wan server.pcapng 0 0",
    ]
    with_captures = plan.plan(asked, 1, pcap=True).splitlines()
    assert [line for line in with_captures if line.startswith("tap")] == captured
    assert [line for line in with_captures if line not in captured] == plan.plan(asked, 1).splitlines()


def test_the_counters_of_every_end_are_kept() -> None:
    lines = plan.plan(cell(20_000, 80_000), 1).splitlines()
    ends = ("host0", "host1", "receiver")
    assert [line for line in lines if line.startswith("counters ")] == [
        f"counters {end} {file}" for end in ends for file in nstat.FILES
    ]


def test_flows_that_are_no_tcp_keep_their_numbers_and_are_tapped_at_both_ends() -> None:
    asked = cell(
        seconds=10,
        per_packet=True,
        flows=[
            Flow(contender="udp-ect1", rtt_us=20_000, rate_bps=12_112_000, start_s=1, stop_s=2),
            Flow(contender="cubic", rtt_us=20_000),
            Flow(contender="quic-cubic", rtt_us=20_000),
        ],
    )
    lines = plan.plan(asked, 1).splitlines()
    udp, tcp, quic = (
        next(line for line in lines if line.startswith(f"{kind} ")) for kind in ("datagrams", "flow", "program")
    )
    assert [lines.index(line) for line in (udp, tcp, quic)] == sorted(lines.index(line) for line in (udp, tcp, quic))
    words = udp.split()
    # 1514 bytes of 8 bit at 12.112 Mbit/s are a millisecond.
    assert words[1:9] == ["host0", "receiver", "10.42.1.20", "5201", "40000", "1", "1472", "1000000"]
    assert words[10] == "2000000000"
    head, sender = quic.split("\t")
    assert head.split()[:4] == ["program", "host0", "receiver", "5203"]
    assert head.endswith(" ./quic-cubic receive 10.42.1.20 5203")
    assert sender == "./quic-cubic send 10.42.1.20 5203 40002 cubic"
    taps = [line.split() for line in lines if line.startswith("tap")]
    assert [tap[1:6] for tap in taps] == [
        ["host0", "eth0", "tap-host0.pcapng", "5201", "5203"],
        ["receiver", "eth0", "tap-receiver.pcapng", "5201", "5203"],
    ]


@pytest.mark.parametrize(
    ("fields", "payload"),
    [
        ({}, 1500 - 28),
        ({"ip_version": 6}, 1500 - 48),
        ({"tunnel": "fou"}, 1472 - 28),  # IP and UDP around it
        ({"tunnel": "wireguard"}, 1420 - 28),
        ({"tunnel": "ipsec"}, 1400 - 28),
    ],
)
def test_no_packet_of_an_unresponsive_flow_is_fragmented(fields: dict[str, object], payload: int) -> None:
    flow = Flow(contender="udp", rtt_us=20_000, rate_bps=12_112_000)
    (line,) = (it for it in plan.plan(cell(flows=[flow], **fields), 1).splitlines() if it.startswith("datagrams "))
    assert line.split()[7:9] == [str(payload), "1000000"]


def test_up_flows_and_probes_go_between_the_right_ends() -> None:
    asked = cell(
        flows=[Flow(contender="dctcp", rtt_us=80_000, start_s=5, stop_s=9, up=True)],
        probes=[Probe(rtt_us=80_000, ecn="ect1", interval_s=0.01)],
        call=Call(bitrate_bps=2_000_000, ecn="ect1", rtt_us=80_000),
    )
    lines = plan.plan(asked, 1).splitlines()
    flow = next(line.split() for line in lines if line.startswith("flow"))
    assert flow[1:8] == ["receiver", "host0", "10.42.2.20", "5201", "40000", "dctcp", "1"] and flow[9] == "9000000000"
    assert next(line for line in lines if line.startswith("probe")).startswith(
        "probe host0 receiver 10.42.1.20 2200 1 "
    )
    down, up = talks(lines)
    assert down[0][:6] == ["host0", "receiver", "10.42.1.20", "5150", "1", "0"]
    assert up[0][:3] == ["receiver", "host0", "10.42.2.20"]
    # 2 Mbit/s in 30 frames a second for 60 s; the first is a key frame.
    assert sum(packets * size for _, packets, size in down[1]) == pytest.approx(2e6 / 8 * 60, rel=1e-3)
    assert len({at for at, *_ in down[1]}) == 1800 and down[1][0][1:] == (54, 1200)


Talk = tuple[list[str], list[tuple[int, int, int]]]


def talks(lines: list[str]) -> list[Talk]:
    """The talks of a plan: words of its line, and (ns, packets, bytes) of its bursts."""
    found: list[Talk] = []
    for word, *rest in map(str.split, lines):
        if word == "talk":
            found.append((rest, []))
        elif word == "burst":
            at, packets, size = map(int, rest)
            found[-1][1].append((at, packets, size))
    return found


def test_a_recorded_call_is_replayed_both_ways_from_a_place_that_the_seed_chooses() -> None:
    call = RecordedCall(ecn="ect1", ecn_above_bytes=1024, rtt_us=80_000)
    (words, down), (_, up) = talks(plan.plan(cell(call=call), 1).splitlines())
    assert words[4:] == ["1", "996"]  # above 1024 bytes with the IP header are those of more than 996 of payload
    ways = [recorded_call.replay(way, 60) for way in ("down", "up")]
    assert all(0 <= at < 60e9 for at, *_ in (*down, *up)) and down == sorted(down, key=lambda burst: burst[0])
    assert [len(down), len(up)] == pytest.approx([len([*way]) for way in ways], rel=0.1)
    assert talks(plan.plan(cell(call=call), 2).splitlines()) != [(words, down), (_, up)]
    slow = call.model_copy(update={"bitrate_bps": recorded_call.BITRATE_BPS // 2})
    (_, half), _ = talks(plan.plan(cell(call=slow), 1).splitlines())
    assert half[:20] == [(pytest.approx(2 * at, abs=10), packets, size) for at, packets, size in down[:20]]


def test_the_size_above_which_a_recorded_call_is_marked_includes_the_header_of_either_ip_version() -> None:
    call = RecordedCall(ecn="ect1", ecn_above_bytes=1024, rtt_us=80_000)
    (words, _), _ = talks(plan.plan(cell(call=call, ip_version=6), 1).splitlines())
    assert words[5] == str(1024 - 48)


def test_a_paced_flow_and_the_senders_own_queue_are_planned() -> None:
    flow = Flow(contender="cubic", rtt_us=0, pacing_bps=40_000_000)
    asked = cell(flows=[flow, Flow(contender="cubic", rtt_us=0)], sender_queue="fq")
    lines = plan.plan(asked, 1).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("flow"))
    assert lines[at + 1] == "pace 5000000" and sum(line.startswith("pace") for line in lines) == 1
    assert "tc host0 qdisc add dev eth0 root handle 1: fq" in lines
    with pytest.raises(ValueError, match="sender_queue"):
        cell(20_000, sender_queue="fq")
