# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run, drawn once: for its page, as a figure for documents, and for its film."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from sojourn.harness.report.grids import queue_and_rate
from sojourn.harness.report.headline import measurement, outcomes, sentence, title
from sojourn.harness.report.page_loads import loads_panel
from sojourn.harness.report.palette import who
from sojourn.harness.report.svg import Line, Panel, Points, time_plot
from sojourn.harness.store.loaded import stored_object
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import RunSeries, run_series

_FIGURE_SIZE = 1000.0, 540.0
"""Width and height of a figure, px."""
_SMOOTH_S = 5.0
#: The delays that queues report: whose, and in words.
_DELAYS = {
    "delay-c": ("c", "delay in the C queue"),
    "delay-l": ("l", "delay in the L queue"),
    "delay": ("c", "delay in the queue"),
    "ldelay": ("c", "delay of the last packet"),
}
_THINNED = "frame rate below 3/4 of the baseline"
#: Maximum length of a heading's line in characters.
_WIDEST = 130


def timeline(view: RunSeries) -> str:
    """Return the timeline of a run's page as SVG."""
    return time_plot(panels(view), _phases(view), "The run over time")


def figure(scores: Scores, run: Path) -> str:
    """Return goodput and what the victim had over time as SVG, under a heading with the outcome."""
    view = run_series(scores, run)
    shown, heading = panels(view)[:2], _figure_heading(scores, run)
    return time_plot(shown, _phases(view), _titles(shown), size=_FIGURE_SIZE, heading=heading)


def column_figure(scores: Scores, run: Path, size: tuple[float, float]) -> str:
    """Return the same figure for a column of text: without a heading and a long key, dashed instead of coloured.

    `size` is width and height in px.
    """
    view = run_series(scores, run)
    shown = goodput, second = panels(view)[:2]
    # The phases name the contenders.
    goodput.lines = [it._replace(name="victim" if "bold" in it.kind else "") for it in goodput.lines]
    second.lines = [it._replace(name="thinned" if it.name == _THINNED else "") for it in second.lines]
    second.names = {kind: kind for kind in second.names}
    return time_plot(shown, _phases(view), _titles(shown), size=size)


def _titles(shown: Sequence[Panel]) -> str:
    return ", ".join(panel.title for panel in shown)


def film_plot(view: RunSeries, size: tuple[float, float], stamp: str, next_to: Sequence[RunSeries] = ()) -> str:
    """Return goodput, quality, the probes' delays and a call's sound over time as SVG.

    `size` and `stamp` are those of `time_plot`. Rates and delays have the same axes as in the runs shown next to it.
    """
    shown, *others = ([*panels(it)[: 2 + len(it.rtts) + bool(it.ear)]] for it in (view, *next_to))
    for place, panel in enumerate(shown):
        if not panel.labels:
            panel.top = max([panel.top, *(other[place].top for other in others if place < len(other))])
    return time_plot(shown, _phases(view), "Goodput, quality and delay", size=size, stamp=stamp)


def watched(scores: Scores, run: Path) -> str:
    """Return what was watched through which bottleneck: `YouTube stand-in through dualpi2, 10 Mbit/s`."""
    return f"{_watched(run)} through {queue_and_rate(scores.lab)}"


def _watched(run: Path) -> str:
    from sojourn.apps import SERVICES

    options = stored_object(run / "options.json")
    service = SERVICES.get(_service(run))
    if service is None:
        return "Video"
    imitated = not options.get("live") and not options.get("url")
    return f"{service.brand}{' stand-in' * imitated}" if service.brand else service.watched


def _service(run: Path) -> str:
    return str(stored_object(run / "options.json").get("service", ""))


