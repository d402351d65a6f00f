# SPDX-License-Identifier: Apache-2.0
"""Further gates of a run, each in a file of its own here: a function that is marked `gate_of_runs`.

Those of the lab itself, which every run had from the first, are in `sojourn.scoring.validity`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sojourn.hardware.machine.discovery import defined_in
from sojourn.hardware.machine.plugins import Broken, named
from sojourn.scoring.evidence import RawFiles, Setting
from sojourn.scoring.gates.base import RunGate, gate_of_runs
from sojourn.scoring.validity import Gate, Limits, gate

__all__ = ["further_gates", "gate_of_runs"]


def further_gates(files: RawFiles, setting: Setting, limits: Limits) -> Iterable[Gate]:
    """Judge a run by every gate here, in the order of their files and names, and by those of other packages.

    One that cannot be loaded is failed: without it nobody knows whether the run is valid.
    """
    for judge in (*defined_in(__name__, __path__), *named("sojourn.gates", RunGate)):
        if isinstance(judge, RunGate):
            yield from judge(files, setting, limits)
        elif isinstance(judge, Broken):
            yield gate(f"gate {judge.name}", False, f"cannot be judged: {judge.why}", f"mend or remove {judge.package}")
