# SPDX-License-Identifier: Apache-2.0
"""What tc says of queues that a router lacks: of iproute2 6.1, and of a kernel without any."""

from __future__ import annotations

import pytest

from sojourn.bottleneck import remedies

ADD = "qdisc add dev lan parent 1:10 handle 10: "
UNPARSABLE = 'Unknown qdisc "{}", hence option "{}" is unparsable'


@pytest.mark.parametrize(
    ("queue", "said", "missing"),
    [
        (
            "cnq_cobalt sce",
            UNPARSABLE.format("cnq_cobalt", "sce"),
            'its tc does not know "cnq_cobalt": as root there, in a copy of hardware/kernel: '
            "gcc -shared -fPIC -O2 -o /usr/lib/$(gcc -dumpmachine)/tc/q_cnq_cobalt.so tc_sce.c",
        ),
        (
            "cake sce",
            'What is "sce"?\nUsage: ... cake [ bandwidth RATE',
            'its tc does not know "sce": .*/q_cake.so tc_sce.c',
        ),
        (
            "dualpi2 limit 5",
            UNPARSABLE.format("dualpi2", "limit"),
            'its tc does not know "dualpi2": install iproute2 7 or newer there',
        ),
        (
            "pie",
            "Error: Specified qdisc kind is unknown.",
            "its kernel does not have pie: as root there: modprobe sch_pie; ",
        ),
    ],
)
def test_what_a_router_lacks_is_told_with_what_to_install(queue: str, said: str, missing: str) -> None:
    told = remedies.remedy(ADD + queue, said)
    head, _, tail = missing.partition(".*")
    assert told.startswith(head) and told.endswith(tail) if tail else told.startswith(missing)


def test_another_refusal_is_none_of_ours() -> None:
    assert remedies.remedy(ADD + "fq offload_horizon 1s", "Error: no device here can.") == ""
    assert remedies.remedy("filter add dev lan parent 1: flower", "Error: Specified qdisc kind is unknown.") == ""


def test_several_queues_words_are_told_together() -> None:
    assert remedies.words_of(["dualpi2", "cake"]).startswith("install iproute2 7 or newer there; as root there, in ")
    assert remedies.words_of(["cake", "cnq_cobalt"]).count(" && ") == 1 and remedies.words_of([]) == ""
