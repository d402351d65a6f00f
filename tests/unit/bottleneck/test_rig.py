# SPDX-License-Identifier: Apache-2.0
"""A seed stands for a rig: what it draws, how a cell and a bottleneck follow it, and what stays exact."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.rig import BUNCHING_US, EXACT, RTT_SHARE, Rig, coverage, draw
from sojourn.bottleneck.spec import Bottleneck, Direction, Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.guest import queues
from sojourn.traffic.spec import Call, Probe, ShortFlows


def cell(**fields: object) -> Cell:
    given = {"flows": dumbbell.flows(("prague", "cubic"), (20, 80)), "hops": (dumbbell.bottleneck(20, "dualpi2"),)}
    return Cell(name="c", seconds=40, **given | fields)  # type: ignore[arg-type]


def test_consecutive_seeds_spread_evenly_over_the_range() -> None:
    for first in (1, 7, 100):
        factors = sorted(draw(seed).rtt_factor for seed in range(first, first + 8))
        assert 1 - RTT_SHARE <= factors[0] < 1 - RTT_SHARE / 2 and 1 + RTT_SHARE / 2 < factors[-1] <= 1 + RTT_SHARE
        assert max(b - a for a, b in pairwise(factors)) < 2 * RTT_SHARE / 3
    longest = [draw(seed).bunching_us for seed in range(1, 200)]
    assert BUNCHING_US[0] <= min(longest) < 60 and 490 < max(longest) <= BUNCHING_US[1]


def test_cells_get_the_same_rig_from_the_same_seed() -> None:
    other = cell(flows=dumbbell.flows(("cubic",), 50), hops=(dumbbell.bottleneck(5, "pie"),))
    for seed in (1, 2, 3):
        one, two = draw(seed, cell()), draw(seed, other)
        assert (one.rtt_factor, one.bunching_us) == (two.rtt_factor, two.bunching_us)
        assert one.late_s[0] == two.late_s[0]
    assert draw(1, cell()) == draw(1, cell()) != draw(2, cell())


def test_a_cell_follows_its_rig() -> None:
    senders = {
        "probes": (Probe(rtt_us=20_000),), "call": Call(rtt_us=20_000), "short_flows": ShortFlows(rtt_us=80_000),
    }  # fmt: skip
    rig = Rig(rtt_factor=1.04, late_s=(0.5, 0.25), bunching_us=300)
    made = rig.applied(cell(**senders))
    assert [flow.rtt_us for flow in made.flows] == [20_800, 83_200]
    assert [flow.start_s for flow in made.flows] == [0.5, 0.25]
    assert made.probes[0].rtt_us == 20_800 and made.call and made.call.rtt_us == 20_800
    assert made.short_flows and made.short_flows.rtt_us == 83_200 and made.bunching_us == 300
    assert "slot 30us 300us" in " ".join(line for _, line in queues.commands(made, "host0"))


def test_a_path_follows_it_too() -> None:
    path = Impairment(delay_us=10_000, jitter_us=10_000)
    way = Direction(rate_bps=10_000_000, qdisc="pfifo", path=path)  # type: ignore[arg-type]
    with_fq = cell(flows=dumbbell.flows(("cubic",), 0), hops=(Hop(down=way),), sender_queue="fq")
    hop = Rig(rtt_factor=0.96, late_s=(0.0,), bunching_us=200).applied(with_fq)
    assert hop.bunching_us == 0 and hop.hops[0].down
    assert hop.hops[0].down.path == Impairment(delay_us=10_000, jitter_us=10_000, slot_us=20, slot_max_us=200)
    drawn = Rig(rtt_factor=0.96, bunching_us=200).path(Bottleneck.symmetric(10_000_000, "pfifo", 20_000))
    assert drawn.rtt_us == 19_200 and drawn.up.path.slot_max_us is None, "hosts bunch, not the path"


def test_bursts_of_the_path_stay_as_specified() -> None:
    bursts = Impairment(delay_us=5_000, slot_us=1_000, slot_max_us=4_000)
    way = Direction(rate_bps=10_000_000, qdisc="pfifo", path=bursts)  # type: ignore[arg-type]
    cell_of_bursts = cell(flows=dumbbell.flows(("cubic",), 0), hops=(Hop(down=way),), sender_queue="fq")
    made = Rig(rtt_factor=1.02, late_s=(0.0,), bunching_us=200).applied(cell_of_bursts).hops[0].down
    path = Rig(rtt_factor=1.02, bunching_us=200).path(Bottleneck(down=way, up=way)).down.path
    assert made and made.path == path == Impairment(delay_us=5_100, slot_us=1_000, slot_max_us=4_000)


def test_the_exact_rig_changes_nothing() -> None:
    bottleneck = Bottleneck.symmetric(10_000_000, "pfifo", 20_000)
    assert EXACT.applied(cell()) == cell() and EXACT.path(bottleneck) == bottleneck and EXACT.words() == {}


def test_a_flow_starts_late_by_little_of_its_time() -> None:
    short = dumbbell.flows(("cubic",), 20)[0].model_copy(update={"start_s": 3.0, "stop_s": 4.0})
    assert all(draw(seed, cell(flows=(short,))).late_s[0] <= 0.05 for seed in range(1, 50))
    late = [draw(seed, cell()).late_s[0] for seed in range(1, 50)]
    assert max(late) > 0.9 and min(late) < 0.1


def test_what_was_drawn_is_in_words() -> None:
    rig = Rig(rtt_factor=0.9755, late_s=(0.5,), bunching_us=306)
    assert rig.words() == {"RTT": "-2.45%", "start of flow 1": "0.500 s late", "bunching": "up to 306us"}
    assert "cover rigs" in coverage(drawn=True) and "not other rigs" in coverage(drawn=False)


def test_a_cell_without_bunching_keeps_its_digest() -> None:
    assert cell().digest() == "eeba21156eb3e281" != cell(bunching_us=5).digest()


def test_a_host_with_a_qdisc_of_its_own_does_not_bunch() -> None:
    with pytest.raises(ValueError, match="bunching_us"):
        cell(flows=dumbbell.flows(("cubic",), 0), sender_queue="fq", bunching_us=100)


def test_a_cell_bunches_at_least_as_much_as_it_says() -> None:
    for seed in range(1, 6):
        rig = draw(seed, cell())
        assert rig.applied(cell(bunching_us=9_000)).bunching_us == 9_000
        assert rig.applied(cell(bunching_us=1)).bunching_us == max(1, rig.bunching_us)
