# SPDX-License-Identifier: Apache-2.0
"""BBRv3 (hardware/kernel/bbr3): the example test cases of draft-ietf-ccwg-bbr-06, appendix A, by their names.

The file that the kernel compiles runs here in user space, as the congestion control of one connection over one path
(bbr3/path.c). Where a case cannot be run as it is written, its test says why.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from tests.programs.hardware.in_user_space import compiled

HERE = Path(__file__).parent / "bbr3"
SOURCE = FRAGMENTS / "bbr3/tcp_bbr3.c"
NO_STATE, STARTUP, DRAIN, DOWN, CRUISE, REFILL, UP, PROBE_RTT = range(8)
PROBE_BW = (DOWN, CRUISE, REFILL, UP)
INFINITE = 2**32 - 1
OPEN, RECOVERY, LOSS = 0, 3, 4
MBIT = 125_000
MS = 1000
SECOND = 1_000_000
BEGIN = 10 * SECOND  # in path.c
KNOBS = (
    ("rate", "app_rate", "policer_rate"),
    ("rtt_us", "buffer", "loss_ppm", "drop_next", "delay_us", "delay_next", "aggregate_us", "mark_at", "bucket",
     "paused", "seed"),
)  # fmt: skip
VIEW = (
    ("now_us", "pacing_rate", "bw", "max_bw", "bw_latest", "bw_shortterm", "undo_bw_shortterm", "full_bw",
     "bw_probe_wait_us", "cycle_stamp", "sent", "dropped", "delivered", "lost", "rtos", "undone"),
    ("state", "undo_state", "ca_state", "pacing_gain", "cwnd_gain", "cwnd", "inflight", "queue", "inflight_shortterm",
     "inflight_longterm", "undo_inflight_shortterm", "undo_inflight_longterm", "inflight_latest", "min_rtt",
     "full_bw_now", "full_bw_reached", "full_bw_count", "round_count", "drain_start_round", "extra_acked",
     "idle_restart", "prev_probe_too_high", "prev_probe_precautionary", "probe_up_acked_per_inc", "app_limited", "bdp",
     "inflight_with_headroom", "inflight_of_bdp", "rounds_since_probe_up", "is_cwnd_limited", "rtt_us"),
)  # fmt: skip


def structure(words: tuple[tuple[str, ...], tuple[str, ...]]) -> type[ctypes.Structure]:
    """Return a C structure of 64-bit and then 32-bit words."""
    fields = [
        (name, size) for names, size in zip(words, (ctypes.c_uint64, ctypes.c_uint32), strict=True) for name in names
    ]
    return type("Words", (ctypes.Structure,), {"_fields_": fields})


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("bbr3") / "path.so"
    options = "-Wno-unused-function", f"-I{HERE / 'include'}", f'-DTCP_BBR3="{SOURCE}"'
    return compiled(HERE / "path.c", made, *options)


class Connection:
    """A connection that has just sent its first packets."""

    def __init__(self, library: ctypes.CDLL, **knobs: int) -> None:
        self._library = library
        self.path: Any = structure(KNOBS).in_dll(library, "path")
        self.seen: Any = structure(VIEW).in_dll(library, "seen")
        library.path_run.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_bool]
        library.path_run.restype = ctypes.c_bool
        settings = {"rate": 50 * MBIT, "rtt_us": 20 * MS, "buffer": 10_000, "seed": 1}
        for name in (*KNOBS[0], *KNOBS[1]):
            setattr(self.path, name, (settings | knobs).get(name, 0))
        library.path_begin()

    def run(self, seconds: float) -> None:
        """Run for this long."""
        self._library.path_run(round(self.seen.now_us + seconds * SECOND), 0, False)

    def until(self, *states: int, within: float = 10) -> None:
        """Run until one of these states is entered; fail if none is within this many seconds."""
        bits = sum(1 << state for state in states)
        end = round(self.seen.now_us + within * SECOND)
        assert self._library.path_run(end, bits, False), f"no state of {states} in {within} s, but {self.seen.state}"

    def rounds(self, seconds: float) -> Iterator[Any]:
        """Yield what is seen at the end of each round, and at each change of state, for this long."""
        end = round(self.seen.now_us + seconds * SECOND)
        while self._library.path_run(end, 0xFF, True):
            yield self.seen

    def states(self, seconds: float) -> list[int]:
        """Return the states that are entered in this time."""
        end, entered = round(self.seen.now_us + seconds * SECOND), []
        while self._library.path_run(end, 0xFF, False):
            entered.append(self.seen.state)
        return entered

    def resume(self) -> None:
        """Let a paused application write again."""
        self._library.path_resume()

    def expire_probe_rtt(self) -> None:
        """Make ProbeRTT due now."""
        self._library.path_expire_probe_rtt()

    def goodput(self, seconds: float) -> float:
        """Run for this long and return the share of the link that was delivered."""
        before = self.seen.delivered
        self.run(seconds)
        return (self.seen.delivered - before) * 1000 / (self.path.rate * seconds)


@pytest.fixture
def start(library: ctypes.CDLL) -> Any:
    return lambda **knobs: Connection(library, **knobs)


def test_exiting_startup_on_bandwidth_plateau(start: Any) -> None:
    connection = start()
    seen = connection.seen
    assert seen.state == STARTUP and seen.pacing_gain == 277 and seen.cwnd_gain == 200
    grown = []
    for now in connection.rounds(2):
        assert not now.app_limited
        if now.state == DRAIN:
            break
        grown.append((now.full_bw_count, now.full_bw))
    assert seen.state == DRAIN and seen.full_bw_now and seen.full_bw_reached and seen.full_bw_count == 3
    assert [count for count, _ in grown[-3:]] == [0, 1, 2] and len({baseline for _, baseline in grown[-3:]}) == 1
    assert seen.max_bw == pytest.approx(50 * MBIT, rel=0.02) and not seen.lost


def test_exiting_startup_on_loss_when_application_limited(start: Any) -> None:
    connection = start(app_rate=40 * MBIT)
    connection.run(1)
    seen = connection.seen
    assert seen.state == STARTUP and seen.app_limited
    counted = seen.full_bw_count
    connection.path.loss_ppm = 150_000
    connection.until(DRAIN, *PROBE_BW, within=1)  # so little is in flight that Drain is over at once
    assert seen.ca_state == RECOVERY and seen.app_limited
    assert seen.full_bw_now and seen.full_bw_reached and seen.full_bw_count == counted < 3
    assert seen.inflight_longterm >= seen.bdp and seen.undo_state == STARTUP


@pytest.mark.parametrize("lost", [5, 6])
def test_fewer_than_six_lost_ranges_or_two_percent_do_not_end_startup(start: Any, lost: int) -> None:
    connection = start(app_rate=40 * MBIT)
    connection.run(1)
    for _ in range(lost):
        connection.path.drop_next = 1
        connection.run(0.0015)
    states = connection.states(0.1)
    assert bool(states) == (lost >= 6), states


def test_exiting_drain_based_on_inflight(start: Any) -> None:
    connection = start()
    connection.until(DRAIN)
    seen = connection.seen
    assert seen.pacing_gain == 50 and seen.inflight > seen.inflight_of_bdp
    for now in connection.rounds(1):
        if now.state in PROBE_BW:
            break
        assert now.inflight > now.inflight_of_bdp
    assert seen.state in PROBE_BW and seen.inflight <= seen.inflight_of_bdp
    assert seen.round_count <= seen.drain_start_round + 3


def test_exiting_drain_based_on_time(start: Any) -> None:
    """The draft lowers the bandwidth by 10 %, but at a pacing gain of 0.5 the queue then drains in time."""
    connection = start()
    connection.until(DRAIN)
    connection.path.rate = 20 * MBIT
    seen = connection.seen
    connection.until(*PROBE_BW, within=2)
    assert seen.inflight > seen.inflight_of_bdp and seen.round_count == seen.drain_start_round + 4


def test_exiting_probe_up_on_bandwidth_plateau(start: Any) -> None:
    connection = start()
    connection.until(UP)
    seen = connection.seen
    assert seen.pacing_gain == 125 and seen.cwnd_gain == 225
    entered = seen.round_count
    connection.until(DOWN, within=1)
    assert seen.full_bw_now and seen.full_bw_count == 3 and seen.round_count >= entered + 3
    assert not seen.lost and not seen.prev_probe_too_high


def test_exiting_probe_up_on_loss_when_application_limited(start: Any) -> None:
    """The draft's case wants inflight_longterm updated, its pseudocode (5.5.10.2) not if the sample is app-limited."""
    connection = start()
    connection.until(UP)
    seen = connection.seen
    connection.path.app_rate = 20 * MBIT
    connection.run(0.1)
    assert seen.state == UP and seen.app_limited and not seen.full_bw_now
    connection.path.loss_ppm = 100_000
    connection.until(DOWN, CRUISE, within=0.2)  # there is no queue to drain
    assert seen.prev_probe_too_high and not seen.full_bw_now
    assert seen.inflight_longterm == INFINITE and seen.undo_state == UP


