# SPDX-License-Identifier: Apache-2.0
"""Every qdisc with every parameter on a real router: set up, read back, alike; and differences are seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import EXAMPLES, parse_qdisc
from sojourn.bottleneck.readback import ReadbackError
from sojourn.bottleneck.router import Router, RouterError
from sojourn.bottleneck.spec import Bottleneck, Direction
from tests.tiers import first

pytestmark = pytest.mark.lab


#: By day; the same code reads back all queues in simulated time.
THREE = ("fq_codel flows 1", "dualpi2", "cake besteffort")


@pytest.mark.parametrize("text", first(len(THREE), (*THREE, *EXAMPLES)))
def test_what_is_asked_is_what_the_router_does(router: Router, text: str) -> None:
    router.apply(Bottleneck.symmetric(10_000_000, text))


@pytest.mark.nightly
@pytest.mark.parametrize("rate", [100_000, 1_234_567, 5_000_000, 50_000_000, 100_000_000, 10_000_000_000])
@pytest.mark.parametrize("rtt", [0, 1, 20_000, 33_333, 2_000_000])
def test_rates_and_delays(router: Router, rate: int, rtt: int) -> None:
    router.apply(Bottleneck.symmetric(rate, "fq_codel flows 1", rtt))


def test_both_directions_apart(router: Router) -> None:
    path = Impairment(delay_us=10_000, jitter_us=1_500, loss_percent=0.25, slot_us=4_000, limit=5000)
    asked = Bottleneck(
        down=Direction(rate_bps=20_000_000, qdisc="dualpi2", path=path),
        up=Direction(rate_bps=2_000_000, qdisc="cake besteffort", path=Impairment(delay_us=5_000)),
    )
    router.apply(asked)
    router.apply(asked)
    with pytest.raises(ReadbackError) as error:
        router.verify(Bottleneck(down=asked.up, up=asked.down))
    assert "lan: requested cake 10: below 1:10, found" in str(error.value)


@pytest.mark.parametrize(
    ("made", "asked", "difference"),
    [
        ("fq_codel flows 1", "fq_codel flows 2", "flows: requested flows 2, found 1"),
        ("fq_codel target 5ms", "fq_codel target 6ms", "target: requested target 6ms, found 4999"),
        ("pie noecn", "pie ecn", "ecn: requested on, found off"),
        (
            "dualpi2 drop_enqueue",
            "dualpi2 drop_dequeue",
            "drop-early: requested drop_dequeue, found drop-enqueue",
        ),
        ("dualpi2 alpha 0.1", "dualpi2 alpha 0.2", "alpha: requested alpha 0.2, found 0.09"),
        ("red limit 150000 avpkt 1000", "red limit 150000 avpkt 500", "ewma: requested"),
        ("cake bandwidth 9mbit", "cake bandwidth 8mbit", "bandwidth: requested bandwidth 8mbit, found 1125000"),
    ],
)
def test_a_difference_shows_asked_and_found(router: Router, made: str, asked: str, difference: str) -> None:
    router.apply(Bottleneck.symmetric(10_000_000, made))
    with pytest.raises(ReadbackError) as error:
        router.verify(Bottleneck.symmetric(10_000_000, asked))
    assert difference in str(error.value)


def test_a_router_changed_behind_our_back_is_seen(router: Router) -> None:
    asked = Bottleneck.symmetric(10_000_000, "fq_codel flows 1", 20_000)
    behind = {
        "tc qdisc change dev ifb-down root netem delay 11ms limit 200000": "delay: requested 10000, found 11000",
        "tc qdisc del dev wan ingress": "wan: requested a redirect of all incoming packets to ifb-down, found none",
        "tc filter del dev lan parent 1:": "lan: requested ip UDP dst_port 2113 to class 1:20, found no such filter",
        "tc qdisc replace dev lan parent 1:10 handle 11: pfifo": "lan: requested fq_codel 10: below 1:10, found",
    }
    for command, difference in behind.items():
        router.apply(asked)
        router.place.run(command.split())
        with pytest.raises(ReadbackError) as error:
            router.verify(asked)
        assert difference in str(error.value)


def test_a_rate_step_is_a_class_change(router: Router) -> None:
    asked = Bottleneck.symmetric(10_000_000, "dualpi2", 20_000)
    router.apply(asked)
    router.set_rate(router.lan, 5_000_000)
    stepped = asked.down.model_copy(update={"rate_bps": 5_000_000})
    router.verify(asked.model_copy(update={"down": stepped}))


def test_clearing_leaves_nothing_and_can_be_repeated(router: Router) -> None:
    router.apply(Bottleneck.symmetric(10_000_000, "fq_codel flows 1", 20_000))
    router.clear()
    router.clear()
    assert not [q for q in router.state().qdiscs if q["kind"] in ("htb", "netem", "ingress", "fq_codel")]


def test_a_refused_command_is_named_with_the_reason(router: Router) -> None:
    # tc lets it pass, the kernel does not: no device here can offload a horizon.
    asked = Bottleneck.symmetric(10_000_000, parse_qdisc("fq offload_horizon 1s"))
    with pytest.raises(RouterError, match=r"tc qdisc add dev lan parent 1:10 handle 10: fq offload_horizon 1s: "):
        router.apply(asked)


def test_a_router_without_our_words_is_told_what_to_install(router: Router) -> None:
    nowhere = replace(router.place, prefix=(*router.place.prefix, "env", "TC_LIB_DIR=/nowhere"))
    without = Router(nowhere, router.lan, router.wan)
    for queue, word in (("cnq_codel_af sce", "cnq_codel_af"), ("cake sce", "sce")):
        with pytest.raises(RouterError, match=rf'^router: tc .*; its tc does not know "{word}": .* tc_sce.c$'):
            without.apply(Bottleneck.symmetric(10_000_000, queue))


def test_statistics_and_versions_for_the_evidence(router: Router) -> None:
    router.apply(Bottleneck.symmetric(10_000_000, "dualpi2"))
    assert "qdisc dualpi2 10: dev lan parent 1:10" in router.final_statistics()
    assert router.versions()["tc"].startswith("tc utility, iproute2-")
    assert router.versions()["kernel"].startswith("Linux ")
