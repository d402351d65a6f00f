# SPDX-License-Identifier: Apache-2.0
"""The loads of web pages over the timeline of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sojourn.harness.report.svg import Line, Panel, time_plot
from sojourn.harness.report.timeline import FIGURE_SIZE, figure_heading, panels, phases
from sojourn.scoring.schema.scores import PageLoad, Scores
from sojourn.scoring.time_series import RunSeries, run_series

_HEIGHT = 190
_LOADED = "until loaded"


def pages_timeline(view: RunSeries, scores: Scores) -> str:
    """Return the timeline of a run's page as SVG, with the loads of pages instead of a picture's quality."""
    goodput, _quality, *further = panels(view)
    strips = [goodput, loads_panel(scores.loads), *further]
    return time_plot(strips, phases(view), "Goodput, page loads and queue over time")


def pages_figure(scores: Scores, run: Path, column: tuple[float, float] | None) -> str:
    """Return goodput and page loads over time as SVG: under a heading with the outcome, or for a `column` of text.

    `column` is its width and height in px.
    """
    view = run_series(scores, run)
    goodput, loads = panels(view)[0], loads_panel(scores.loads)
    if column:
        # A column has no colours, and no room for a long key: the phases name the contenders.
        goodput.lines = [it._replace(name="victim" if "bold" in it.kind else "") for it in goodput.lines]
        loads.title = "page loads (s)"
        kinds = ((it, "who-victim bold" if it.name == _LOADED else "who-c thin") for it in loads.lines)
        loads.lines = [it._replace(kind=kind, name="") for it, kind in kinds]
        return time_plot([goodput, loads], phases(view), "Goodput and page loads", size=column)
    return time_plot(
        [goodput, loads], phases(view), "Goodput and page loads", size=FIGURE_SIZE, heading=figure_heading(scores, run)
    )


def loads_panel(loads: Sequence[PageLoad]) -> Panel:
    """Return a panel in which every load is a line that rises with the time since its navigation began.

    Its parts end at First Contentful Paint, at Largest Contentful Paint and at the load event. A load that its phase's
    end cut off has no end: its last part has another colour.
    """
    parts: dict[str, list[tuple[float, float | None]]] = {"fcp": [], "lcp": [], "load": [], "cut": []}
    for load in loads:
        reached = 0.0
        # The load event may precede the largest paint.
        for name, ms in (("fcp", load.fcp_ms), ("lcp", load.lcp_ms), ("load", load.load_ms)):
            if ms is not None and ms / 1e3 > reached:
                parts[name] += _rise(load.t, reached, ms / 1e3)
                reached = ms / 1e3
        if not load.finished:
            parts["cut"] += _rise(load.t, reached, max(load.had_ms / 1e3, reached))
    top = max((value for points in parts.values() for _, value in points if value is not None), default=1.0)
    panel = Panel("page loads: time since the navigation began (s)", _HEIGHT, top * 1.05 or 1.0)
    looks = {
        "fcp": ("who-c bold", "until FCP"), "lcp": ("who-quality", "until LCP"),
        "load": ("who-victim bold", _LOADED), "cut": ("who-drops bold", "cut off"),
    }  # fmt: skip
    panel.lines = [Line(kind, parts[name], words) for name, (kind, words) in looks.items() if parts[name]]
    return panel


def _rise(start: float, low: float, high: float) -> list[tuple[float, float | None]]:
    return [(start + low, low), (start + high, high), (start + high, None)]