def _figure_heading(scores: Scores, run: Path) -> list[str]:
    """Return what was measured, the worst harm, and the outcome with every contender, one line each."""
    if not scores.validity.valid:
        return [f"{measurement('invalid').text}: {watched(scores, run)}"]
    service, had = _service(run), outcomes(scores)
    lines = [f"{watched(scores, run)}: {title(had)}", *(sentence(outcome, service) for outcome in had)]
    return [part for line in lines for part in textwrap.wrap(line, _WIDEST)]


def panels(view: RunSeries) -> list[Panel]:
    """Return the panels of the timeline: goodput, what the victim had, probes, a call's sound, the queue's report.

    A victim has a picture's quality with its freezes, a room its parties, a game its lateness, pages their loads.
    """
    rate: Points = [(t, mbps) for start, end, mbps in view.rates for t in (start, end)]
    goodput = Panel("goodput (Mbit/s)", 190, _top(view.victim, view.contender, rate))
    # A player fetches segments: its seconds jump between all and nothing.
    goodput.lines = [
        Line("who-victim faint", view.victim),
        Line("who-victim bold", _smooth(view), f"victim, mean of {_SMOOTH_S:g} s"),
    ]
    goodput.lines += [
        Line(who(contender), _during(view, view.contender, contender), contender)
        for contender in dict.fromkeys(phase.contender for phase in view.phases if phase.contender)
    ]
    goodput.lines += [Line("who-published", rate, "bottleneck's rate")] if rate else []
    rungs = {height: rung + 1 for rung, height in enumerate(view.heights)}
    quality = Panel("quality shown", 42 + 26 * len(rungs), len(rungs) + 0.5)
    quality.labels = [(rung, f"{height}p") for height, rung in rungs.items()]
    quality.lines = _heights(view.quality, view.thinned.get(None, ()), rungs)
    stalls = [f for f in view.frozen if f.kind == "stall"]
    for frozen in sorted(view.frozen, key=lambda f: f.kind != "webrtc"):
        # A stall is also a freeze: it is drawn once.
        if frozen.kind == "stall" or not any(abs(frozen.start - s.start) < 0.05 for s in stalls):
            kind = "stall" if frozen.kind == "stall" else "freeze"
            tip = f"{kind} of {frozen.length:.2f} s at {frozen.start:.1f} s"
            quality.spans.append((kind, frozen.start, frozen.length, tip))
    drawn = {kind for kind, *_ in quality.spans}
    names = {"stall": "stall of 0.5 s or more", "freeze": "other freeze"}
    quality.names = {kind: name for kind, name in names.items() if kind in drawn}
    if view.late:
        second = _lateness(view)
    elif view.parties:
        second = _room(view, quality)
    else:
        second = loads_panel(view.loads) if view.loads else quality
    strips = [goodput, second]
    for probe in view.rtts:
        of = f"probe ({probe.name}), ms" if probe.name else "probe (ms)"
        kind = who(probe.name or "c")
        lines = [Line(f"{kind} faint", probe.largest, "maximum per half second"), Line(kind, probe.p50, "median")]
        strips.append(Panel(f"round-trip time of the {of}", 100, _top(probe.largest), lines=lines))
    if view.ear:
        lines = [Line("who-victim bold", view.ear, "median delay"), Line("who-drops", view.gaps, "gaps, per second")]
        strips.append(Panel("sound: mouth to ear, and gaps (ms)", 100, _top(view.ear, view.gaps), lines=lines))
    queue = view.queue
    if queue.backlog_ms:
        name = f"backlog of {queue.kind} at the bottleneck's rate (ms)"
        strips.append(Panel(name, 100, _top(queue.backlog_ms), lines=[Line("who-c", queue.backlog_ms)]))
    for name, points in queue.delays_ms.items():
        which, words = _DELAYS.get(name.replace("_", "-"), ("c", name))
        title = f"{words} as {queue.kind} reports it (ms)"
        strips.append(Panel(title, 80, _top(points), lines=[Line(who(which), points)]))
    counted = [
        Line("who-marks", queue.marks_per_s, "CE marks"),
        Line("who-sce", queue.sce_per_s, "SCE marks"),
        Line("who-drops", queue.drops_per_s, "drops"),
    ]
    if not any(value for _, value in queue.sce_per_s):
        del counted[1]
    if any(value for line in counted for _, value in line.points):
        highest = _top(*(line.points for line in counted))
        strips.append(Panel(f"marks and drops of {queue.kind} per second", 100, highest, lines=counted))
    return strips


