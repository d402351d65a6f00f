# SPDX-License-Identifier: Apache-2.0
"""The times and rates of a cell's specification: when its flows run, and the bottleneck's rate over time."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Direction
from sojourn.scoring.schema.windows import Window
from sojourn.traffic.spec import Flow


def stop_s(flow: Flow, seconds: float) -> float:
    """Return when a flow stops, s: by default with its cell of `seconds`."""
    return seconds if flow.stop_s is None else flow.stop_s


def steady_window(flows: Sequence[Flow], seconds: float, window_s: float, tail_s: float) -> Window:
    """Return the steady-state window, s of the cell: `window_s` long, ending `tail_s` before the first flow stops.

    It never begins before the last flow has started. It is empty if the flows do not all run at the same time.
    """
    end = min((stop_s(flow, seconds) for flow in flows), default=seconds) - tail_s
    begin = max(end - window_s, max((flow.start_s for flow in flows), default=0.0))
    return min(begin, end), end


def flow_windows(flows: Sequence[Flow], seconds: float, window_s: float, tail_s: float) -> list[Window]:
    """Return the steady-state window of each flow, s of the cell: that of all flows, if it is not empty.

    If it is empty, a flow has that of the flows of its direction; if this is empty too, its own.
    """
    windows = []
    for flow in flows:
        groups = flows, [it for it in flows if it.up is flow.up], [flow]
        of_groups = [steady_window(group, seconds, window_s, tail_s) for group in groups]
        windows.append(next((it for it in of_groups if it[0] < it[1]), of_groups[-1]))
    return windows


def rate_periods(cell: Cell) -> list[tuple[float, float | None]]:
    """Return the downlink rate over time: (from s, Mbit/s), the minimum of all middleboxes; None if unshaped."""
    hops = [(hop.down, hop.schedule) for hop in cell.hops if hop.down]
    moments = sorted({0.0, *(step.at_s for _, schedule in hops for step in schedule)})
    periods: list[tuple[float, float | None]] = []
    for moment in moments:
        rates = [
            _shaped_bps(down, ([down.rate_bps] + [step.rate_bps for step in schedule if step.at_s <= moment])[-1])
            for down, schedule in hops
        ]
        rate = min(rates) / 1e6 if rates else None
        if not periods or periods[-1][1] != rate:
            periods.append((moment, rate))
    return periods


def _shaped_bps(way: Direction, link_bps: int) -> int:
    """Return the bit/s of a direction whose link has `link_bps`: as many, or less if the queue shapes itself (cake)."""
    return min(link_bps, way.qdisc.shapes_bps or link_bps)


def rate_in(periods: Sequence[tuple[float, float | None]], window: Window) -> float | None:
    """Return the bottleneck's rate in the window, Mbit/s; None if it changes, is not shaped, or the window is empty."""
    if window[1] <= window[0]:
        return None
    ends = [start for start, _ in periods[1:]] + [float("inf")]
    inside = zip(periods, ends, strict=True)
    rates = {rate for (start, rate), end in inside if start < window[1] and end > window[0]}
    return rates.pop() if len(rates) == 1 else None
