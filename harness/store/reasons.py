# SPDX-License-Identifier: Apache-2.0
"""Why a run is invalid or unfinished: a code for programs and tests, and a text for readers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sojourn.hardware.machine.messages import printable
from sojourn.scoring.validity import Validity

#: Characters of a recorded text: a manifest must stay readable whatever a program printed.
_LONGEST = 10_000
#: Text that may come from a third party, and is printed and shown in pages.
Text = Annotated[str, Field(max_length=100_000), AfterValidator(printable)]
ReasonCode = Literal[
    "altered", "disk-full", "failed", "killed", "no-run", "not-committed", "not-hashed", "not-scored", "stopped",
    "time-limit", "unknown", "unreadable", "withheld",
]  # fmt: skip
"""The reasons that are not failed gates, which have the gates' codes; docs/run-directory.md describes them."""
NOT_OF_GATES = frozenset(get_args(ReasonCode)) - {"unknown"}
"""Those that no gate has: `unknown` is one whose own code cannot be recorded."""
_KEBAB = r"^[a-z0-9]+(-[a-z0-9]+)*$"


class Reason(BaseModel):
    """One reason. `code` is the failed gate's or a `ReasonCode`, and stays when `text` changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    code: str = Field(pattern=_KEBAB)
    text: Text

    @classmethod
    def of(cls, code: ReasonCode, text: str) -> Self:
        """Return a reason that is not a failed gate."""
        return cls(code=code, text=text[:_LONGEST])

    def __str__(self) -> str:
        return self.text


def of_gates(validity: Validity) -> list[Reason]:
    """Return the reasons of the failed gates; the code is `unknown` for a gate whose own is not in kebab-case."""
    failed = (gate for gate in validity.gates if not gate.ok)
    return [
        Reason(code=gate.code if re.fullmatch(_KEBAB, gate.code) else "unknown", text=gate.reason[:_LONGEST])
        for gate in failed
    ]


def joined(reasons: Iterable[Reason]) -> str:
    """Return the texts of reasons in one line."""
    return "; ".join(reason.text for reason in reasons)
