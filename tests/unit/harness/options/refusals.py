# SPDX-License-Identifier: Apache-2.0
"""Which option is refused and why, in words that do not change with the text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sojourn.hardware.machine.errors import Code
from sojourn.harness.options.errors import OptionsError
from tests.refusals import refusal


@contextmanager
def refused(option: str, code: Code, *mentioned: object) -> Iterator[None]:
    """Expect an OptionsError in one line that names the option, and each of what is `mentioned`."""
    with refusal(OptionsError, code, option, *mentioned) as wrong:
        yield
    assert wrong.value.option == option, wrong.value
