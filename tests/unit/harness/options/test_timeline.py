# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.harness.options.parsing import timeline_text
from sojourn.harness.options.timeline import TIMELINES, Phase, parse_timeline, reordered


def test_published_timeline_is_seven_minutes_with_both_contenders() -> None:
    phases = parse_timeline("published")
    assert [(p.name, p.contender, p.seconds) for p in phases] == [
        ("solo-1", None, 60),
        ("cubic", "cubic", 120),
        ("solo-2", None, 60),
        ("prague", "prague", 120),
        ("solo-3", None, 60),
    ]
    assert sum(p.seconds for p in phases) == 7 * 60


def test_named_timeline_takes_its_contenders_in_order() -> None:
    assert [p.contender for p in parse_timeline("short", ("bbr",))] == [None, "bbr", None]


def test_explicit_phases_number_what_repeats() -> None:
    assert parse_timeline("solo:5, cubic:10s,cubic:2.5") == [
        Phase("solo", None, 5),
        Phase("cubic-1", "cubic", 10),
        Phase("cubic-2", "cubic", 2.5),
    ]


def test_a_solo_phase_may_last_until_the_picture_has_recovered() -> None:
    phases = parse_timeline("solo:5,cubic:10,solo:20+,prague:10,solo:2.5 +")
    assert [(p.seconds, p.at_least) for p in phases if not p.contender] == [(5, False), (20, True), (2.5, True)]
    assert parse_timeline(timeline_text(phases)) == phases
    assert [p.at_least for p in reordered(phases, 1, 2)] == [False, False, True, False, True]
    for name, timeline in TIMELINES.items():
        assert [(p.seconds, p.at_least) for p in parse_timeline(name)] == [
            (timeline[0], False), (timeline[1], False), (timeline[2], True), (timeline[1], False), (timeline[2], True),
        ]  # fmt: skip


def test_every_other_repetition_has_the_reverse_order_and_the_seed_says_which() -> None:
    phases = parse_timeline("solo:20,cubic:40,solo:10,prague:30,solo:5")
    orders = {
        seed: [[p.contender for p in reordered(phases, seed, n) if p.contender] for n in range(1, 21)]
        for seed in range(20)
    }
    for order in orders.values():
        assert all(one == other[::-1] for one, other in zip(order[::2], order[1::2], strict=True))
    first = [order[n][0] for order in orders.values() for n in range(0, 20, 2)]
    assert 70 < first.count("prague") < 130 and len({tuple(map(tuple, order)) for order in orders.values()}) > 15
    swapped = next(it for n in (1, 2) if (it := reordered(phases, 1, n))[1].contender == "prague")
    assert [(p.name, p.contender, p.seconds) for p in swapped] == [
        ("solo-1", None, 20), ("prague", "prague", 30), ("solo-2", None, 10), ("cubic", "cubic", 40),
        ("solo-3", None, 5),
    ]  # fmt: skip


def test_numbers_follow_the_order() -> None:
    phases = parse_timeline("solo:5,cubic:10,prague:20,cubic:30")
    for n in range(1, 9):
        names = [p.name for p in reordered(phases, 1, n)]
        assert sorted(names) == ["cubic-1", "cubic-2", "prague", "solo"]
        assert names.index("cubic-1") < names.index("cubic-2")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("long", "published, steady, short"),
        ("cubic:10", "first phase must be solo"),
        ("solo:1", "at least 2 s"),
        ("solo:20,,cubic:3", "is not a phase"),
        ("solo:ten", "is not a phase"),
        ("solo:5,cubic:10+", "only solo phases"),
        ("solo:5++", "is not a phase"),
    ],
)
def test_bad_timelines_say_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_timeline(text)


def test_a_timeline_without_end_is_refused_at_once() -> None:
    assert len(parse_timeline("solo:2" + ",cubic:2" * 999)) == 1000
    with pytest.raises(ValueError, match=r"^a timeline of 40001 phases; give at most 1000$"):
        parse_timeline("solo:2" + ",cubic:2" * 40_000)
