# SPDX-License-Identifier: Apache-2.0
"""Which cases of a test `make test` runs, and which are left to `pytest -m nightly`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def first(count: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """Return cases for `parametrize`, a tuple for several values; all but the first `count` are nightly."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.nightly] if number >= count else []
        )
        for number, case in enumerate(cases)
    ]
