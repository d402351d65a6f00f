# SPDX-License-Identifier: Apache-2.0
"""Why something is refused, in words that do not change with the text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sojourn.hardware.machine.errors import Code, CodedError


@contextmanager
def refusal(
    kind: type[CodedError], code: Code, *mentioned: object, one_line: bool = True
) -> Iterator[pytest.ExceptionInfo[CodedError]]:
    """Expect an error with that code, which mentions each of these: an option, a file, a value.

    It is one line, unless it ends with a machine's console.
    """
    with pytest.raises(kind) as wrong:
        yield wrong
    text = str(wrong.value)
    assert wrong.value.code == code, text
    assert not (one_line and "\n" in text) and not [it for it in mentioned if str(it) not in text], text
