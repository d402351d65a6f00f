# SPDX-License-Identifier: Apache-2.0
"""The panel of the loads of web pages in the timeline of a run."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.harness.report.svg import Line, Panel
from sojourn.scoring.schema.scores import PageLoad

_HEIGHT = 190


def loads_panel(loads: Sequence[PageLoad]) -> Panel:
    """Return a panel in which every load is a line that rises with the time since its navigation began.

    Its parts end at First Contentful Paint, at Largest Contentful Paint and at the load event. The last part of a load
    that did not finish, because its phase ended, the user left or it failed, has another colour.
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
        "fcp": ("who-c", "until FCP"), "lcp": ("who-quality", "until LCP"),
        "load": ("who-victim bold", "until loaded"), "cut": ("who-drops", "cut off"),
    }  # fmt: skip
    panel.lines = [Line(kind, parts[name], words) for name, (kind, words) in looks.items() if parts[name]]
    return panel


def _rise(start: float, low: float, high: float) -> list[tuple[float, float | None]]:
    return [(start + low, low), (start + high, high), (start + high, None)]
