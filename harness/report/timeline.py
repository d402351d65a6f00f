# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run: its panels and phases, for its page."""

from __future__ import annotations

from sojourn.harness.report.svg import Panel, Points
from sojourn.scoring.time_series import RunSeries


def panels(view: RunSeries) -> list[Panel]:
    """Return the panels of the timeline: goodput, quality with freezes, and the queue's report."""
    rate: Points = [(t, mbps) for start, end, mbps in view.rates for t in (start, end)]
    title = "goodput (Mbit/s)" + ("; dashed: the bottleneck's rate" if rate else "")
    goodput = Panel(title, 190, _top(view.victim, view.contender, rate))
    goodput.lines = [("published solo-curve", rate)] if rate else []
    goodput.lines += [("contender", view.contender), ("victim", view.victim)]
    rungs = {height: rung + 1 for rung, height in enumerate(view.heights)}
    quality = Panel("quality shown", 42 + 26 * len(rungs), len(rungs) + 0.5)
    quality.labels = [(rung, f"{height}p") for height, rung in rungs.items()]
    quality.steps = [(start, end, rungs[height]) for start, end, height in view.quality]
    stalls = [f for f in view.frozen if f.kind == "stall"]
    for frozen in sorted(view.frozen, key=lambda f: f.kind != "webrtc"):
        # A stall is also a freeze: it is drawn once.
        if frozen.kind == "stall" or not any(abs(frozen.start - s.start) < 0.05 for s in stalls):
            kind = "stall" if frozen.kind == "stall" else "freeze"
            tip = f"{kind} of {frozen.length:.2f} s at {frozen.start:.1f} s"
            quality.spans.append((kind, frozen.start, frozen.length, tip))
    strips = [goodput, quality]
    for probe in view.rtts:
        of = f"probe ({probe.name}), ms" if probe.name else "probe (ms)"
        title = f"RTT of the {of}: median (blue), maximum per half second (brown)"
        lines: list[tuple[str, Points]] = [("c3", probe.largest), ("c0", probe.p50)]
        strips.append(Panel(title, 100, _top(probe.largest), lines=lines))
    queue = view.queue
    if queue.backlog_ms:
        title = f"backlog of {queue.kind} at the bottleneck's rate (ms)"
        strips.append(Panel(title, 100, _top(queue.backlog_ms), lines=[("c2", queue.backlog_ms)]))
    for name, points in queue.delays_ms.items():
        strips.append(Panel(f"{name} of {queue.kind} (ms)", 80, _top(points), lines=[("c3", points)]))
    counted = [("c2", "CE marks (purple)", queue.marks_per_s), ("c5", "drops (red)", queue.drops_per_s)]
    if any(value for _, value in queue.sce_per_s):
        counted.insert(1, ("c0", "SCE marks (blue)", queue.sce_per_s))
    if any(value for *_, points in counted for _, value in points):
        names = [name for _, name, _ in counted]
        title = f"{', '.join(names[:-1])} and {names[-1]} per second of {queue.kind}"
        lines = [(colour, points) for colour, _, points in counted]
        strips.append(Panel(title, 100, _top(*(points for *_, points in counted)), lines=lines))
    return strips


def _top(*series: Points) -> float:
    return max((value for points in series for _, value in points if value is not None), default=1.0) * 1.05 or 1.0


def phases(view: RunSeries) -> list[tuple[str, str, float, float]]:
    """Return name, css class, start and end (s) of every phase."""
    return [(p.name, "contended" if p.contender else "solo", p.start, p.end) for p in view.phases]
