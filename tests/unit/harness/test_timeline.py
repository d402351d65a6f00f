# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from harness.timeline import Phase, parse_timeline


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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("long", "published, short"),
        ("cubic:10", "first phase must be solo"),
        ("solo:1", "at least 2 s"),
        ("solo:20,,cubic:3", "is no phase"),
        ("solo:ten", "is no phase"),
    ],
)
def test_bad_timelines_say_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_timeline(text)
