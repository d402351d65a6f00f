# SPDX-License-Identifier: Apache-2.0
"""Records that begin late, end early or pause do not cover a window."""

from __future__ import annotations

from sojourn.scoring.coverage import Coverage
from sojourn.scoring.validity import Limits


def test_what_is_late_early_and_between_is_measured_in_the_window() -> None:
    # The gaps before and behind the window do not count.
    assert Coverage.of([30, 0, 11, 15.5, 19], (10, 20)) == Coverage(-10, -10, 11)
    assert Coverage.of([10.5, 12, 19], (10, 20)) == Coverage(0.5, 1, 7)
    assert Coverage.of(None, (10, 20)) is None and Coverage.of([], (10, 20)) is None


def test_one_missing_second_is_allowed_and_a_long_gap_is_not() -> None:
    limits = Limits()
    assert Coverage(1, 1, 5).complete(limits)
    assert not Coverage(1.1, 0, 1).complete(limits) and not Coverage(0, 1.1, 1).complete(limits)
    assert not Coverage(0, 0, 5.1).complete(limits)
