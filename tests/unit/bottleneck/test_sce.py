# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.bottleneck.qdiscs import QdiscError, parse_qdisc


@pytest.mark.parametrize(
    ("text", "ramp", "found"),
    [
        ("cake sce", 1, {"sce": "sce"}),
        ("cake sce-single", 1024, {"sce": "sce-single"}),
        ("cnq_cobalt sce-thresh 16", 16, {"sce-thresh": 16}),
        ("cnq_codel_af no-sce", 0, {}),
        ("cnq_cobalt sce-single", 1024, {"sce": "sce-single"}),
        ("lfq_cobalt sce-thresh 4", 4, {"sce-thresh": 4}),
        ("twin_codel_af sce", 1, {"sce": "sce"}),
    ],
)
def test_the_ramp_is_read_written_and_compared(text: str, ramp: int, found: dict[str, object]) -> None:
    queue = parse_qdisc(text)
    assert queue.given() == {"sce": ramp} and str(queue) == text
    assert queue.marks_sce is (ramp > 0) and not parse_qdisc("cake").marks_sce and not parse_qdisc("pie").marks_sce
    assert not queue.differences(found)
    number = "ramp" if text.startswith(("cake", "cnq_cobalt")) else "divisor"
    assert queue.differences({"sce-thresh": 9}) == [f"sce: requested {text.partition(' ')[2]}, found {number} 9"]


def test_a_queue_that_is_not_asked_for_sce_may_have_it_or_not() -> None:
    assert not parse_qdisc("cnq_cobalt").differences({"sce": "sce"})


@pytest.mark.parametrize("text", ["cake sce-thresh", "cake sce-thresh 0", "cake sce-thresh 1025", "cake sce-thresh x"])
def test_a_threshold_out_of_range_is_named(text: str) -> None:
    with pytest.raises(QdiscError, match="sce-thresh needs a number from 1 to 1024"):
        parse_qdisc(text)


@pytest.mark.parametrize("kind", ["cnq_codel_af", "lfq_cobalt", "twin_codel_af"])
def test_a_codel_that_marks_sce_has_no_second_slope(kind: str) -> None:
    with pytest.raises(QdiscError, match=f'{kind}: unknown parameter "sce-single"'):
        parse_qdisc(f"{kind} sce-single")


def test_twin_codel_af_marks_sce_unless_told_not_to() -> None:
    assert parse_qdisc("twin_codel_af").marks_sce and not parse_qdisc("twin_codel_af no-sce").marks_sce


def test_two_words_of_sce_are_one_too_many() -> None:
    with pytest.raises(QdiscError, match='"sce-single" sets sce a second time'):
        parse_qdisc("cake sce sce-single")


def test_deltic_marks_sce_or_not_by_a_target_of_its_own() -> None:
    queue = parse_qdisc("deltic target 20ms sce-target 4ms drop-target 100ms sce")
    assert queue.marks_sce and queue.marks_ce and not parse_qdisc("deltic no-sce").marks_sce
    assert queue.given() == {"target": 20_000, "sce_target": 4000, "drop_target": 100_000, "sce": True}
    shown = {"target": 20_000, "sce-target": 4000, "drop-target": 100_000, "limit": 10_240, "sce": True}
    assert not queue.differences(shown)
    assert queue.differences({**shown, "sce-target": 5000}) == ["sce-target: requested sce-target 4ms, found 5000"]
    with pytest.raises(QdiscError, match="drop-target: 5s is out of range: 1us to 4s"):
        parse_qdisc("deltic drop-target 5s")
