# SPDX-License-Identifier: Apache-2.0
"""Rate, CE marks and queue delay of a cell's flows in steps of 100 ms, on one time axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from markupsafe import Markup

from sojourn.harness.matrix.matrix import Chart
from sojourn.harness.matrix.results import Results
from sojourn.harness.report.contender_names import display_name
from sojourn.harness.report.palette import looks
from sojourn.harness.report.svg import Line, Panel, time_plot
from sojourn.scoring.packets.intervals import STEP_S
from sojourn.scoring.schema.columns import INTERVALS

_HEIGHT = 80


def interval_charts(finished: Results, chart: Chart) -> Iterator[dict[str, Any]]:
    """Yield a plot per cell of a chart: panels of its flows' rate, CE share and queue delay, of the first seed."""
    for label, name in chart.cells.items():
        runs = finished.paths.get(name, {})
        if not runs or not (file := runs[min(runs)] / "intervals.csv").exists():
            continue
        cell = next(cell for cell in finished.cells if cell.name == name)
        flows = {said: int(metric.removeprefix("flows.")) for said, metric in chart.series.items()}
        called = [f"{said} ({display_name(cell.flows[n].contender)})" for said, n in flows.items()]
        kinds = looks([cell.flows[n].contender for n in flows.values()])
        panels = interval_panels(INTERVALS.read(file), dict(zip(flows.values(), kinds, strict=True)))
        title = " ".join(filter(None, (chart.title, label)))
        svg = time_plot(panels, [("", "solo", 0, cell.seconds)], title, axis="time (s)")
        yield {"title": title, "key": list(zip(called, kinds, strict=True)), "svg": Markup(svg)}


def interval_panels(table: pl.DataFrame, kinds: dict[int, str]) -> list[Panel]:
    """Return the panels of a table with the columns of INTERVALS; `kinds` are the CSS classes of the flows by number.

    The share of CE is that of packets with payload that the flow sent in the interval; an interval without packets
    has neither share nor queue delay.
    """
    share = pl.when(pl.col("sent") > 0).then(100 * pl.col("marked") / pl.col("sent"))
    shown = {"Mbit/s": pl.col("mbps"), "packets marked CE (%)": share, "time in the queue (ms)": pl.col("queue_ms")}
    panels = []
    for title, figure in shown.items():
        lines = []
        for flow, kind in kinds.items():
            rows = table.filter(pl.col("flow") == flow).select(pl.col("t_s") + STEP_S / 2, figure.alias("y"))
            lines.append(Line(kind, list(rows.iter_rows())))
        top = max((y for line in lines for _, y in line.points if y is not None), default=0)
        panels.append(Panel(title, _HEIGHT, max(top, 1e-3) * 1.05, lines=lines))
    return panels
