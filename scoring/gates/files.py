# SPDX-License-Identifier: Apache-2.0
"""The raw files can be read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import gate, gate_of_runs
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("file-whole", last=True)
def whole(run: RunEvidence) -> Iterable[Gate]:
    """Return a failed gate per damaged file, which counts as not recorded."""
    return [
        gate("file-whole", f"{damage.file} whole", False, damage.why, "a file that can be read")
        for damage in run.files.damaged
    ]
