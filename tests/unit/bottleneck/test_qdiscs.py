# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sojourn.bottleneck.qdiscs import EXAMPLES, KINDS, QdiscError, marks, parse_qdisc
from sojourn.bottleneck.qdiscs.dualpi2 import DualPI2
from sojourn.bottleneck.qdiscs.fq_codel import FqCodel


@pytest.mark.parametrize("text", EXAMPLES)
def test_canonical_text_means_the_same(text: str) -> None:
    qdisc = parse_qdisc(text)
    assert parse_qdisc(str(qdisc)) == qdisc
    assert qdisc.tc_args()[0] == qdisc.kind == text.split()[0]


def test_every_parameter_of_every_kind_is_in_the_lab_test() -> None:
    for kind, cls in KINDS.items():
        used = {name for text in EXAMPLES if text.split()[0] == kind for name in parse_qdisc(text).given()}
        assert used == set(cls.parameters()), kind


def test_values_are_in_the_fields_units() -> None:
    assert parse_qdisc("fq_codel flows 1 target 5ms noecn") == FqCodel(flows=1, target=5000, ecn=False)
    assert parse_qdisc("dualpi2 step_thresh 5p") == DualPI2(step_thresh_packets=5)
    assert parse_qdisc("dualpi2 step_thresh 5ms") == DualPI2(step_thresh=5000)
    assert parse_qdisc("dualpi2").tc_args() == ["dualpi2"]


def test_nqb_is_a_filter_and_no_word_of_tc() -> None:
    queue = parse_qdisc("dualpi2 nqb limit 100")
    assert str(queue) == "dualpi2 limit 100 nqb" and parse_qdisc(str(queue)) == queue
    assert queue.tc_args() == ["dualpi2", "limit", "100"]
    first, second = (" ".join(one.command("lan", "10:")) for one in queue.filters("10:"))
    # DSCP 45 with any ECN field; class 2 is in L and is neither marked nor dropped.
    assert first == "tc filter add dev lan parent 10: protocol ip prio 1 flower ip_tos 0xb4/0xfc classid 10:2"
    assert second == "tc filter add dev lan parent 10: protocol ipv6 prio 2 flower ip_tos 0xb4/0xfc classid 10:2"
    assert 0xB4 >> 2 == 45
    assert not parse_qdisc("dualpi2").filters("10:") and not parse_qdisc("pie").filters("10:")


def test_max_rtt_is_worked_out_as_rfc_9332_says() -> None:
    # RFC 9332's defaults: RTT_max 100 ms and RTT_typ 15 ms give Tupdate 15 ms, alpha 0.15 Hz, beta 3 Hz.
    automatic = DualPI2(max_rtt=100_000, typical_rtt=15_000).automatic
    assert automatic == {
        "target": 15_000,
        "tupdate": 15_000,
        "alpha": pytest.approx(0.15),
        "beta": pytest.approx(3),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--qdisc: no qdisc given; known: bfifo, cake,"),
        (
            "fqcodel",
            '--qdisc: unknown qdisc "fqcodel"; did you mean fq_codel or codel? `sojourn harm --help` lists all ',
        ),
        ("DUALPI2", '--qdisc: unknown qdisc "DUALPI2"; did you mean dualpi2? '),
        (
            "fq_codel flow 1",
            'unknown parameter "flow"; did you mean flows?; fq_codel takes: limit PACKETS,',
        ),
        ("fq_codel flows", "fq_codel: flows needs a value: flows NUMBER"),
        ("fq_codel flows many", 'fq_codel: flows: "many" is not a whole number'),
        ("fq_codel flows 65537", "fq_codel: flows: 65537 is out of range: 1 to 65536"),
        ("fq_codel flows 0", "out of range"),
        ("fq_codel target 5mss", 'fq_codel: target: "5mss" is not a time such as 500us, 5ms or 1s'),
        ("codel ecn noecn", 'codel: "noecn" sets ecn a second time; give it once'),
        ("fq_codel ce_threshold_selector 1", "needs VALUE/MASK such as 0x1/0x3"),
        ("pie alpha 33", "pie: alpha: 33 is out of range: 1 to 32"),
        ("red limit 150000", "limit BYTES and avpkt BYTES are required"),
        ("red limit 150000 avpkt 1000 min 90000 max 30000", "min 90000 is above max 30000"),
        ("red limit 150000 avpkt 1000 min 30000 burst 2", "burst 2 is too small for min 30000; give at least 31"),
        ("red limit 150000 avpkt 1000 bandwidth fast", 'bandwidth: "fast" is not a rate'),
        ("red limit 150000 avpkt 1000 qevent", 'unknown parameter "qevent"; red takes'),
        ("sfq ecn", "sfq: ecn requires redflowlimit BYTES"),
        ("sfq divisor 1000", "divisor 1000 is not a power of two"),
        ("cake bandwidth 10mbit unlimited", "bandwidth and unlimited are mutually exclusive"),
        ("cake docsis overhead 10", "overhead is already set by docsis"),
        ("cake besteffort diffserv3", '"diffserv3" sets diffserv a second time'),
        ("dualpi2 max_rtt 100ms target 5ms", "remove target"),
        ("dualpi2 typical_rtt 200ms max_rtt 100ms", "typical_rtt must not be above max_rtt"),
        ("dualpi2 max_rtt 20s", "max_rtt is too large: alpha or beta would be rounded to 0"),
        ("dualpi2 step_thresh 5p step_thresh 5ms", "given both as a time and as packets; give one"),
        ("dualpi2 classic_protection 101%", '"101%" is not a percentage between 0% and 100%'),
        ("fq bands 3 priomap 1 2", "bands 3 priomap needs 16 whole numbers"),
        ("fq weights 1 2 3", "weights needs 3 numbers of 16384 to"),
    ],
)
def test_wrong_text_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(QdiscError) as error:
        parse_qdisc(text)
    assert message in str(error.value)
    assert str(error.value).startswith("--qdisc: ") and "\n" not in str(error.value)


