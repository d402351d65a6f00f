# SPDX-License-Identifier: Apache-2.0
"""Series of the bottleneck's queue from `qdisc.jsonl`: backlog, marks and drops, for every qdisc."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn.bottleneck.qdiscs import marks, sce_marks
from sojourn.scoring.packets.queue_delay import carrier, class_delays
from sojourn.scoring.schema import records

Points = list[tuple[float, float | None]]
_STEP_S = 0.5


@dataclass
class QueueSeries:
    """Series over Unix seconds; empty if the router reported nothing."""

    kind: str = ""
    backlog_ms: Points = field(default_factory=list)  # backlog over the shaper's rate
    delays_ms: dict[str, Points] = field(default_factory=dict)  # the qdisc's own figures, e.g. delay_l
    marks_per_s: Points = field(default_factory=list)  # CE
    sce_per_s: Points = field(default_factory=list)  # ECT(0) made ECT(1)
    drops_per_s: Points = field(default_factory=list)


def read_queue(file: Path, device: str, rate_bps: Callable[[float], float]) -> QueueSeries:
    """Return the series of the qdisc that carries the traffic of `device`, one point per _STEP_S.

    `rate_bps`, the shaper's rate at a time in Unix s, turns the backlog into ms. Counters that restart (the
    qdisc was replaced) interrupt the series. A missing file gives empty series; an incomplete last line is skipped.
    """
    samples = _samples(file, device)
    series = QueueSeries()
    handle = carrier(samples)
    before: tuple[float, dict[str, Any]] | None = None
    worst = 0.0
    for sample in samples:
        t = float(sample["t"])
        now = next((q for q in sample["qdiscs"] if q.get("handle") == handle), None)
        if now is None:
            continue
        worst = max(worst, float(now.get("backlog", 0)))
        if before and t - before[0] < _STEP_S:
            continue
        series.kind = now["kind"]
        # The worst of the samples between two points is drawn: a spike must not hide between them.
        series.backlog_ms.append((t, worst * 8e3 / rate_bps(t)))
        worst = 0.0
        delays = [(key, value) for key, value in now.items() if key.startswith("delay")]
        delays += [("ldelay", waited) for waited in class_delays(sample, handle)]
        for key, value in delays:
            if isinstance(value, int | float):
                series.delays_ms.setdefault(key, []).append((t, value / 1e3))
        if before:
            series.marks_per_s.append((t, _rate(before, (t, now), lambda qdisc: marks(qdisc) or 0)))
            series.sce_per_s.append((t, _rate(before, (t, now), lambda qdisc: sce_marks(qdisc) or 0)))
            series.drops_per_s.append((t, _rate(before, (t, now), _drops)))
        before = (t, now)
    return series


def _samples(file: Path, device: str) -> list[dict[str, Any]]:
    try:
        samples = records.read_lines(file, records.QDISC) if file.exists() else []
    except records.RecordError:  # the scores say so
        return []
    return [sample for sample in samples if sample["dev"] == device]


def _drops(qdisc: dict[str, Any]) -> float:
    return float(qdisc.get("drops", 0))


def _rate(before: tuple[float, dict[str, Any]], now: tuple[float, dict[str, Any]], count: Any) -> float | None:
    more = count(now[1]) - count(before[1])
    return more / (now[0] - before[0]) if more >= 0 else None
