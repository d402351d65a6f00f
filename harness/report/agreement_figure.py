# SPDX-License-Identifier: Apache-2.0
"""A figure of published against Sojourn's values, for documents: one panel per quantity, one colour per source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator

_COLOURS = ("#0b62c4", "#c4420b", "#1a7f37", "#8250df", "#9a6700")
_FEW = 100
"""A source with at most this many dots is drawn larger and on top."""
_TICKS = 5
"""Maximum number of ticks, so that labels do not overlap in a panel of many decades."""


@dataclass(frozen=True)
class SourceDots:
    """The values of a source: pairs (published, Sojourn's), both above 0."""

    source: str
    dots: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Quantity:
    """A panel: its quantity with unit, and one series per source, in the same order in all panels."""

    title: str
    series: Sequence[SourceDots]


def draw(quantities: Sequence[Quantity], within: float, output: Path) -> None:
    """Write the figure; the suffix of `output` determines the format (png, svg, pdf).

    Axes are logarithmic; the band covers values within `within` of the published value (natural logarithm).
    Raises OSError.
    """
    figure = Figure(figsize=(10, 4.1), dpi=150, layout="constrained")
    count = max(len(quantities), 1)
    for axes, quantity in zip(figure.subplots(1, count, squeeze=False)[0], quantities, strict=False):
        _panel(axes, quantity, within)
    named = dict.fromkeys(one.source for quantity in quantities for one in quantity.series)
    totals = {
        name: sum(len(one.dots) for quantity in quantities for one in quantity.series if one.source == name)
        for name in named
    }
    handles = [
        Line2D(
            [], [], color=_COLOURS[n % len(_COLOURS)], marker="o", linestyle="", markersize=5, label=f"{name} ({total})"
        )
        for n, (name, total) in enumerate(totals.items())
        if total
    ]
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(output)


def _panel(axes: Axes, quantity: Quantity, within: float) -> None:
    values = [value for one in quantity.series for dot in one.dots for value in dot] or [1.0]
    lo, hi = min(values) / 1.3, max(values) * 1.3
    axes.set(xscale="log", yscale="log", xlim=(lo, hi), ylim=(lo, hi), aspect="equal", title=quantity.title)
    factor = math.exp(within)
    axes.fill_between([lo, hi], [lo / factor, hi / factor], [lo * factor, hi * factor], color="#d8dee4", lw=0)
    axes.plot([lo, hi], [lo, hi], color="#57606a", linewidth=0.8)
    for n, one in enumerate(quantity.series):
        few = len(one.dots) <= _FEW
        axes.scatter(
            [theirs for theirs, _ in one.dots], [ours for _, ours in one.dots],
            s=18 if few else 6, color=_COLOURS[n % len(_COLOURS)], alpha=0.8 if few else 0.35, linewidths=0,
            zorder=4 if few else 3,
        )  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=_TICKS))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("published")
    axes.set_ylabel("ours")
    axes.spines[["top", "right"]].set_visible(False)
