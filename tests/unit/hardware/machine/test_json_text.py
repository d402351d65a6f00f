# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.hardware.machine.json_text import bounded, values

JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def count(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


@given(JSON)
def test_no_text_has_more_values_than_are_counted(value: object) -> None:
    assert count(value) <= 2 * values(json.dumps(value).encode()) + 1


def test_what_would_become_much_is_refused_before_it_is_parsed() -> None:
    assert bounded(b"[1, 2]", 2) == b"[1, 2]"
    for bomb in (b"[" + b"[]," * 100 + b"[]]", b"[" * 100, b'{"a":' * 100, b"[" + b"0," * 100 + b"0]"):
        with pytest.raises(ValueError, match="it has more than 50 values"):
            bounded(bomb, 50)
