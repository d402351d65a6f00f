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
        ("cubic*0", r"'cubic\*0' is not a flow; give a contender, with @up"),
        ("cubic@down", "'cubic@down' is not a flow"),
        ("cubic++prague", "'' is not a flow"),
        ("", "'' is not a flow"),
        (f"cubic*{MOST_FLOWS}+prague", f"has {MOST_FLOWS + 1} or more flows; at most {MOST_FLOWS} are allowed"),
        ("cubic*9999+" * 100_000 + "cubic", "… is too long; at most"),
        ("+".join(["cubic*9999"] * 150), "has 9999 or more flows"),
        ("wep", r"unknown contender 'wep'; did you mean web\?"),
        ("web@up", "'web@up': web is a web user, who downloads pages; remove @up"),
        (
            "call@up*2",
            "'call@up\\*2': call is a call between client and server, in both directions at once; remove @up",
        ),
        (
            "cubic+video*2",
            "video is a second video on the client, .*; only one can compete at a time",
        ),
    ],
)
def test_what_is_no_load_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_load(text)