def test_the_option_is_named() -> None:
    with pytest.raises(QdiscError, match=r"^--qdisc-up: "):
        parse_qdisc("nothing", option="--qdisc-up")


def test_a_step_threshold_shorter_than_a_packet_needs_caution() -> None:
    queue = parse_qdisc("dualpi2")
    assert "a packet lasts 2.4 ms" in queue.caution(5_000_000) and "min_qlen_step 1" in queue.caution(5_000_000)
    assert queue.caution(10_000_000) and not queue.caution(30_000_000)
    assert "--qdisc='dualpi2 min_qlen_step 1'" in parse_qdisc("dualpi2 min_qlen_step 0").caution(5_000_000)
    for text in ("dualpi2 min_qlen_step 1", "dualpi2 step_thresh 2p", "dualpi2 step_thresh 3ms", "pie", "fq_codel"):
        assert not parse_qdisc(text).caution(5_000_000), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fq_codel flows 1", True),
        ("fq_codel noecn", False),
        ("fq_codel noecn ce_threshold 1ms", True),
        ("dualpi2", True),
        ("cake", True),
        ("pie ecn", True),
        ("pie", False),
        ("red limit 150000 avpkt 1000", False),
        ("fq", False),
        ("fq ce_threshold 3ms", True),
        ("pfifo limit 10", False),
    ],
)
def test_a_queue_marks_as_its_kind_does_unless_told_otherwise(text: str, expected: bool) -> None:
    assert parse_qdisc(text).marks_ce is expected


@pytest.mark.parametrize(
    ("statistics", "expected"),
    [
        ({"kind": "dualpi2", "ecn-mark": 5994, "step-mark": 5042}, 5994),
        ({"kind": "fq_codel", "ecn_mark": 3, "ce_mark": 4}, 7),
        ({"kind": "fq_codel", "ecn_mark": 3}, 3),
        ({"kind": "red", "marked": 9, "early": 2}, 9),
        ({"kind": "cake", "tins": [{"ecn_mark": 2}, {"ecn_mark": 7}]}, 9),
        ({"kind": "sfq", "options": {"prob_mark": 1, "prob_mark_head": 2, "forced_mark": 3}}, 6),
        ({"kind": "sfq", "options": {}}, None),
        ({"kind": "pfifo", "drops": 3}, None),
        ({"kind": "htb"}, None),
    ],
)
def test_marks_are_read_by_each_kinds_own_counters(statistics: dict[str, Any], expected: int | None) -> None:
    assert marks(statistics) == expected