@pytest.mark.parametrize("state", [STARTUP, UP])
def test_never_exiting_probe_up_or_startup_when_application_limited_with_no_loss(start: Any, state: int) -> None:
    """For as long as no ProbeRTT is due."""
    connection = start(app_rate=10 * MBIT if state == STARTUP else 0)
    if state == UP:
        connection.until(UP)
        connection.path.app_rate = 10 * MBIT
    assert connection.states(3.0) == [] and connection.seen.state == state and connection.seen.app_limited


def test_exiting_probe_down_on_inflight(start: Any) -> None:
    connection = start(buffer=125)  # Startup's losses set inflight_longterm
    connection.until(UP)
    connection.until(DOWN)
    seen = connection.seen
    assert seen.pacing_gain == 90 and seen.inflight > seen.inflight_of_bdp and seen.inflight_longterm < INFINITE
    connection.until(CRUISE, within=1)
    assert seen.inflight <= min(seen.inflight_with_headroom, seen.inflight_of_bdp)
    assert seen.inflight_with_headroom == seen.inflight_longterm - seen.inflight_longterm * 15 // 100


def test_exiting_probe_down_after_max_time(start: Any) -> None:
    """A seed is chosen whose wait ends before ProbeRTT is due, and a path on which 63 rounds take longer."""
    for seed in range(100):
        connection = start(rtt_us=40 * MS, seed=seed)
        connection.until(UP)
        connection.until(DOWN)
        if connection.seen.now_us + connection.seen.bw_probe_wait_us < BEGIN + 4.9 * SECOND:
            break
    seen, entered = connection.seen, connection.seen.now_us
    connection.path.rate = 45 * MBIT
    wait = seen.bw_probe_wait_us
    assert connection.states(wait / SECOND - 0.01) == [], "not even Cruise"
    connection.until(REFILL, within=0.1)
    assert seen.inflight > seen.inflight_of_bdp
    assert wait < seen.now_us - entered < wait + 1 * MS and seen.rounds_since_probe_up < 63


