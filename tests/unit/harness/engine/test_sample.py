# SPDX-License-Identifier: Apache-2.0
"""A sample of runs depends on their names only, and grows without losing any."""

from __future__ import annotations

from itertools import pairwise

from sojourn.harness.engine.sample import sampled
from sojourn.harness.options.errors import OptionsError
from tests.refusals import refusal

LABELS = [f"rtt {rtt}ms, seed {seed}" for seed in range(1, 7) for rtt in (10, 20, 40)]


def test_a_larger_sample_contains_a_smaller_one_whatever_the_order() -> None:
    samples = [sampled(LABELS, size) for size in range(1, len(LABELS) + 1)]
    assert [len(one) for one in samples] == list(range(1, len(LABELS) + 1)) and samples[-1] == set(LABELS)
    assert all(small < large for small, large in pairwise(samples))
    assert sampled(LABELS[::-1], 4) == samples[3]


def test_a_sample_of_more_runs_than_there_are_is_refused() -> None:
    with refusal(OptionsError, "invalid-value", "--sample=19", "18 runs"):
        sampled(LABELS, 19)
