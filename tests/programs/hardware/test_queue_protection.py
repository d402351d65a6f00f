# SPDX-License-Identifier: Apache-2.0
"""Queue protection (hardware/kernel/queue_protection): the worked numbers of RFC 9957, by section.

The header that the kernel compiles runs here in user space (queue_protection/buckets.c). `approx` of 8 % is where the
RFC's own AGING takes 2^30 ns for a second.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from tests.programs.hardware.in_user_space import compiled

SHIM = Path(__file__).parent / "queue_protection/buckets.c"
HEADER = FRAGMENTS / "queue_protection/queue_protection.h"
NS, US, MS, SECOND = 1, 1000, 1_000_000, 1_000_000_000
MBIT = 1_000_000
GBIT = 1000 * MBIT
BUCKETS, DREGS = 32, 32
CERTAIN = 1 << 31
MTU = 1500
AGING = 2**19  # bytes/s
ROUNDING = 0.08


class Bucket(ctypes.Structure):
    _fields_ = (("flow", ctypes.c_uint32), ("sanctioned", ctypes.c_bool), ("expiry", ctypes.c_uint64))


class Protection(ctypes.Structure):
    _fields_ = (
        ("rate", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("max_th_us", "lg_range", "critical_ql_us", "critical_score_us")),
        ("lg_aging", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("min_th", "max_th", "critical_ql", "critical_product")),
        ("buckets", Bucket * (BUCKETS + 1)),
        ("sanctioned", ctypes.c_uint64),
        ("sanctioned_flows", ctypes.c_uint32),
        ("in_dregs", ctypes.c_uint32),
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("queue-protection") / "buckets.so"
    library = compiled(SHIM, made, f'-DQUEUE_PROTECTION="{HEADER}"')
    library.begin.argtypes = [ctypes.c_uint64]
    library.probability.argtypes, library.probability.restype = [ctypes.c_uint64], ctypes.c_uint32
    library.pick.argtypes, library.pick.restype = [ctypes.c_uint32, ctypes.c_uint64], ctypes.c_uint32
    library.fill.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64]
    library.fill.restype = ctypes.c_uint64
    library.sanctions.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64]
    library.sanctions.restype = ctypes.c_bool
    return library


@pytest.fixture
def queue(library: ctypes.CDLL) -> Any:
    """Queue protection of a link of 1 Gbit/s with the RFC's defaults."""
    library.begin(GBIT)
    return library


def state(library: ctypes.CDLL) -> Any:
    return Protection.in_dll(library, "protection")


def ns(bytes_congested: float, aging: float = AGING) -> float:
    """Return the score in ns of so many congested bytes."""
    return bytes_congested / aging * SECOND


# Section 4.1: input parameters, constants and variables


def test_4_1_defaults_in_their_units(queue: Any) -> None:
    now = state(queue)
    assert (now.max_th_us, now.lg_range, now.critical_score_us, now.lg_aging) == (1000, 19, 4000, 19)
    assert now.max_th - now.min_th == 524288
    assert (now.min_th, now.max_th) == (475_712, 1_000_000)
    assert now.critical_ql == now.max_th == 1 * MS
    assert now.critical_product == 1 * MS * 4 * MS


@pytest.mark.parametrize(
    ("rate", "floor"), [(10 * MBIT, 3_200_000), (50 * MBIT, 640_000), (67 * MBIT, 477_611), (100 * MBIT, 475_712)]
)
def test_4_1_two_frames_are_the_floor_of_the_ramp(library: ctypes.CDLL, rate: int, floor: int) -> None:
    """FLOOR = 2 * 8 * 2000 bytes * 10^9 / MAX_RATE; MAXTH follows MINTH, and CRITICALqL follows MAXTH."""
    library.begin(rate)
    now = state(library)
    assert (now.min_th, now.max_th, now.critical_ql) == (floor, floor + 524_288, floor + 524_288)


def test_4_1_a_critical_delay_that_is_given_does_not_follow(library: ctypes.CDLL) -> None:
    library.begin(10 * MBIT)
    state(library).critical_ql_us = 2000
    library.derive()
    assert state(library).critical_ql == 2 * MS and state(library).critical_product == 2 * MS * 4 * MS


# Section 4.2.4: calcProbNative()


