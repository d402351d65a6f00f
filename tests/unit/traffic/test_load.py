# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.traffic.load import MOST_FLOWS, LoadFlow, parse_load

DOWN, UP = LoadFlow("cubic"), LoadFlow("prague", up=True)


@pytest.mark.parametrize(
    ("text", "flows"),
    [
        ("cubic", [DOWN]),
        ("cubic*3", [DOWN] * 3),
        ("prague@up", [UP]),
        ("prague@up*2", [UP] * 2),
        ("cubic*2+prague@up+cubic", [DOWN, DOWN, UP, DOWN]),
        ("cubic-noecn", [LoadFlow("cubic-noecn")]),
        ("cubic+web*2", [DOWN, LoadFlow("web"), LoadFlow("web")]),
        ("video+call+cubic", [LoadFlow("video"), LoadFlow("call"), DOWN]),
    ],
)
def test_a_load_is_read_in_its_order(text: str, flows: list[LoadFlow]) -> None:
    assert list(parse_load(text)) == flows


def test_what_is_no_bulk_flow_is_known_as_such() -> None:
    assert [part.bulk for part in parse_load("prague@up+web+video+call")] == [True, False, False, False]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cubik", r"unknown contender 'cubik'; did you mean cubic\?; known: cubic,"),
        ("cubic*0", r"'cubic\*0' is no flow; give a contender, with @up"),
        ("cubic@down", "'cubic@down' is no flow"),
        ("cubic++prague", "'' is no flow"),
        ("", "'' is no flow"),
        (f"cubic*{MOST_FLOWS}+prague", f"has {MOST_FLOWS + 1} flows or more; at most {MOST_FLOWS} compete at once"),
        ("cubic*9999+" * 100_000 + "cubic", "… is too long; at most"),
        ("+".join(["cubic*9999"] * 150), "has 9999 flows or more"),
        ("wep", r"unknown contender 'wep'; did you mean web\?"),
        ("web@up", "'web@up': web is a web user, who fetches pages that come down; leave @up out"),
        ("call@up*2", "'call@up\\*2': call is a call between client and server, both ways at once; leave @up out"),
        (
            "cubic+video*2",
            "video is a second video at the client's place, .*; one of it competes at once",
        ),
    ],
)
def test_what_is_no_load_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_load(text)
