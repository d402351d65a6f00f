# SPDX-License-Identifier: Apache-2.0
"""Which option is refused and why, in words that do not change with the text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sojourn.apps.options import Code
from sojourn.harness.options.errors import OptionsError


@contextmanager
def refused(option: str, code: Code, *mentioned: object) -> Iterator[None]:
    """Expect an OptionsError in one line that names the option, and each of what is `mentioned`."""
    with pytest.raises(OptionsError) as wrong:
        yield
    text = str(wrong.value)
    assert (wrong.value.option, wrong.value.code) == (option, code), text
    assert "\n" not in text and option in text
    assert all(str(it) in text for it in mentioned), text
