# SPDX-License-Identifier: Apache-2.0
"""The victim alone: when it is, whether it was well, and the harm of each metric beside a contender to it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sojourn.scoring import validity
from sojourn.scoring.evidence import Setting
from sojourn.scoring.metrics import Evidence
from sojourn.scoring.picture import freezes, rendition
from sojourn.scoring.schema.scores import Harm, Metrics, PhaseScores
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.harm import METRICS, harm, solo_windows
from sojourn.scoring.transport import demand
from sojourn.scoring.validity import Gate, Limits


def solo(
    setting: Setting, segments: list[rendition.Segment] | None, settle: float
) -> tuple[list[Window], list[Window]]:
    """The first phase alone, and the windows of the baseline, once the picture has recovered."""
    first = [(p.start, p.end) for p in setting.phases if p.contender is None][:1]
    best = rendition.dominant(rendition.shares(segments, first)) if segments else None
    windows = solo_windows(
        setting.phases,
        settle,
        since_recovery=lambda window: rendition.since_recovery(segments, window, best) if segments else window,
    )
    return first, windows


def healthy(
    name: str, windows: Sequence[Window], evidence: Evidence, strip: bool, limits: Limits, *, elsewhere: bool = False
) -> Gate:
    """Judge the victim alone, inside the windows; `strip`: by its pictures too, whose rate is known.

    A player that is not ours (`elsewhere`) may try another rendition now and then, as long as one is what it shows.
    """
    alone = evidence.metrics(windows) if windows else {}
    stalls = changes = None
    if evidence.picture.changes is not None:
        long = freezes.stalls(evidence.picture.changes, limits.baseline_stall_s)
        stalls = sum(freezes.frozen_s([stall], a, b) > 0 for stall in long for a, b in windows)
    if evidence.picture.segments:
        # A window that begins with the recovery begins at a change, which lies before it.
        changes = sum(a < c.t < b for c in rendition.changes(evidence.picture.segments) for a, b in windows)
    share = None
    if elsewhere and windows:
        minutes = math.ceil(sum(b - a for a, b in windows) / 60)
        limits = limits.model_copy(update={"baseline_changes": limits.live_changes * minutes})
        shown = alone.get("height_seconds") or {}
        share = max(shown.values()) / sum(shown.values()) if shown else None
    return validity.baseline(
        name, evidence.clip_fps if strip else None, stalls, alone.get("fps"), alone.get("victim_mbps"), changes, limits,
        share,
    )  # fmt: skip


def harms(rows: Sequence[PhaseScores], baseline: Metrics, capacity_mbps: float | None, *, call: bool) -> list[Harm]:
    """The harm of each metric in each phase with a contender; none where the baseline is infinite.

    `capacity_mbps` and `call` are those of `demand.met`: goodput is not harmed where the victim got all it asked for.
    """
    harmed = []
    for row in rows:
        unlimited = demand.met(row, baseline, capacity_mbps, call=call)
        for metric, better in METRICS.items() if row.contender else ():
            solo, value = getattr(baseline, metric), getattr(row, metric)
            if solo is not None and value is not None and math.isfinite(solo):
                met = unlimited and metric == demand.METRIC
                harmed.append(
                    Harm(phase=row.name, contender=row.contender or "", metric=metric, better=better, solo=solo,
                         value=value, harm=0.0 if met else harm(solo, value, better), demand_met=met)
                )  # fmt: skip
    return harmed
