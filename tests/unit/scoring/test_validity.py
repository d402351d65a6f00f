# SPDX-License-Identifier: Apache-2.0
"""Whether a run is valid, also where scores from elsewhere contradict themselves."""

from __future__ import annotations

import pytest

from sojourn.scoring.validity import Gate, Validity

PASSED = Gate(name="jitter", code="lab-jitter", ok=True, measured="1 ms", limit="2 ms")
FAILED = Gate(name="jitter", code="lab-jitter", ok=False, measured="9 ms", limit="2 ms", reason="jitter: 9 ms")


@pytest.mark.parametrize(
    ("said", "gates", "valid", "reasons"),
    [
        (True, [PASSED], True, []),
        (True, [PASSED, FAILED], False, ["jitter: 9 ms"]),
        (False, [FAILED], False, ["jitter: 9 ms"]),
        (False, [PASSED], False, ["no gate says why"]),
        (False, [], False, ["no gate says why"]),
        (True, [FAILED.model_copy(update={"reason": ""})], False, ["jitter"]),
    ],
)
def test_a_run_is_valid_only_if_no_gate_failed_and_invalid_only_with_a_reason(
    said: bool, gates: list[Gate], valid: bool, reasons: list[str]
) -> None:
    read = Validity.model_validate({"valid": said, "gates": [gate.model_dump() for gate in gates]})
    assert (read.valid, read.reasons) == (valid, reasons)
