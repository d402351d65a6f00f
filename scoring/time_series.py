# SPDX-License-Identifier: Apache-2.0
"""A run over time, from its scores and raw files, for reports, figures and films. Times in seconds of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import polars as pl

from sojourn.scoring.evidence import first_of
from sojourn.scoring.packets.latency import ProbeError, read_irtt
from sojourn.scoring.packets.queue_series import Points, QueueSeries, read_queue
from sojourn.scoring.room import THINNED
from sojourn.scoring.schema.scores import Curve, PageLoad, PartyScores, PhaseScores, Scores, rate_steps
from sojourn.traffic.probes import PROBES, LatencyProbe

#: Seconds of a point of the probe's round-trip times: dense enough for a spike, and a page stays small.
_RTT_STEP = 0.5


@dataclass(frozen=True)
class Span:
    """A phase, in seconds from the start of the first one."""

    name: str
    contender: str | None
    start: float
    end: float


@dataclass(frozen=True)
class Frozen:
    """A stall (0.5 s and longer) or a freeze by WebRTC's definition; seconds."""

    kind: str
    start: float
    length: float


@dataclass(frozen=True)
class ProbeSeries:
    """Round-trip times of a probe, ms: median and maximum per step; `name` is empty if there is only one probe."""

    name: str
    p50: Points
    largest: Points


@dataclass
class RunSeries:
    """A run over time. Goodputs in Mbit/s, delays in ms, heights in lines, times in seconds of the run."""

    phases: list[Span]
    victim: Points
    contender: Points
    quality: list[tuple[float, float, int]]  # (start, end, height)
    frozen: list[Frozen]
    ccdfs: list[tuple[str, list[tuple[str, str | None, Points]]]]
    """Per probe, by its name: (phase, contender, (ms, percent)) of every curve."""
    queue: QueueSeries = field(default_factory=QueueSeries)
    rtts: list[ProbeSeries] = field(default_factory=list)
    ear: Points = field(default_factory=list)
    """Median mouth-to-ear delay of a call's sound per step, ms."""
    gaps: Points = field(default_factory=list)
    """Gaps in the sound at the ear per step, ms."""
    late: Points = field(default_factory=list)
    """Median lateness of a game's ticks per step, ms."""
    latest: Points = field(default_factory=list)
    inputs_latest: Points = field(default_factory=list)
    """The largest lateness of its ticks and inputs per step, ms."""
    loads: Sequence[PageLoad] = ()
    parties: dict[int, list[tuple[float, float, int]]] = field(default_factory=dict)
    """Start, end and height of every party's picture in a room."""
    thinned: dict[int | None, list[tuple[float, float]]] = field(default_factory=dict)
    """When a party's picture was thinned (`sojourn.scoring.room.THINNED`); of a call, that at the client: None."""
    rates: list[tuple[float, float, float]] = field(default_factory=list)
    """Start, end and rate (Mbit/s) of every period of the downlink rate; empty if it does not step."""

    @property
    def end(self) -> float:
        """Seconds of the run at which the last phase ends."""
        return self.phases[-1].end if self.phases else 0.0

    @property
    def heights(self) -> list[int]:
        """The heights shown, lowest first."""
        return sorted({height for *_, height in self.quality})


FILES = ("qdisc.jsonl", *(f"{probe.file}.json{gz}" for probe in PROBES for gz in (".gz", "")))
"""The files that `run_series` reads, in addition to scores and lab.json."""


def run_series(scores: Scores, run: Path) -> RunSeries:
    """Return a run over time: its scores, and from its files the queue and the probes, if present."""
    phases = [Span(p.name, p.contender, p.start, p.end) for p in scores.phases]
    end = phases[-1].end
    queue = QueueSeries()
    if rate := scores.lab.get("rate_down_bps"):
        steps = [(0.0, float(rate)), *rate_steps(scores.lab)]

        def at(t: float) -> float:
            return next(bps for start, bps in reversed(steps) if start <= t - scores.t0 or not start)

        queue = _shifted(read_queue(run / "qdisc.jsonl", _bottleneck(run), at), scores.t0, end)
    contenders = {phase.name: phase.contender for phase in phases}
    names = probe_names(scores)
    logs = [PROBES[0].file] if len(names) == 1 else [probe.file for probe, _ in names]
    series = [ProbeSeries(name, *_rtt(run, log, scores.t0, end)) for (_, name), log in zip(names, logs, strict=True)]
    return RunSeries(
        phases=phases,
        victim=_middles(scores, "victim_mbps"),
        contender=_while_competing(_middles(scores, "contender_mbps"), phases),
        quality=_quality(scores, scores.phases[0], end),
        frozen=[Frozen(f.kind, f.t, f.length) for f in scores.freezes if -f.length < f.t < end],
        ccdfs=[(name, _shown(getattr(scores, f"{probe.prefix}ccdf"), contenders)) for probe, name in names],
        queue=queue,
        rtts=[one for one in series if one.p50],
        loads=scores.loads,
        parties={one.party: _quality(one, one.phases[0], end) for one in scores.parties},
        thinned={None: _thinned(scores, end), **{one.party: one.thinned for one in scores.parties}},
        rates=_rates(scores, end),
        ear=_middles(scores, "ear_ms"),
        late=_middles(scores, "tick_late_ms"),
        latest=_middles(scores, "tick_latest_ms"),
        inputs_latest=_middles(scores, "input_latest_ms"),
        gaps=[(t, None if gap is None else 1e3 * gap) for t, gap in _middles(scores, "ear_gap_s")],
    )


