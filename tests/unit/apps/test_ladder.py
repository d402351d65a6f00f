# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.apps.standins.ladder import LADDER, ladder_up_to, parse_ladder, rung_of


def test_a_ladder_ends_at_the_height_that_is_asked() -> None:
    assert [rung.height for rung in ladder_up_to(720)] == [240, 360, 480, 720]
    assert ladder_up_to(2160) == LADDER


def test_rungs_of_the_users_own_have_their_rates() -> None:
    rungs = parse_ladder("240p:300k, 480p:1mbit,1080P:4.5M")
    assert rungs == ((240, 300_000), (480, 1_000_000), (1080, 4_500_000))
    assert (rung_of(*rungs[2]).quality, rung_of(*rungs[2]).width, rung_of(*rungs[2]).bps) == ("hd1080", 1920, 4_500_000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("300p:1mbit", "'300p:1mbit' is not a rung; give LINES:RATE, as in 240p:300k,720p:2.5mbit; LINES: 240p, 360p"),
        ("240p", "'240p' is not a rung"),
        ("240p:", "'240p:' is not a rung"),
        ("240p:fast", "is not a rate"),
        ("240p:1k", "'240p:1k': the rate is out of range; give 50kbit to 100mbit"),
        ("480p:1m,240p:2m", "'240p:2m': every rung must have more lines"),
        ("240p:1m,480p:1m", "'480p:1m': every rung must have more lines"),
        ("", "'' is not a rung"),
    ],
)
def test_what_is_no_ladder_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_ladder(text)
