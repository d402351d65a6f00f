# SPDX-License-Identifier: Apache-2.0
"""All gates of a run, discovered in this folder and in other packages."""

from __future__ import annotations

from collections.abc import Iterator

from sojourn.hardware.machine.discovery import defined_in
from sojourn.hardware.machine.plugins import Broken, named
from sojourn.scoring import gates
from sojourn.scoring.gates.base import RunGate, gate
from sojourn.scoring.gates.host import with_cause
from sojourn.scoring.run_evidence import RunEvidence
from sojourn.scoring.validity import Gate

UNLOADED = "gate-loaded"
"""Code of the failed gate that replaces another package's gate if that cannot be loaded."""


def judges() -> Iterator[RunGate | Broken]:
    """Yield the judges of a run: functions in scoring/gates/ by file, those of other packages, then the last ones."""
    every = [
        judge
        for judge in (*defined_in(gates.__name__, gates.__path__), *named("sojourn.gates", RunGate))
        if isinstance(judge, RunGate | Broken)
    ]
    yield from sorted(every, key=lambda judge: isinstance(judge, RunGate) and judge.last)


def judged(run: RunEvidence) -> list[Gate]:
    """Judge a run by every gate.

    A gate that cannot be loaded fails: without it, the validity of the run is unknown.
    """
    verdicts: list[Gate] = []
    for judge in judges():
        if isinstance(judge, Broken):
            name, remedy = f"gate {judge.name}", f"repair or remove {judge.package}"
            verdicts.append(gate(UNLOADED, name, False, f"cannot be judged: {judge.why}", remedy))
        else:
            verdicts += judge(run)
    return with_cause(verdicts, run.setting.processor_share, _remedy(run), run.limits)


def _remedy(run: RunEvidence) -> str:
    """Return what to do about a busy host."""
    simulated = run.setting.lab.get("name") == "virtual" and not run.setting.live
    return "run it on a quiet host" + (" or with --lab=sim" if simulated else "")