def test_entering_and_exiting_probe_rtt(start: Any) -> None:
    connection = start()
    connection.until(*PROBE_BW)
    seen = connection.seen
    connection.until(PROBE_RTT, within=6)
    assert seen.now_us - BEGIN == pytest.approx(5 * SECOND, rel=0.01)
    assert seen.cwnd_gain == 50 and seen.pacing_gain == 100
    entered, rounds = seen.now_us, seen.round_count
    connection.run(0.1)
    assert seen.state == PROBE_RTT and seen.cwnd == (seen.bdp + 1) // 2 >= seen.inflight
    connection.until(*PROBE_BW, within=1)
    assert 200 * MS < seen.now_us - entered < 300 * MS and seen.round_count > rounds and seen.full_bw_reached
    assert seen.cwnd > seen.bdp and connection.goodput(0.5) > 0.95


def test_skipping_probe_rtt_due_to_application_limited_sending(start: Any) -> None:
    connection = start()
    connection.until(*PROBE_BW)
    connection.path.paused = 1
    connection.run(6)
    seen = connection.seen
    assert seen.inflight == 0 and seen.state != PROBE_RTT
    connection.resume()
    assert seen.idle_restart and seen.pacing_rate == seen.bw * 99 // 100
    assert PROBE_RTT not in connection.states(4) and not seen.idle_restart


