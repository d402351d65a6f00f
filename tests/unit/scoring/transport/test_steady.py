# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.scoring.transport.steady import truncation

NOISE = [0.3, -0.2, 0.1, -0.4, 0.2]


@pytest.mark.parametrize(
    ("series", "dropped"),
    [
        ([10 + NOISE[n % 5] for n in range(100)], 0),
        ([1.0] * 20 + [10.0] * 80, 20),
        ([n / 2 for n in range(20)] + [10 + NOISE[n % 5] for n in range(80)], 20),  # a ramp
        ([1.0] * 70 + [10.0] * 30, 0),  # more than half is never dropped: the change lies too late to be a warm-up
        ([1.0] * 10 + [10.0] * 9, 0),  # too short to tell
        ([], 0),
    ],
)
def test_the_warm_up_is_what_comes_before_the_steady_values(series: list[float], dropped: int) -> None:
    assert truncation(series) == dropped
