# SPDX-License-Identifier: Apache-2.0
"""Recordings of held-out seeds, of which everything is known, through the scorers of pictures without a strip."""

from __future__ import annotations

import pytest

from benchmarks.recordings import HELD_OUT, ensure
from benchmarks.scorers import LONG_S, Known, hits, outcome

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("seed", [HELD_OUT + 134])
def test_every_freeze_is_found_and_none_besides(seed: int) -> None:
    found = outcome(Known.of_recording(ensure(seed)))
    told = found.found["picture and player"]
    long = [span for span, _ in found.truth if span[1] - span[0] >= LONG_S]
    assert long and all(hits(span, told) for span in long)
    assert all(any(hits(s, [span]) for span, _ in found.truth) for s in told if s[1] - s[0] >= LONG_S)
    right = [true == said for family, true, said in found.renditions if family == found.families[0]]
    assert sum(right) >= 0.8 * len(right)  # of one recording