@pytest.mark.parametrize(
    ("delay", "share"),
    [(0, 0), (475_712, 0), (475_712 + 131_072, 0.25), (475_712 + 262_144, 0.5), (999_999, 1), (1 * MS, 1), (SECOND, 1)],
)
def test_4_2_4_the_ramp(queue: Any, delay: int, share: float) -> None:
    assert queue.probability(delay) / CERTAIN == pytest.approx(share, abs=1e-5)
    assert (queue.probability(delay) == CERTAIN) == (delay >= 1 * MS)


# Section 4.2.3: fill_bucket()


def test_4_2_3_the_score_is_congested_bytes_over_aging(queue: Any) -> None:
    assert queue.fill(1, MTU, CERTAIN, SECOND) == MTU * 2**30 // AGING == 3_072_000
    assert queue.fill(2, MTU, CERTAIN // 2, SECOND) == 1_536_000
    assert queue.fill(3, MTU, 0, SECOND) == 0
    assert pytest.approx(ns(MTU), rel=ROUNDING) == 3_072_000


def test_4_2_3_the_score_ages_by_itself_as_time_passes(queue: Any) -> None:
    queue.fill(1, MTU, CERTAIN, SECOND)
    assert queue.fill(1, 0, 0, SECOND + 1 * MS) == 2_072_000
    assert queue.fill(1, MTU, CERTAIN, SECOND + 2 * MS) == 1_072_000 + 3_072_000
    assert queue.fill(1, 0, 0, SECOND + 10 * MS) == 0


def test_4_2_3_a_score_is_at_most_5_s_and_is_then_sanctioned_at_any_delay(queue: Any) -> None:
    for _ in range(2000):
        queue.fill(1, MTU, CERTAIN, SECOND)
    assert queue.fill(1, MTU, CERTAIN, SECOND) == 5 * SECOND
    assert queue.fill(1, 0, 0, SECOND) == 5 * SECOND
    assert queue.sanctions(1, MTU, 0, SECOND)
    assert not queue.sanctions(1, MTU, 0, SECOND + 1)


# Section 4.2.2: pick_bucket()


def hashed(first: int, second: int = 0, more: int = 1) -> int:
    """Return a flow's hash whose two attempts are these buckets."""
    return more << 10 | second << 5 | first


def test_4_2_2_a_flow_keeps_its_bucket_while_it_lives(queue: Any) -> None:
    a, b = hashed(3, 4, more=1), hashed(3, 5, more=2)
    assert queue.pick(a, SECOND) == 3
    queue.fill(a, MTU, CERTAIN, SECOND)
    assert queue.pick(b, SECOND) == 5, "another flow's live bucket is not taken"
    queue.fill(b, MTU, CERTAIN, SECOND)
    assert (queue.pick(a, SECOND + MS), queue.pick(b, SECOND + MS)) == (3, 5)
    assert queue.fill(a, 0, 0, SECOND + MS) == 2_072_000


def test_4_2_2_its_own_bucket_is_found_before_an_expired_one_is_recycled(queue: Any) -> None:
    a, b = hashed(3, 9, more=1), hashed(3, 5, more=2)
    queue.fill(a, MTU, CERTAIN, SECOND)
    queue.fill(b, 3 * MTU, CERTAIN, SECOND)
    now = SECOND + 5 * MS
    assert state(queue).buckets[3].expiry <= now < state(queue).buckets[5].expiry
    assert queue.pick(b, now) == 5


def test_4_2_2_an_expired_bucket_is_recycled_and_reset(queue: Any) -> None:
    a, b = hashed(3, 9, more=1), hashed(3, 5, more=2)
    queue.fill(a, MTU, CERTAIN, SECOND)
    now = SECOND + 4 * MS
    assert queue.pick(b, now) == 3
    assert queue.fill(b, 0, 0, now) == 0
    assert state(queue).buckets[3].flow == b


def test_4_2_2_flows_without_a_bucket_share_the_dregs_and_their_score(queue: Any) -> None:
    for first in (3, 4):
        queue.fill(hashed(first, first), MTU, CERTAIN, SECOND)
    a, b = hashed(3, 4, more=7), hashed(4, 3, more=8)
    assert queue.fill(a, MTU, CERTAIN, SECOND) == 3_072_000
    assert queue.fill(b, MTU, CERTAIN, SECOND) == 2 * 3_072_000
    assert queue.pick(a, SECOND) == queue.pick(b, SECOND) == DREGS
    assert state(queue).in_dregs == 4
    later = SECOND + 10 * MS
    assert queue.fill(b, 0, 0, later) == 0


# Sections 4.2.1 and 5.4: qprotect() and the policy conditions


def scored(queue: Any, score: float, at: int = SECOND) -> int:
    """Give a new flow so much score in ns, and return the flow."""
    flow = hashed(1)
    while (left := score - queue.fill(flow, 0, 0, at)) > 4096:
        queue.fill(flow, int(min(left, 3 * MS) * AGING / 2**30), CERTAIN, at)
    return flow


@pytest.mark.parametrize(
    ("region", "critical_us", "delay", "score", "ejected"),
    [
        ("N: no harm, whatever the record", 2000, 2 * MS, 1000 * MS, False),
        ("N: no harm, good record", 2000, 1 * MS, 0, False),
        ("E: at the threshold of the score", 2000, 2 * MS + 1, 4.01 * MS, True),
        ("P: below the threshold of the score", 2000, 2 * MS + 1, 3.99 * MS, False),
        ("E: half the score suffices at twice the delay", 2000, 4 * MS, 2.01 * MS, True),
        ("P: less than half does not", 2000, 4 * MS, 1.99 * MS, False),
        ("E: a tenth suffices at ten times the delay", 2000, 20 * MS, 0.41 * MS, True),
        ("P: the bar is not below that", 2000, 20 * MS, 0.39 * MS, False),
        ("E: CRITICALqL as MAXTH is by default", 0, 1 * MS + 1, 4.01 * MS, True),
        ("P: and the score below it", 0, 1 * MS + 1, 3.99 * MS, False),
    ],
)
def test_5_4_figure_4_the_regions_of_harm_and_behaviour_record(
    queue: Any, region: str, critical_us: int, delay: int, score: float, ejected: bool
) -> None:
    state(queue).critical_ql_us = critical_us
    queue.derive()
    flow = scored(queue, score)
    # A packet without bytes adds nothing to the score.
    assert queue.sanctions(flow, 0, delay, SECOND) == ejected, region
    assert (state(queue).sanctioned, state(queue).sanctioned_flows) == (ejected, ejected)


def test_5_4_the_lower_end_of_the_ramp_as_threshold_about_doubles_the_ratio(queue: Any) -> None:
    whole = state(queue).critical_product
    state(queue).critical_ql_us = 476
    queue.derive()
    assert whole / state(queue).critical_product == pytest.approx(2, rel=0.06)


def test_a_flow_is_counted_once_while_it_has_its_bucket(queue: Any) -> None:
    for flow in (hashed(1), hashed(2)):
        assert [queue.sanctions(flow, MTU, 10 * MS, SECOND) for _ in range(3)] == [True] * 3
    assert (state(queue).sanctioned, state(queue).sanctioned_flows) == (6, 2)
    # Another flow in the first one's bucket, and that flow again.
    queue.sanctions(hashed(1, 1, more=5), MTU, 10 * MS, 2 * SECOND)
    queue.sanctions(hashed(1), MTU, 10 * MS, 3 * SECOND)
    assert (state(queue).sanctioned, state(queue).sanctioned_flows) == (8, 4)


# Section 3: necessary flow behaviour


def at_rate(queue: Any, flow: int, bps: float, delay: int, seconds: float) -> Iterator[bool]:
    """Send packets of 1500 bytes evenly at a constant queuing delay; yield whether each is sanctioned."""
    gap = MTU * 8 / bps * SECOND
    for n in range(round(seconds * SECOND / gap)):
        yield queue.sanctions(flow, MTU, delay, round(SECOND + n * gap))


def delay_of(share: float) -> int:
    """Return the delay at which the ramp of a fast link gives this share."""
    return round(475_712 + share * 524_288)


def test_3_aging_is_about_4_mbit(queue: Any) -> None:
    """A congestion-rate up to AGING, 2^19 bytes/s, is not held against a flow in the long run."""
    assert pytest.approx(4e6, rel=0.05) == AGING * 8
    for congested, grows in ((3.8e6, False), (4.2e6, True)):
        queue.begin(GBIT)
        state(queue).critical_ql_us = 1  # every delay counts
        queue.derive()
        flow, share = hashed(1), 0.5
        list(at_rate(queue, flow, congested / share, delay_of(share), seconds=30))
        last = round(SECOND + 30 * SECOND)
        assert (queue.fill(flow, 0, 0, last) > 100 * MS) == grows


@pytest.mark.parametrize(("bps", "share"), [(10e6, 0.1), (100e6, 0.01), (400e6, 0.0025)])
def test_3_a_congestion_rate_of_1_mbit_is_not_sanctioned_at_any_bit_rate(queue: Any, bps: float, share: float) -> None:
    """Even with a critical delay that is always exceeded: only the score of single packets is left."""
    state(queue).critical_ql_us = 400
    queue.derive()
    assert not any(at_rate(queue, hashed(1), bps, delay_of(share), seconds=5))


# Section 5.1: blame for queuing, not for rate in itself


def blame(queue: Any, sends: dict[int, float], share: float, seconds: float) -> dict[int, float]:
    """Return the score, without aging, of flows that send at these rates (bit/s) while the ramp gives `share`."""
    return {
        flow: sum(
            queue.fill(flow, MTU, round(share * CERTAIN), SECOND) - before
            for _ in range(round(bps * seconds / 8 / MTU))
            if (before := queue.fill(flow, 0, 0, SECOND)) is not None
        )
        for flow, bps in sends.items()
    }


def test_5_1_figure_1_the_smooth_flow_bears_64_percent_and_the_bursts_36(queue: Any) -> None:
    """80 % and 45 % of the capacity overload it by 25 %: (80/125) and (45/125) of the blame."""
    smooth, bursts = hashed(1), hashed(2)
    scores = blame(queue, {smooth: 0.80 * 100e6, bursts: 0.45 * 100e6}, share=1, seconds=0.05)
    whole = sum(scores.values())
    assert scores[smooth] / whole == pytest.approx(0.64, abs=0.002)
    assert scores[bursts] / whole == pytest.approx(0.36, abs=0.002)


def test_5_1_figure_1_between_bursts_no_flow_is_blamed(queue: Any) -> None:
    assert not any(at_rate(queue, hashed(1), 0.8 * GBIT, 400 * US, seconds=0.1))
    assert queue.fill(hashed(1), 0, 0, 2 * SECOND) == 0


def test_5_1_figure_2_a_probability_of_1_percent_counts_1_percent_of_each_packet(queue: Any) -> None:
    whole = queue.fill(hashed(1), MTU, CERTAIN, SECOND)
    assert queue.fill(hashed(2), MTU, round(0.01 * CERTAIN), SECOND) == pytest.approx(0.01 * whole, rel=0.001)


# Section 5.2: constant aging


@pytest.mark.parametrize(("capacity", "flows"), [(50e6, 1), (100e6, 1), (100e6, 3), (200e6, 3)])
def test_5_2_a_scalable_flow_has_the_same_score_per_round_whatever_capacity_and_flows(
    queue: Any, capacity: float, flows: int
) -> None:
    """Window times probability is constant: two segments are marked per round trip."""
    rtt = 0.02
    window = capacity / flows * rtt / 8 / MTU
    for flow in range(flows):
        score = 0
        for _ in range(round(window)):
            score = queue.fill(hashed(flow + 1), MTU, round(2 / window * CERTAIN), SECOND)
        assert score == pytest.approx(2 * 3_072_000, rel=0.02)
    assert rtt * SECOND > 2 * 3_072_000 * NS, "it ages out within the round trip"


# Section 8.1.1: exhausting flow state storage


def in_dregs(queue: Any, attackers: int, trials: int, draw: random.Random) -> float:
    """Return the share of trials in which an arriving flow finds both of its buckets held by attackers."""
    shared = 0
    for _ in range(trials):
        queue.begin(GBIT)
        for _ in range(attackers):
            queue.fill(draw.getrandbits(32), 64_000, CERTAIN, SECOND)
        shared += queue.pick(draw.getrandbits(32), SECOND) == DREGS
    return shared / trials


def test_8_1_1_about_94_attack_flows_leave_99_percent_of_arriving_flows_the_dregs(queue: Any) -> None:
    draw = random.Random("RFC 9957, 8.1.1")
    assert in_dregs(queue, 94, 4000, draw) == pytest.approx(0.99, abs=0.006)
    assert in_dregs(queue, 47, 1000, draw) < 0.95


@pytest.mark.parametrize(("bps", "holds"), [(3.8e6, False), (4.3e6, True)])
def test_8_1_1_an_attacker_holds_its_bucket_at_the_aging_rate_and_more(queue: Any, bps: float, holds: bool) -> None:
    """At a saturated probability, 4 Mbit/s a flow: 100 flows need more than 400 Mbit/s."""
    flow, other = hashed(1, 1, more=1), hashed(1, 1, more=2)
    gap = MTU * 8 / bps * SECOND
    taken = 0
    for n in range(400):
        now = round(SECOND + n * gap)
        queue.fill(flow, MTU, CERTAIN, now)
        # Another flow comes just before the attacker's next packet.
        taken += queue.pick(other, round(SECOND + (n + 1) * gap) - 1) == 1
        if taken:
            break
    assert (not taken) == holds
    assert 100 * AGING * 8 > 400e6


# What follows for a whole queue


def through_l(queue: Any, rate: int, sends: dict[int, tuple[int, float, int]], seconds: float) -> dict[int, list[bool]]:
    """Return whether each packet of every flow is sanctioned, in an L queue that its link empties at `rate`.

    `sends`: flow → bytes of its packets, s between its bursts, packets of a burst.
    """
    queue.begin(rate)
    arrivals = sorted(
        (n * gap, flow, size)
        for flow, (size, gap, burst) in sends.items()
        for n in range(round(seconds / gap))
        for _ in range(burst)
    )
    before = backlog = 0.0
    seen: dict[int, list[bool]] = {flow: [] for flow in sends}
    for at, flow, size in arrivals:
        backlog = max(0, backlog - (at - before) * rate / 8)
        before = at
        delay = round(backlog * 8 / rate * SECOND)
        seen[flow].append(queue.sanctions(flow, size, delay, round(SECOND + at * SECOND)))
        backlog += 0 if seen[flow][-1] else size
    return seen


GAME, OTHER = hashed(7), hashed(9)
GAMES_PACKETS = (200, 1 / 60, 1)


@pytest.mark.parametrize("rate", [10 * MBIT, 50 * MBIT, 200 * MBIT])
def test_an_overload_is_sanctioned_by_its_excess_at_once_and_a_game_is_not(library: ctypes.CDLL, rate: int) -> None:
    gap = MTU * 8 / (1.2 * rate)
    seen = through_l(library, rate, {GAME: GAMES_PACKETS, OTHER: (MTU, gap, 1)}, seconds=1)
    sanctioned = seen[OTHER]
    assert sanctioned.index(True) * gap < 0.05
    assert sum(sanctioned) / len(sanctioned) == pytest.approx(1 - 1 / 1.2, abs=0.01)
    assert not any(seen[GAME])
    assert state(library).sanctioned_flows == 1


@pytest.mark.parametrize("rate", [10 * MBIT, 50 * MBIT, 200 * MBIT])
def test_a_smooth_flow_below_the_rate_is_not_sanctioned(library: ctypes.CDLL, rate: int) -> None:
    seen = through_l(library, rate, {GAME: GAMES_PACKETS, OTHER: (MTU, MTU * 8 / (0.9 * rate), 1)}, seconds=1)
    assert not any(seen[GAME]) and not any(seen[OTHER])


def test_of_a_burst_the_head_stays_and_the_tail_is_sanctioned(library: ctypes.CDLL) -> None:
    """30 pictures per second of 20 packets, 7 of 10 Mbit/s: below the rate on average, 24 ms at once."""
    seen = through_l(library, 10 * MBIT, {GAME: GAMES_PACKETS, OTHER: (MTU, 1 / 30, 20)}, seconds=2)
    bursts = [seen[OTHER][n : n + 20] for n in range(0, len(seen[OTHER]), 20)]
    for burst in bursts:
        first = burst.index(True)
        assert 3 <= first <= 5 and all(burst[first:]), "the ramp ends at 3.7 ms, which is 3 to 4 packets"
    assert not any(seen[GAME])
