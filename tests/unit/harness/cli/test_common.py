# SPDX-License-Identifier: Apache-2.0
"""Least relevant sizes are read in one place for all commands."""

from __future__ import annotations

import pytest

from sojourn.harness.cli.common import sizes
from sojourn.scoring.statistics.relevance import DEFAULT, NOTHING
from tests.unit.harness.options.refusals import refused


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("goodput=nan%", "not a number"),
        ("delay=5ms,harm=nan", "not a number"),
        ("delay=infms", "infinite"),
        ("harm=1e400", "infinite"),
        ("delay=5ms,harm=0.1, delay=9ms", "delay is given twice"),
        ("25", "is not a least relevant size"),
    ],
)
def test_sizes_that_cannot_be_compared_with_are_refused(text: str, why: str) -> None:
    with refused("least", "invalid-value", "--least: ", why):
        sizes(text)


def test_sizes_are_those_given_and_the_defaults() -> None:
    assert (sizes(""), sizes("0")) == (DEFAULT, NOTHING)
    assert sizes("delay=9ms") == DEFAULT.model_copy(update={"delay": 9})
