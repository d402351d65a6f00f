# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from sojourn.hardware.machine.messages import did_you_mean, first_wrong


class Inner(BaseModel):
    end: float

    @field_validator("end")
    @classmethod
    def _late(cls, end: float) -> float:
        if end < 1:
            raise ValueError("is before its start")
        return end


class Outer(BaseModel):
    phases: list[Inner]


def test_what_is_near_is_asked_for() -> None:
    assert did_you_mean("fq_codle", ["pie", "fq_codel"]) == "did you mean fq_codel?"
    assert did_you_mean("cubik", ["cubic", "cubics", "x"], most=2) == "did you mean cubic or cubics?"
    assert did_you_mean("zzz", ["pie"]) == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"phases": [{"end": 2}, {}]}, "phases.1.end: Field required"),
        ({"phases": [{"end": 0}]}, "phases.0.end: is before its start"),
        (7, "it: Input should be a valid dictionary or instance of Outer"),
    ],
)
def test_the_first_error_is_told_with_its_place(value: object, expected: str) -> None:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate(value)
    assert first_wrong(error.value, "it") == expected
