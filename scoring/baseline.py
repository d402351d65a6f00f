# SPDX-License-Identifier: Apache-2.0
"""The victim alone: the baseline windows, and the harm of every metric against them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sojourn.scoring.evidence import Setting
from sojourn.scoring.picture import rendition
from sojourn.scoring.schema.scores import HARMED, Harm, Metrics, PhaseScores
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.harm import SHORTEST_S, harm, recovery_s, solo_windows
from sojourn.scoring.transport import demand


def solo(setting: Setting, segments: list[rendition.Segment] | None) -> tuple[list[Window], list[Window]]:
    """Return the first solo phase, and the baseline windows after the picture has recovered.

    In a room, both end at the first step of the bottleneck's rate, since a room can be alone with a dip of the rate.
    """
    first = _before_steps([(p.start, p.end) for p in setting.phases if p.contender is None][:1], setting)
    best = rendition.dominant(rendition.shares(segments, first)) if segments else None
    windows = solo_windows(
        setting.phases,
        recovery_s(call=setting.kind == "call"),
        since_recovery=lambda window: rendition.since_recovery(segments, window, best) if segments else window,
    )
    return first, [window for window in _before_steps(windows, setting) if window[1] - window[0] >= SHORTEST_S]


def _before_steps(windows: list[Window], setting: Setting) -> list[Window]:
    step = min((rate["t"] for rate in setting.rates), default=math.inf) if setting.room else math.inf
    return [(start, min(end, step)) for start, end in windows if start < step]


def harms(rows: Sequence[PhaseScores], baseline: Metrics, capacity_mbps: float | None, *, call: bool) -> list[Harm]:
    """Return the harm of every metric in every phase with a contender; none if the baseline is infinite.

    `capacity_mbps` and `call` are those of `demand.met`: goodput has no harm if the victim's demand was met.
    """
    harmed = []
    for row in rows:
        unlimited = demand.met(row, baseline, capacity_mbps, call=call)
        for metric, better in HARMED.items() if row.contender else ():
            solo, value = getattr(baseline, metric), getattr(row, metric)
            if solo is not None and value is not None and math.isfinite(solo):
                met = unlimited and metric == demand.METRIC
                harmed.append(
                    Harm(phase=row.name, contender=row.contender or "", metric=metric, better=better, solo=solo,
                         value=value, harm=0.0 if met else harm(solo, value, better), demand_met=met)
                )  # fmt: skip
    return harmed