def test_achieving_expected_startup_bandwidth_on_a_link_with_aggregation(start: Any) -> None:
    connection = start(rtt_us=40 * MS, aggregate_us=20 * MS)
    seen = connection.seen
    most = 0
    for now in connection.rounds(3):
        if now.state != STARTUP:
            break
        most = max(most, now.cwnd)
        bdp, extra = now.bdp, now.extra_acked
    assert seen.full_bw_reached and seen.max_bw == pytest.approx(50 * MBIT, rel=0.05)
    assert extra > 20 and most > 2 * bdp


def test_achieving_expected_cruise_bandwidth_on_a_link_with_aggregation(start: Any) -> None:
    connection = start()
    connection.until(CRUISE)
    seen = connection.seen
    connection.path.aggregate_us = 20 * MS
    before = seen.extra_acked
    rounds = seen.round_count
    connection.run(0.3)
    assert before < 10 < 60 < seen.extra_acked <= 125, "20 ms of 50 Mbit/s are 125 packets"
    assert seen.state == CRUISE and seen.cwnd >= 2 * seen.bdp + seen.extra_acked - 1 and seen.round_count > rounds + 5
    assert connection.goodput(0.5) > 0.95
    connection.path.aggregate_us = 0
    connection.run(3)
    assert seen.extra_acked < 20, "forgotten after ExtraAckedFilterLen rounds"