def _lateness(view: RunSeries) -> Panel:
    """Return the panel of a game, which has no picture: how late its packets were."""
    lines = [
        Line("who-victim faint", view.latest, "latest tick per second"),
        Line("who-victim bold", view.late, "median of the ticks"),
        Line("who-published", view.inputs_latest, "latest input"),
    ]
    return Panel("lateness of the game's packets (ms)", 140, _top(view.latest, view.inputs_latest), lines=lines)


def _room(view: RunSeries, quality: Panel) -> Panel:
    """Return the panel of a room: a band for each party, in which its picture rises with its height.

    Freezes are those of any picture on the client's screen, as in the panel `quality`.
    """
    heights = sorted({height for shown in view.parties.values() for _, _, height in shown})
    rungs = {height: n + 1 for n, height in enumerate(heights)}
    bands = {party: n * (len(rungs) + 1) for n, party in enumerate(sorted(view.parties, reverse=True))}
    panel = Panel("picture of each party", 24 + 46 * len(bands), (len(rungs) + 1) * len(bands))
    panel.labels = [(band + n, f"{party}: {height}p") for party, band in bands.items() for height, n in rungs.items()]
    for party, shown in view.parties.items():
        places = {height: bands[party] + rung for height, rung in rungs.items()}
        panel.lines += _heights(shown, view.thinned.get(party, ()), places)
    panel.spans, panel.names = quality.spans, quality.names
    return panel


def _heights(
    shown: Sequence[tuple[float, float, int]], thinned: Sequence[tuple[float, float]], places: Mapping[int, float]
) -> list[Line]:
    """Return the heights of a picture over time as a line, which is dashed where its frame rate is `thinned`."""
    whole, dashed = (list[tuple[float, float | None]]() for _ in range(2))
    for start, end, height in shown:
        cuts = sorted({t for span in thinned for t in span if start < t < end})
        for since, until in pairwise([start, *cuts, end]):
            few = any(begin <= since < stop for begin, stop in thinned)
            drawn, lifted = (dashed, whole) if few else (whole, dashed)
            drawn += [(since, places[height]), (until, places[height])]
            lifted.append((until, None))
    lines = [Line("who-quality", whole), Line("who-quality thinned", dashed, _THINNED)]
    return [line for line in lines if any(place is not None for _, place in line.points)]


def _during(view: RunSeries, points: Points, contender: str) -> Points:
    """Return the points in the phases of a contender."""
    spans = [(phase.start, phase.end) for phase in view.phases if phase.contender == contender]
    return [(t, value if any(start <= t < end for start, end in spans) else None) for t, value in points]


def _smooth(view: RunSeries) -> Points:
    """Return the victim's goodput as the mean of the 5 s around every point, within its phase."""
    means: list[tuple[float, float | None]] = []
    for phase in view.phases:
        inside = [(t, value) for t, value in view.victim if value is not None and phase.start <= t < phase.end]
        means += [(t, fmean(value for at, value in inside if abs(at - t) <= _SMOOTH_S / 2)) for t, _ in inside]
    return means


def _top(*series: Points) -> float:
    return max((value for points in series for _, value in points if value is not None), default=1.0) * 1.05 or 1.0


def _phases(view: RunSeries) -> list[tuple[str, str, float, float]]:
    """Return name, css classes, start and end (s) of every phase."""
    return [(p.name, f"contended {who(p.contender)}" if p.contender else "solo", p.start, p.end) for p in view.phases]
