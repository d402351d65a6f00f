# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.apps.options import Option
from sojourn.harness.options.model import OPTIONS
from sojourn.harness.options.parsing import rate_schedule, schedule_text
from tests.unit.harness.options.test_every_option import VALUES

#: Not those of files that must exist, nor those that several options make together.
PARSED = [
    option
    for option in OPTIONS
    if option.stored
    and not option.flag
    and option.name not in ("service", "timeline", "clip", "browser", "sign", "kernel-source", "iproute2-source")
]


@pytest.mark.parametrize("option", PARSED, ids=lambda option: option.name)
def test_the_text_of_a_value_is_parsed_to_the_value(option: Option) -> None:
    value = option.parse(VALUES[option.name])
    assert option.parse(option.word(*value) if option.second else option.word(value)) == value


def test_the_text_of_a_schedule_has_its_steps() -> None:
    schedule = rate_schedule("10mbit,1.5s:5mbit,4s:700kbit")
    assert schedule_text(*schedule) == "10000000bit,1.5s:5000000bit,4.0s:700000bit"
