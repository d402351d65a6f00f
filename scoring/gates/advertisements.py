# SPDX-License-Identifier: Apache-2.0
"""No advertisement in the timeline of a live film: another picture, from elsewhere, with a bit rate of its own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from sojourn.scoring.evidence import RawFiles, Setting
from sojourn.scoring.gates.base import gate_of_runs
from sojourn.scoring.schema import records
from sojourn.scoring.validity import Gate, Limits, gate


@gate_of_runs
def advertisements(files: RawFiles, setting: Setting, limits: Limits) -> Iterable[Gate]:
    """Judge the times at which the page's player said that it shows one; only a live film's does."""
    if not setting.elsewhere or setting.call:
        return
    start, end = setting.span
    told = [line for line in files.lines("player.jsonl", records.PLAYER) if line.get("event") == "ad"]
    changes = [*((line["t"], line["detail"]) for line in told), (end, False)]
    shown = [
        min(until, end) - max(since, start)
        for (since, on), (until, _) in pairwise(changes)
        if on and until > start and since < end
    ]
    yield gate("no advertisement", not shown, f"{sum(shown):.1f} s in {len(shown)}", "none in the timeline")
