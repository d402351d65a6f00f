# SPDX-License-Identifier: Apache-2.0
"""The foreign probes of --rpm: they measured something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import gate, gate_of_runs
from sojourn.scoring.packets import latency
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("rpm-measured")
def measured(run: RunEvidence) -> Iterable[Gate]:
    """Any foreign probe of the timeline was answered; a queue may well lose most of them."""
    if run.connections is not None:
        sent = latency.within(run.connections, [run.setting.span])
        done = sent.drop_nulls().height
        text = f"{done} of {sent.height} foreign probes answered"
        yield gate("rpm-measured", "RPM measured", done > 0, text, "at least 1")
