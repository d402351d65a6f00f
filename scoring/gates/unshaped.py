# SPDX-License-Identifier: Apache-2.0
"""The unshaped probe: the delay that the lab itself adds to the path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import at_most, covers, gate, gate_of_runs
from sojourn.scoring.packets import latency
from sojourn.scoring.validity import Gate, Limits

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("unshaped-probe-complete", "unshaped-probe-lost", "lab-jitter")
def added_delay(run: RunEvidence) -> Iterable[Gate]:
    """Judge the unshaped probe, less the path's requested loss and jitter; a black box has none."""
    if run.setting.box:
        return
    lab, calm, limits = run.setting.lab, run.calm, run.limits
    times = None if run.unshaped is None else run.unshaped["t"]
    yield covers("unshaped-probe-complete", "unshaped probe", times, run.setting.span, limits)
    lost, most = (None if calm is None else latency.loss(calm)), limits.unshaped_loss
    if calm is not None and lost is not None and (of_path := lab.get("path_loss")):
        most += of_path + 4 * (of_path * (1 - of_path) / max(calm.height, 1)) ** 0.5
    yield at_most("unshaped-probe-lost", "unshaped probe lost", lost, most, "%", 100)
    if varies_ms := lab.get("path_varies_ms"):
        limits = limits.varying(varies_ms)
    yield jitter("jitter of the lab (P99)", run.jitter.p99 if run.jitter else None, limits)


def jitter(name: str, added_ms: float | None, limits: Limits) -> Gate:
    """The lab's error of the requested round trip: a path that is too short is no better than one that is too long."""
    measured = "not recorded" if added_ms is None else f"{added_ms:.3g} ms"
    ok = added_ms is not None and abs(added_ms) <= limits.jitter_ms
    return gate("lab-jitter", name, ok, measured, f"at most {limits.jitter_ms:g} ms above or below the path's")
