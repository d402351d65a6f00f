# SPDX-License-Identifier: Apache-2.0
"""No advertisement during the timeline of a live film: it has another source and bit rate."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import gate, gate_of_runs
from sojourn.scoring.schema import records
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("advertisement")
def advertisements(run: RunEvidence) -> Iterable[Gate]:
    """Judge the times at which the page's player reported an advertisement; only live films have them."""
    if not run.setting.elsewhere or run.setting.call:
        return
    start, end = run.setting.span
    events = [line for line in run.files.lines("player.jsonl", records.PLAYER) if line.get("event") == "ad"]
    changes = [*((line["t"], line["detail"]) for line in events), (end, False)]
    shown = [
        min(until, end) - max(since, start)
        for (since, on), (until, _) in pairwise(changes)
        if on and until > start and since < end
    ]
    measured = f"{sum(shown):.1f} s in {len(shown)}"
    yield gate("advertisement", "no advertisement", not shown, measured, "none in the timeline")
