# SPDX-License-Identifier: Apache-2.0
"""Comparison with what a real router (Linux 7.2, iproute2 7.2) showed: data/ was captured by tests/lab."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sojourn.bottleneck import readback
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.bottleneck.spec import Bottleneck, Direction

DATA = Path(__file__).parent / "data"
QDISCS: list[dict[str, Any]] = [json.loads(line) for line in (DATA / "qdiscs.jsonl").read_text().splitlines()]
ASKED = Bottleneck(
    down=Direction(
        rate_bps=20_000_000,
        qdisc="dualpi2",
        path=Impairment(delay_us=10_000, jitter_us=1_500, loss_percent=0.25, slot_us=4_000, limit=5000),
    ),
    up=Direction(rate_bps=2_000_000, qdisc="fq_codel flows 1", path=Impairment(delay_us=5000)),
)


@pytest.fixture
def found() -> readback.State:
    return deepcopy(readback.state((DATA / "router.json").read_text(), "lan", "wan"))


def test_options_of_a_qdisc_without_code_in_tc_are_empty() -> None:
    shown = '[{"kind":"mine","handle":"10:","options":{[Unknown qdisc, optlen=16] },"bytes":1}]'
    assert list(readback.json_values(f"{shown}\n[]")) == [
        [{"kind": "mine", "handle": "10:", "options": {}, "bytes": 1}],
        [],
    ]


@pytest.mark.parametrize("row", QDISCS, ids=lambda row: row["asked"])
def test_real_output_agrees_with_what_was_asked(row: dict[str, Any]) -> None:
    qdisc = parse_qdisc(row["asked"])
    assert row["kind"] == qdisc.kind
    assert qdisc.differences(row["options"]) == []


@pytest.mark.parametrize("row", QDISCS, ids=lambda row: row["asked"])
def test_each_changed_option_is_a_difference(row: dict[str, Any]) -> None:
    qdisc = parse_qdisc(row["asked"])
    parameters, adaptive = qdisc.parameters(), qdisc.not_compared()
    for name, value in qdisc.given().items():
        parameter = parameters[name]
        if not parameter.shown or name in adaptive or name in ("framing", "ce_threshold_selector"):
            continue
        other = dict(row["options"])
        key = next((k for k in other if k.rstrip() == parameter.key), parameter.key)
        if isinstance(value, bool):
            if value == getattr(parameter, "absent", False):
                other[key] = not value
            elif key in other and other[key] is not False:
                del other[key]
            else:
                other[key] = True
        else:
            other[key] = "something else"
        assert any(parameter.key in line for line in qdisc.differences(other)), name
        other.pop(key, None)
        if not isinstance(value, bool):
            assert any("found nothing" in line for line in qdisc.differences(other)), name


def test_a_whole_router_agrees(found: readback.State) -> None:
    assert readback.differences(ASKED, found) == []


def options(found: readback.State, dev: str, kind: str) -> Any:
    return next(q["options"] for q in found.qdiscs if (q["dev"], q["kind"]) == (dev, kind))


def test_marks_in_place_of_losses_are_a_difference(found: readback.State) -> None:
    options(found, "ifb-down", "netem")["ecn"] = True
    assert readback.differences(ASKED, found) == ["ifb-down: netem marks: requested False, found True"]


def test_another_slot_is_a_difference(found: readback.State) -> None:
    slot = options(found, "ifb-down", "netem")["slot"]
    slot |= {"max-delay": 0.005, "packets": 16}
    assert readback.differences(ASKED, found) == [
        "ifb-down: netem slot's largest: requested 4000, found 5000",
        "ifb-down: netem slot's packets: requested 0, found 16",
    ]


def test_a_time_agrees_as_far_as_six_digits_show_it(found: readback.State) -> None:
    path = ASKED.down.path.model_copy(update={"delay_us": 1_026_463})
    asked = ASKED.model_copy(update={"down": ASKED.down.model_copy(update={"path": path})})
    delay = options(found, "ifb-down", "netem")["delay"]
    delay["delay"] = 1.02646  # as tc prints it
    assert readback.differences(asked, found) == []
    delay["delay"] = 1.02645
    assert readback.differences(asked, found) == ["ifb-down: netem delay: requested 1026460, found 1026450"]


@pytest.mark.parametrize(
    ("asked", "key", "shown", "other"),
    [
        ("red limit 150000 avpkt 1000 probability 0.033333333", "probability", 0.0333333, 0.0333344),
        ("dualpi2 alpha 0.1601", "alpha", 0.160156, 0.167969),
        ("sch_mine rate 50000000 limit 8000", "rate", 6_250_000, 6_250_001),
        ("sch_mine rate 50000000 limit 8000", "limit", 8000, 1000),
        ("sch_mine rate 50mbit limit 8000", "rate", 6_250_000, 6_250_001),
        ("sch_mine target 5ms", "target", 5000, 6000),
        ("sch_mine target 5ms", "target", 4999, 4998),
        ("sch_mine target 5ms", "target", 5_000_000, 6),
        ("sch_mine target 5ms", "target", 5, 50),
        ("sch_mine rate 50mbit", "rate", 50_000_000, 5_000_000),
        ("sch_mine memory 4mb", "memory", 4 << 20, 4_000_000),
        ("sch_mine rate 50mbit protect", "protect", True, False),
        ("sch_mine no_protect limit 8000", "protect", False, True),
    ],
)
def test_a_value_agrees_as_tc_shows_it(asked: str, key: str, shown: float, other: float) -> None:
    qdisc = parse_qdisc(asked)
    lines = [[line for line in qdisc.differences({key: found}) if line.startswith(key)] for found in (shown, other)]
    assert not lines[0] and len(lines[1]) == 1 and "requested" in lines[1][0]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [("ecn 0", {"ecn": False}), ("gso off", {"gso": False}), ("mode ecn limit 8", {"mode": "ecn", "ecn": False})],
)
def test_a_word_of_a_custom_qdisc_with_a_value_or_that_is_one_is_no_flag(asked: str, shown: readback.State) -> None:
    assert parse_qdisc(f"sch_mine {asked}").differences(shown) == []


@pytest.mark.parametrize("words", ["bandwidth 9mbit", "unlimited"])
def test_a_bandwidth_that_cake_sets_itself_is_no_difference(words: str) -> None:
    own = {"bandwidth": 1_034_567, "autorate": True}
    assert parse_qdisc(f"cake {words}").differences(own)
    own["autorate"] = "autorate-ingress"
    assert parse_qdisc(f"cake {words} autorate-ingress").differences(own) == []


def test_each_change_of_the_router_is_one_line(found: readback.State) -> None:
    options(found, "lan", "htb")["default"] = "0x20"
    options(found, "wan", "fq_codel")["flows"] = 1024
    options(found, "ifb-down", "netem")["delay"]["delay"] = 0.011
    options(found, "ifb-up", "netem")["limit"] = 1000
    next(c for c in found.classes["lan"] if c["handle"] == "1:10")["rate"] = 1_250_000
    next(c for c in found.classes["wan"] if c["handle"] == "1:20")["quantum"] = 60_000
    assert readback.differences(ASKED, found) == [
        "lan: requested htb default 0x10, found 0x20",
        "lan: class 1:10 rate: requested 2500000, found 1250000",
        "wan: fq_codel flows: requested flows 1, found 1024",
        "wan: class 1:20 quantum: requested 1514, found 60000",
        "ifb-down: netem delay: requested 10000, found 11000",
        "ifb-up: netem limit: requested 200000, found 1000",
    ]


def test_what_is_missing_is_told(found: readback.State) -> None:
    bare = readback.State(
        qdiscs=[q for q in found.qdiscs if q["dev"] not in ("ifb-down", "wan")],
        classes=found.classes,
        filters={**found.filters, "lan": []},
        ingress={**found.ingress, "lan": []},
    )
    assert readback.differences(ASKED, bare) == [
        "lan: requested ip UDP dst_port 2113 to class 1:20, found no such filter",
        "lan: requested ip UDP src_port 2113 to class 1:20, found no such filter",
        "lan: requested ipv6 UDP dst_port 2113 to class 1:20, found no such filter",
        "lan: requested ipv6 UDP src_port 2113 to class 1:20, found no such filter",
        "wan: requested htb 1: as root, found no qdisc",
        "wan: requested fq_codel 10: below 1:10, found no qdisc",
        "ifb-down: requested netem 1: as root, found no qdisc",
        "wan: requested a redirect of all incoming packets to ifb-down, found ['ifb-down']",
        "lan: requested a redirect of all incoming packets to ifb-up, found none",
    ]


def test_a_delay_nobody_asked_for_is_told(found: readback.State) -> None:
    lines = readback.differences(Bottleneck.symmetric(20_000_000, "dualpi2"), found)
    assert "wan: requested no delay, found ingress ffff:" in lines
    assert "ifb-down: requested no delay, found netem" in lines


#: As iproute2 7.2 shows the filters of `dualpi2 nqb`.
NQB = [
    {"protocol": protocol, "pref": pref, "kind": "flower", "chain": 0, "options": {
        "handle": 1, "classid": "10:2", "keys": {"eth_type": kind, "ip_tos": 180, "ip_tos_mask": "fc"}}}
    for protocol, pref, kind in (("ip", 1, "ipv4"), ("ipv6", 2, "ipv6"))
]  # fmt: skip
ASKED_NQB = ASKED.model_copy(update={"down": ASKED.down.model_copy(update={"qdisc": parse_qdisc("dualpi2 nqb")})})


def test_filters_of_the_queue_are_read_back(found: readback.State) -> None:
    assert (
        readback.differences(
            ASKED_NQB,
            replace(found, queue_filters={"lan": [{"protocol": "ip", "pref": 1, "kind": "flower", "chain": 0}, *NQB]}),
        )
        == []
    )
    lacking = [
        "lan: requested ip ip_tos 0xb4/0xfc to dualpi2's class 10:2, found no such filter",
        "lan: requested ipv6 ip_tos 0xb4/0xfc to dualpi2's class 10:2, found no such filter",
    ]
    assert readback.differences(ASKED_NQB, found) == lacking
    assert readback.differences(ASKED_NQB, replace(found, queue_filters={"lan": NQB[:1]})) == lacking[1:]


@pytest.mark.parametrize(
    "change",
    [
        {"classid": "10:1"},
        {"keys": {"ip_tos": 184, "ip_tos_mask": "fc"}},
        {"keys": {"ip_tos": 180, "ip_tos_mask": "fc", "ip_proto": "udp"}},
    ],
)
def test_another_class_value_or_condition_of_a_filter_is_a_difference(
    change: dict[str, Any], found: readback.State
) -> None:
    other = deepcopy(NQB)
    other[0]["options"] |= change
    assert len(readback.differences(ASKED_NQB, replace(found, queue_filters={"lan": other}))) == 1


def test_answers_about_filters_may_follow_the_others() -> None:
    text = (DATA / "router.json").read_text()
    more = readback.state(f"{text}{json.dumps(NQB)}\n[]\n", "lan", "wan")
    assert more.queue_filters == {"lan": NQB, "wan": []} and readback.differences(ASKED_NQB, more) == []
    assert readback.filter_queries("lan", "wan") == [
        "filter show dev lan parent 10:", "filter show dev wan parent 10:"
    ]  # fmt: skip


def test_leftovers(found: readback.State) -> None:
    assert "lan: htb 1: is still there" in readback.leftovers(found)
    assert "ifb-up: netem 1: is still there" in readback.leftovers(found)
    assert readback.leftovers(readback.State([], {}, {}, {})) == []


def test_an_answer_too_few_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"tc gave 2 answers, expected 7"):
        readback.state("[]\n[]\n", "lan", "wan")


def test_the_error_shows_all() -> None:
    error = readback.ReadbackError(["a: requested 1, found 2", "b: requested 3, found 4"])
    assert str(error).endswith("a: requested 1, found 2; b: requested 3, found 4")
    assert error.differences == ["a: requested 1, found 2", "b: requested 3, found 4"]


def test_queues_of_somebody_else_are_told_with_what_takes_them_away(found: readback.State) -> None:
    assert readback.foreign(found, "wan") == [
        ("wan: htb 1:", "tc qdisc del dev wan root"), ("wan: ingress ffff:", "tc qdisc del dev wan ingress"),
    ]  # fmt: skip
    own = [{"dev": "wan", "kind": kind, "handle": "0:", "root": True} for kind in ("mq", "fq_codel", "noqueue")]
    assert readback.foreign(readback.State(own, {}, {}, {}), "wan", "lan") == []