def probe_names(scores: Scores) -> list[tuple[LatencyProbe, str]]:
    """Return the probes of a run with their names: their queues in dualpi2, otherwise their codepoints.

    The single probe of runs of scores before 2.2 has no name: only the options have its codepoint.
    """
    there = [
        probe for probe in PROBES if any(curve.name != "unshaped" for curve in getattr(scores, f"{probe.prefix}ccdf"))
    ]
    if there == [PROBES[0]]:
        return [(PROBES[0], "")]
    return [(probe, probe.called(scores.lab.get("qdisc_down"))) for probe in there]


def _shown(curves: Sequence[Curve], contenders: Mapping[str, str | None]) -> list[tuple[str, str | None, Points]]:
    """Return the curves of contenders' phases and, last, of the baseline; a single solo phase serves as baseline."""
    return [
        (curve.name, contenders.get(curve.name), list(zip(curve.ms, curve.percent, strict=True)))
        for name, curve in {curve.name: curve for curve in curves}.items()
        if name in ("solo", "unshaped") or contenders.get(name)
    ]


def _thinned(scores: Scores, end: float) -> list[tuple[float, float]]:
    """Return the seconds of a call with less than `THINNED` of the frame rate alone; players do not reduce theirs."""
    fps, step = scores.baseline.fps if scores.baseline and scores.far else None, scores.series.step_s
    bins = zip(scores.series.t, scores.series.fps or (), strict=False)
    return [(t, t + step) for t, shown in bins if shown < THINNED * (fps or 0) and t + step <= end]


def _rates(scores: Scores, end: float) -> list[tuple[float, float, float]]:
    if not (steps := rate_steps(scores.lab)) or not (first := scores.lab.get("rate_down_bps")):
        return []
    starts = [(0.0, float(first)), *steps, (end, 0.0)]
    return [(start, stop, bps / 1e6) for (start, bps), (stop, _) in pairwise(starts) if start < end]


def _rtt(run: Path, name: str, t0: float, end: float) -> tuple[Points, Points]:
    """Return median and maximum round-trip time of a probe per step; None for steps without a reply."""
    file = first_of(run, f"{name}.json.gz", f"{name}.json")
    try:
        probes = read_irtt(file) if file else None
    except ProbeError:  # scoring reports it; the rest is drawn
        probes = None
    if probes is None:
        return [], []
    inside = probes.with_columns(at=((pl.col("t") - t0) / _RTT_STEP).floor() * _RTT_STEP + _RTT_STEP / 2)
    inside = (
        inside.filter(pl.col("at").is_between(0, end)).group_by("at").agg(p50=pl.median("rtt_ms"), max=pl.max("rtt_ms"))
    )
    by_time = inside.sort("at")
    return list(by_time.select("at", "p50").iter_rows()), list(by_time.select("at", "max").iter_rows())


def _bottleneck(run: Path) -> str:
    # A physical router's devices have their own names.
    try:
        return str(json.loads((run / "lab.json").read_text())["interfaces"]["lan"])
    except (OSError, ValueError, KeyError):
        return "lan"


def _middles(scores: Scores, name: str) -> Points:
    values: list[float] = getattr(scores.series, name) or []
    return [(t + scores.series.step_s / 2, value) for t, value in zip(scores.series.t, values, strict=False)]


def _while_competing(points: Points, phases: list[Span]) -> Points:
    # An absent contender is not a contender at 0 Mbit/s.
    competing = [(phase.start, phase.end) for phase in phases if phase.contender]
    return [(t, value if any(a <= t < b for a, b in competing) else None) for t, value in points]


def _quality(seen: Scores | PartyScores, first: PhaseScores, end: float) -> list[tuple[float, float, int]]:
    before = [change.after for change in seen.renditions if change.t <= 0]
    later = [change for change in seen.renditions if 0 < change.t < end]
    height = before[-1] if before else later[0].before if later else first.dominant_height
    segments, at = [], 0.0
    for change in later:
        if height is not None:
            segments.append((at, change.t, height))
        at, height = change.t, change.after
    return [*segments, (at, end, height)] if height is not None else segments


def _shifted(queue: QueueSeries, t0: float, end: float) -> QueueSeries:
    def shift(points: Points) -> Points:
        return [(t - t0, value) for t, value in points if 0 <= t - t0 <= end]

    return QueueSeries(
        queue.kind,
        shift(queue.backlog_ms),
        {name: shift(points) for name, points in queue.delays_ms.items()},
        shift(queue.marks_per_s),
        shift(queue.sce_per_s),
        shift(queue.drops_per_s),
    )
