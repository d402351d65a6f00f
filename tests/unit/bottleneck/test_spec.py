# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from pydantic import ValidationError

from sojourn.bottleneck import shaper, spec
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.spec import Bottleneck, Direction


def lines(bottleneck: Bottleneck) -> list[str]:
    return [" ".join(command) for command in spec.commands(bottleneck)]


def test_the_delay_stands_at_the_entrance_and_the_queue_at_the_exit() -> None:
    asked = Bottleneck(
        down=Direction(rate_bps=10_000_000, qdisc="fq_codel flows 1", path=Impairment(delay_us=12_000)),
        up=Direction(rate_bps=2_000_000, qdisc="dualpi2", path=Impairment(delay_us=8_500)),
    )
    made = lines(asked)
    assert "tc qdisc add dev ifb-down root handle 1: netem limit 200000 delay 12ms" in made
    assert "tc qdisc add dev ifb-up root handle 1: netem limit 200000 delay 8500us" in made
    assert (
        "tc filter add dev wan parent ffff: protocol all prio 1 matchall "
        "action mirred egress redirect dev ifb-down" in made
    )
    assert "tc qdisc add dev lan parent 1:10 handle 10: fq_codel flows 1" in made
    assert "tc qdisc add dev wan parent 1:10 handle 10: dualpi2" in made
    assert (
        "tc class add dev lan parent 1: classid 1:10 htb rate 10mbit ceil 10mbit burst 3028 cburst 3028 "
        "quantum 1514 prio 1" in made
    )


def test_no_delay_needs_no_ifb() -> None:
    assert not [line for line in lines(Bottleneck.symmetric(10_000_000, "pfifo", 0)) if "ifb" in line]


@pytest.mark.parametrize("rtt", [1, 20_000, 33_333])
def test_both_ways_add_up_to_the_rtt(rtt: int) -> None:
    assert Bottleneck.symmetric(10_000_000, "pfifo", rtt).rtt_us == rtt


def test_it_survives_json_with_qdiscs_as_text() -> None:
    asked = Bottleneck.symmetric(5_000_000, "pie ecn limit 100 target 5ms", 20_000)
    assert asked.model_dump()["down"]["qdisc"] == "pie limit 100 target 5ms ecn"
    assert Bottleneck.model_validate_json(asked.model_dump_json()) == asked


def test_out_of_range_is_refused() -> None:
    for rate in (99_999, 10_000_000_001):
        with pytest.raises(ValidationError):
            Direction(rate_bps=rate, qdisc="pfifo")
    with pytest.raises(ValidationError, match=r"jitter"):
        Impairment(delay_us=1000, jitter_us=2000)
    with pytest.raises(ValidationError, match=r"slot"):
        Impairment(slot_us=5000, slot_max_us=800)
    with pytest.raises(ValidationError, match=r"slot"):
        Impairment(slot_packets=16)
    with pytest.raises(ValidationError, match=r"needs a loss"):
        Impairment(marks=True)


def test_netem_words() -> None:
    path = Impairment(delay_us=10_000, jitter_us=500, loss_percent=0.5, slot_us=2000, limit=1000)
    assert " ".join(path.tc_args()) == "netem limit 1000 delay 10ms 500us loss random 0.5% slot 2ms"
    assert not Impairment().needed and Impairment(loss_percent=1).needed
    bursts = Impairment(delay_us=200, slot_us=800, slot_max_us=5000, slot_packets=16, limit=10_000)
    assert " ".join(bursts.tc_args()) == "netem limit 10000 delay 200us slot 800us 5ms packets 16"
    assert " ".join(Impairment(loss_percent=2, marks=True).tc_args()) == "netem limit 200000 loss random 2% ecn"


def test_burst_is_a_millisecond_and_two_frames_at_least() -> None:
    assert shaper.burst_bytes(100_000_000) == 12_500
    assert shaper.burst_bytes(1_000_000) == 3028


def test_a_new_rate_changes_the_shaped_class_alone() -> None:
    change = " ".join(shaper.rate_change("lan", 5_000_000))
    assert change.startswith("tc class change dev lan parent 1: classid 1:10 htb rate 5mbit ceil 5mbit")


def test_a_router_that_masquerades_takes_the_named_hosts_alone_and_delays_on_the_way_up() -> None:
    asked = Bottleneck.symmetric(10_000_000, "pfifo", 33_333)
    made = spec.delayed_upwards(asked)
    assert (made.down.path.delay_us, made.up.path.delay_us, made.rtt_us) == (0, 33_333, 33_333)
    commands = [" ".join(command) for command in spec.commands(made, only=["10.42.1.10", "10.42.1.20"])]
    assert [line for line in commands if "mirred" in line] == [
        f"tc filter add dev lan parent ffff: protocol ip prio 1 flower src_ip {source} "
        "action mirred egress redirect dev ifb-up"
        for source in ("10.42.1.10", "10.42.1.20")
    ]
    assert {line for line in commands if "htb default" in line} == {
        f"tc qdisc add dev {dev} root handle 1: htb default 20" for dev in ("lan", "wan")
    }
    lossy = asked.model_copy(update={"down": asked.down.model_copy(update={"path": Impairment(loss_percent=1)})})
    with pytest.raises(
        ValueError, match=r"^with nat = true, the downward path supports delay only: remove its jitter, loss"
    ):
        spec.delayed_upwards(lossy)
