# SPDX-License-Identifier: Apache-2.0
"""The gates that a run must pass before its figures mean anything, grouped by the evidence that they judge.

`sojourn.scoring.gates.registry` finds them: a gate of every run is a function marked `gate_of_runs`.
"""

from __future__ import annotations

from sojourn.scoring.gates.base import at_most, covers, gate, gate_of_runs

__all__ = ["at_most", "covers", "gate", "gate_of_runs"]
