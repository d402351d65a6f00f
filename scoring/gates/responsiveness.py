# SPDX-License-Identifier: Apache-2.0
"""The Responsiveness Test: the foreign probes of --rpm measured something, and a competing test was there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from sojourn.scoring.gates.base import covers, gate, gate_of_runs
from sojourn.scoring.packets import latency
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.validity import Gate, Limits
from sojourn.traffic import ports
from sojourn.traffic.load import RPM

if TYPE_CHECKING:
    from sojourn.scoring.evidence import SideCapture
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("rpm-measured")
def measured(run: RunEvidence) -> Iterable[Gate]:
    """Any foreign probe of the timeline was answered; a queue may well lose most of them."""
    if run.connections is not None:
        sent = latency.within(run.connections, [run.setting.span])
        done = sent.drop_nulls().height
        text = f"{done} of {sent.height} foreign probes answered"
        yield gate("rpm-measured", "RPM measured", done > 0, text, "at least 1")


def rpm_proven(
    name: str, record: Mapping[str, Any], window: Window, before: SideCapture | None, limits: Limits
) -> Gate:
    """A competing test has a result, and its packets are in the capture before the bottleneck throughout the `window`.

    `record` is its entry in bulk.json, empty if there is none.
    """
    code, name = "contender-proven", f"contender proven ({name})"
    if not record or before is None:
        return gate(code, name, False, "not recorded", f"{RPM} data")
    sent = (before.contender.filter(pl.col("sport") == ports.RPM_LOAD)["t_ns"] / 1e9).to_list()
    seen, result = covers(code, "packets", sent, window, limits), record.get("responsiveness")
    measured = f"{seen.measured}; {'a result' if result else 'no result'}"
    return gate(
        code, name, seen.ok and bool(result), measured, f"packets, no gap over {limits.gap_s:g} s, and a result"
    )