def test_correctly_managing_sub_packet_bdps(start: Any) -> None:
    connection = start(rate=64_000 // 8, rtt_us=10 * MS)
    connection.until(*PROBE_BW, within=60)
    seen = connection.seen
    floor, cruising = [], []
    for now in connection.rounds(30):
        floor.append(now.cwnd)
        if now.state == CRUISE:
            cruising.append(now.pacing_rate)
    assert min(floor) >= 4 >= seen.bdp
    assert cruising and max(cruising) == pytest.approx(64_000 // 8 * 0.99, rel=0.02)
    assert connection.goodput(30) > 0.97


def test_increasing_bandwidth_10x_and_ensuring_full_bandwidth_is_reached(start: Any) -> None:
    connection = start(rate=10 * MBIT, buffer=25)
    connection.until(CRUISE)
    seen = connection.seen
    assert seen.inflight_longterm < INFINITE
    connection.path.rate, connection.path.buffer = 100 * MBIT, 250
    steps: list[int] = []
    rounds_up, started = 0, seen.now_us
    for now in connection.rounds(20):
        if now.state == UP:
            rounds_up += 1
            steps.append(now.probe_up_acked_per_inc)
        elif steps and now.max_bw < 95 * MBIT:
            assert sorted(steps, reverse=True) == steps, "a packet more for ever fewer acknowledged"
            steps.clear()
        if now.max_bw >= 95 * MBIT:
            break
    assert seen.max_bw >= 95 * MBIT and rounds_up <= 30, "O(log2(250 packets)), over a few probes"
    assert seen.now_us - started < 12 * SECOND
    assert connection.goodput(5) > 0.9


def test_the_step_of_inflight_longterm_doubles_each_round(start: Any, library: ctypes.CDLL) -> None:
    connection = start(rate=10 * MBIT, buffer=25)
    connection.until(CRUISE)
    connection.path.rate, connection.path.buffer = 100 * MBIT, 1000
    limited: list[tuple[int, int, int]] = []
    for now in connection.rounds(8):
        if now.state == UP and now.is_cwnd_limited and now.cwnd >= now.inflight_longterm:
            limited.append((now.cwnd, now.probe_up_acked_per_inc, now.inflight_longterm))
        elif len(limited) > 4:
            break
    growth = [cwnd / per_packet for cwnd, per_packet, _ in limited]
    assert len(growth) > 4
    assert all(after / before == pytest.approx(2, rel=0.1) for before, after in pairwise(growth[:4])), growth


def test_decreasing_bandwidth_10x_and_ensuring_max_bandwidth_adapts_down(start: Any) -> None:
    connection = start(rate=100 * MBIT, buffer=250)
    connection.until(CRUISE)
    connection.path.rate = 10 * MBIT
    seen = connection.seen
    connection.run(1.2)  # six rounds, of a queue of 200 ms
    assert seen.lost and seen.bw_shortterm < 35 * MBIT
    cycles = 0
    while seen.max_bw > 11 * MBIT and cycles < 10:
        connection.until(DOWN, within=20)
        connection.run(1.5)
        cycles += 1
    assert cycles <= 4 and seen.max_bw == pytest.approx(10 * MBIT, rel=0.05)
    assert connection.goodput(10) > 0.9


def test_handling_token_bucket_policers(start: Any) -> None:
    connection = start(rate=1000 * MBIT, policer_rate=20 * MBIT, bucket=100)
    connection.until(*PROBE_BW, within=10)
    seen = connection.seen
    bounds = [now.bw_shortterm for now in connection.rounds(5) if now.state in (DOWN, CRUISE)]
    assert min(bounds) < 25 * MBIT, "the bucket's rate, not the link's"
    before = (seen.sent, seen.dropped, seen.delivered)
    connection.run(20)
    sent, dropped, delivered = (
        now - then for now, then in zip((seen.sent, seen.dropped, seen.delivered), before, strict=True)
    )
    assert delivered * 1000 / 20 == pytest.approx(20 * MBIT, rel=0.15)
    assert dropped / sent < 0.03


def spurious(connection: Connection, delay_us: int, packets: int) -> dict[str, int]:
    """Delay packets in ProbeBW_UP so that they are taken for lost; return what was saved at that time."""
    connection.until(UP)
    seen = connection.seen
    before = {name: getattr(seen, name) for name in ("bw_shortterm", "inflight_shortterm", "inflight_longterm")}
    connection.path.delay_us, connection.path.delay_next = delay_us, packets
    connection.until(DOWN, within=1)
    assert seen.ca_state in (OPEN, RECOVERY, LOSS) and seen.undo_state == UP
    assert {name: getattr(seen, f"undo_{name}") for name in before} == before
    return before


def test_handling_spurious_fast_recovery(start: Any) -> None:
    connection = start()
    before = spurious(connection, 15 * MS, 8)
    seen = connection.seen
    assert seen.inflight_longterm < INFINITE
    connection.until(REFILL, within=0.1)
    assert seen.undone == 1 and seen.ca_state == OPEN and not seen.rtos
    assert {name: getattr(seen, name) for name in before} == before and seen.cwnd > seen.bdp
    connection.until(UP, within=0.1)


def test_handling_spurious_rto_recovery(start: Any) -> None:
    connection = start()
    before = spurious(connection, 400 * MS, 100_000)
    seen = connection.seen
    assert seen.rtos == 1
    connection.run(0.03)
    connection.path.delay_next = 0
    connection.until(REFILL, within=1)
    assert seen.undone == 1 and {name: getattr(seen, name) for name in before} == before and seen.cwnd > seen.bdp
    connection.until(UP, within=1)


def test_entering_and_exiting_probe_rtt_during_startup(start: Any) -> None:
    connection = start(rate=1000 * MBIT, rtt_us=100 * MS)
    connection.run(0.35)
    seen = connection.seen
    assert seen.state == STARTUP and not seen.full_bw_reached
    connection.expire_probe_rtt()
    connection.until(PROBE_RTT, within=0.1)
    connection.until(STARTUP, within=1)
    assert not seen.full_bw_reached and seen.pacing_gain == 277
    connection.until(DRAIN, within=3)
    assert seen.max_bw == pytest.approx(1000 * MBIT, rel=0.02)


def test_handling_loss_during_probe_up_after_inflight_longterm_is_set(start: Any) -> None:
    connection = start(buffer=125)
    connection.until(UP)
    seen = connection.seen
    before, target = seen.inflight_longterm, min(seen.bdp, seen.cwnd)
    assert before < INFINITE
    connection.run(0.03)
    connection.path.drop_next = 10
    connection.until(DOWN, within=0.2)
    assert seen.prev_probe_too_high and not seen.full_bw_now
    assert target * 70 // 100 <= seen.inflight_longterm < before


def test_handling_application_limited_sending_during_probe_refill(start: Any) -> None:
    connection = start()
    connection.until(REFILL)
    seen = connection.seen
    before = seen.max_bw
    connection.path.app_rate = 2 * MBIT
    connection.until(UP, within=0.2)
    assert seen.app_limited and seen.max_bw == before
    connection.path.app_rate = 0
    connection.until(DOWN, within=1)
    assert seen.max_bw == pytest.approx(before, rel=0.02)


def test_the_bandwidth_probe_after_one_that_lost_too_much_is_precautionary(start: Any) -> None:
    """5.3.3.4.2: it ends when inflight reaches inflight_longterm; if nothing is lost, another follows at once."""
    connection = start(buffer=60)
    connection.until(UP)
    connection.until(DOWN)
    seen = connection.seen
    assert seen.prev_probe_too_high
    connection.path.buffer = 120
    connection.until(UP)
    connection.until(DOWN)
    assert seen.prev_probe_precautionary and not seen.prev_probe_too_high and not seen.full_bw_now
    assert seen.inflight >= seen.inflight_longterm - 1
    connection.until(REFILL, CRUISE, within=1)
    assert seen.state == REFILL


def test_a_ce_mark_counts_as_a_loss(start: Any) -> None:
    """Section 3.6: a sender of ECT MUST treat CE as congestion."""
    connection = start(mark_at=30)
    seen = connection.seen
    connection.until(UP)
    connection.until(DOWN)
    assert not seen.dropped and seen.prev_probe_too_high and not seen.full_bw_now
    assert seen.inflight_longterm < seen.bdp + 60


@pytest.mark.parametrize(
    ("tx_in_flight", "lost", "size", "at_loss"),
    [
        (100, 3, 1, 99),  # two lost before: 2 % of 99 are passed already
        (100, 1, 1, 99 + 2),  # (0.02 · 99 - 0) / 0.98 of the one packet and beyond: 2.02
        (1000, 30, 30, 970 + 19),  # (0.02 · 970 - 0) / 0.98 = 19.8 of a burst of 30
        (10, 10, 10, 0),
    ],
)
def test_the_inflight_at_which_losses_crossed_the_threshold(
    library: ctypes.CDLL, tx_in_flight: int, lost: int, size: int, at_loss: int
) -> None:
    """InflightAtLoss() of 5.5.10.2."""
    assert library.path_inflight_at_loss(tx_in_flight, lost, size) == at_loss


@pytest.mark.parametrize("buffer", [31, 62, 125, 250])
def test_a_probe_loses_at_most_two_percent_of_a_round(start: Any, buffer: int) -> None:
    """LossThresh, over the rounds from the first of a probe to the end of its feedback; Startup has no such bound."""
    connection = start(buffer=buffer)
    connection.until(CRUISE)
    seen = connection.seen
    rates = []
    for _ in range(8):
        connection.until(REFILL, within=10)
        before = (seen.sent, seen.dropped)
        connection.until(DOWN, within=2)
        connection.run(0.05)
        rates.append((seen.dropped - before[1]) / (seen.sent - before[0]))
    assert sum(rates) / len(rates) <= 0.02, rates


def test_probe_rtt_costs_at_most_two_and_a_half_percent(start: Any) -> None:
    """5.3.4.2: a flow that is alone gets 0.98 of the bandwidth."""
    connection = start()
    connection.until(PROBE_RTT)
    seen = connection.seen
    for _ in range(3):
        began, delivered = seen.now_us, seen.delivered
        connection.until(*PROBE_BW)
        connection.run(0.1)
        missing = (seen.now_us - began) / SECOND * connection.path.rate * 0.99 / 1000 - (seen.delivered - delivered)
        connection.until(PROBE_RTT)
        cycle = (seen.now_us - began) / SECOND * connection.path.rate / 1000
        assert 0.01 < missing / cycle < 0.025
