# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run, drawn once: for its page, as a figure for documents, and for its film."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from sojourn.harness.report.grids import bottleneck
from sojourn.harness.report.headline import measurement, outcomes, sentence, title
from sojourn.harness.report.svg import Panel, Points, time_plot
from sojourn.harness.store.loaded import stored_object
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import RunSeries, run_series

_FIGURE = 1000.0, 540.0  # px
#: The line that is dashed where colours cannot be told apart.
_DASHED = {"contender": "contender solo-curve"}
#: Maximum length of a heading's line in characters.
_WIDEST = 130


def timeline(view: RunSeries) -> str:
    """Return the timeline of a run's page as SVG."""
    return time_plot(panels(view), phases(view), "Goodput, quality and queue over time")


def figure(scores: Scores, run: Path) -> str:
    """Return goodput and quality over time as SVG, under a heading with the outcome."""
    view = run_series(scores, run)
    return time_plot(panels(view)[:2], phases(view), "Goodput and quality", size=_FIGURE, heading=_heading(scores, run))


def column_figure(scores: Scores, run: Path, size: tuple[float, float]) -> str:
    """Return goodput and quality over time as SVG for a column of text: without a heading, dashed instead of coloured.

    `size` is width and height in px.
    """
    view = run_series(scores, run)
    goodput, quality = panels(view)[:2]
    goodput.lines = [(_DASHED.get(kind, kind), points) for kind, points in goodput.lines]
    goodput.key = [(_DASHED.get(kind, kind), name) for kind, name in goodput.key]
    quality.key = [(kind, kind) for kind, _ in quality.key]
    return time_plot([goodput, quality], phases(view), "Goodput and quality", size=size)


def film_plot(view: RunSeries, size: tuple[float, float], stamp: str, next_to: Sequence[RunSeries] = ()) -> str:
    """Return goodput, quality and the probes' delays over time as SVG; `size` and `stamp` as in `time_plot`.

    Rates and delays have the same axes as in the runs shown next to it.
    """
    shown, *others = ([*panels(it)[: 2 + len(it.rtts)]] for it in (view, *next_to))
    for place, panel in enumerate(shown):
        if not panel.labels:
            panel.top = max([panel.top, *(other[place].top for other in others if place < len(other))])
    return time_plot(shown, phases(view), "Goodput, quality and delay", size=size, stamp=stamp)


def watched(scores: Scores, run: Path) -> str:
    """Return what was watched through which bottleneck."""
    return ", ".join(filter(None, [_service(run), bottleneck(scores.lab)]))


def _service(run: Path) -> str:
    return str(stored_object(run / "options.json").get("service", ""))


def _heading(scores: Scores, run: Path) -> list[str]:
    """Return what was measured, the worst harm, and the outcome with every contender, one line each."""
    if not scores.validity.valid:
        return [f"{measurement('invalid').text}: {watched(scores, run)}"]
    service, had = _service(run), outcomes(scores)
    lines = [f"{watched(scores, run)}: {title(had)}", *(sentence(outcome, service) for outcome in had)]
    return [part for line in lines for part in textwrap.wrap(line, _WIDEST)]


def panels(view: RunSeries) -> list[Panel]:
    """Return the panels of the timeline: goodput, quality with freezes, and the queue's report."""
    rate: Points = [(t, mbps) for start, end, mbps in view.rates for t in (start, end)]
    goodput = Panel("goodput (Mbit/s)", 190, _top(view.victim, view.contender, rate))
    goodput.lines = [("published solo-curve", rate)] if rate else []
    goodput.lines += [("contender", view.contender), ("victim", view.victim)]
    goodput.key = [("victim", "victim"), ("contender", "contender")]
    goodput.key += [("published solo-curve", "bottleneck's rate")] if rate else []
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
    drawn = {kind for kind, *_ in quality.spans}
    names = {"stall": "stall of 0.5 s or more", "freeze": "other freeze"}
    quality.key = [(kind, name) for kind, name in names.items() if kind in drawn]
    strips = [goodput, quality]
    for probe in view.rtts:
        of = f"probe ({probe.name}), ms" if probe.name else "probe (ms)"
        lines: list[tuple[str, Points]] = [("c3", probe.largest), ("c0", probe.p50)]
        key = [("c0", "median"), ("c3", "maximum per half second")]
        strips.append(Panel(f"RTT of the {of}", 100, _top(probe.largest), lines=lines, key=key))
    queue = view.queue
    if queue.backlog_ms:
        name = f"backlog of {queue.kind} at the bottleneck's rate (ms)"
        strips.append(Panel(name, 100, _top(queue.backlog_ms), lines=[("c2", queue.backlog_ms)]))
    for name, points in queue.delays_ms.items():
        strips.append(Panel(f"{name} of {queue.kind} (ms)", 80, _top(points), lines=[("c3", points)]))
    counted = [("c2", "CE marks", queue.marks_per_s), ("c5", "drops", queue.drops_per_s)]
    if any(value for _, value in queue.sce_per_s):
        counted.insert(1, ("c0", "SCE marks", queue.sce_per_s))
    if any(value for *_, points in counted for _, value in points):
        strips.append(
            Panel(f"marks and drops of {queue.kind} per second", 100, _top(*(points for *_, points in counted)))
        )
        strips[-1].lines = [(colour, points) for colour, _, points in counted]
        strips[-1].key = [(colour, name) for colour, name, _ in counted]
    return strips


def _top(*series: Points) -> float:
    return max((value for points in series for _, value in points if value is not None), default=1.0) * 1.05 or 1.0


def phases(view: RunSeries) -> list[tuple[str, str, float, float]]:
    """Return name, css class, start and end (s) of every phase."""
    return [(p.name, "contended" if p.contender else "solo", p.start, p.end) for p in view.phases]
