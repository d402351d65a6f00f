# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run as a figure, for documents: goodput above, quality and stalls below."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sojourn.harness.report.grids import bottleneck
from sojourn.harness.report.headline import measurement, outcomes, sentence
from sojourn.harness.report.headline import title as worst
from sojourn.harness.store.loaded import stored_object
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import RunSeries, run_series

_VICTIM, _CONTENDER, _QUALITY, _STALL = "#0b62c4", "#c4420b", "#1a7f37", "#d1242f"
#: Maximum length of a title's line in characters.
_WIDEST = 130


def draw(scores: Scores, run: Path, output: Path, title: str | None = None) -> None:
    """Write the figure; the suffix of `output` determines the format (png, svg, pdf). Raises OSError."""
    view = run_series(scores, run)
    figure = Figure(figsize=(10, 5.4), dpi=150, layout="constrained")
    goodput, quality = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    figure.suptitle(title or _title(scores, run), fontsize=10)
    draw_goodput(goodput, view)
    draw_quality(quality, view)
    dress([goodput, quality], view)
    figure.savefig(output)


def _title(scores: Scores, run: Path) -> str:
    """Return the title: what was measured, the worst harm, and the outcome with every contender, one line each."""
    service = str(stored_object(run / "options.json").get("service", ""))
    described = f"{service}, {bottleneck(scores.lab)}" if service else bottleneck(scores.lab)
    if not scores.validity.valid:
        return f"{measurement('invalid').text}: {described}"
    had = outcomes(scores)
    lines = [f"{described}: {worst(had)}", *(sentence(outcome, service) for outcome in had)]
    return "\n".join(part for line in lines for part in textwrap.wrap(line, _WIDEST))


def draw_goodput(axes: Axes, view: RunSeries) -> None:
    """Draw the goodput of contender and victim."""
    for points, colour, label in (
        (view.contender, _CONTENDER, "contender"),
        (view.victim, _VICTIM, "victim"),
    ):
        values = [float("nan") if value is None else value for _, value in points]
        axes.plot([t for t, _ in points], values, color=colour, label=label, linewidth=1.6)
    if view.rates:
        points = [(t, mbps) for start, end, mbps in view.rates for t in (start, end)]
        axes.plot(*zip(*points, strict=True), color="#57606a", label="bottleneck", linewidth=1, linestyle="--")
    axes.set_ylabel("goodput (Mbit/s)")
    # The legend is above the rate's line, if any.
    axes.set_ylim(bottom=0, top=1.2 * max(mbps for *_, mbps in view.rates) if view.rates else None)
    axes.legend(loc="upper left", frameon=False, ncols=3)


def draw_quality(axes: Axes, view: RunSeries) -> None:
    """Draw the height of the picture in steps, and the stalls."""
    rungs = {height: rung for rung, height in enumerate(view.heights)}
    for start, end, height in view.quality:
        axes.hlines(rungs[height], start, end, color=_QUALITY, linewidth=3)
    for (_, at, before), (_, _, after) in zip(view.quality, view.quality[1:], strict=False):
        axes.vlines(at, rungs[before], rungs[after], color=_QUALITY, linewidth=1.2)
    stalls = [frozen for frozen in view.frozen if frozen.kind == "stall"]
    for index, stall in enumerate(stalls):
        # One legend entry is enough for all.
        name = "stall" if index == 0 else None
        axes.axvspan(stall.start, stall.start + stall.length, color=_STALL, alpha=0.5, lw=0.5, label=name)
    if stalls:
        axes.legend(loc="lower left", frameon=False)
    axes.set_yticks(list(rungs.values()), [f"{height}p" for height in rungs])
    axes.set_ylim(-0.6, max(len(rungs), 1) - 0.4)
    axes.set_ylabel("quality shown")


def draw_delay(axes: Axes, view: RunSeries) -> None:
    """Draw the round-trip times of the probes: maximum per half second, and median."""
    colours = (("#9a6700", _VICTIM), ("#8250df", _QUALITY))
    for probe, (largest, median) in zip(view.rtts, colours, strict=False):
        for points, colour, of in ((probe.largest, largest, "largest"), (probe.p50, median, "median")):
            values = [float("nan") if value is None else value for _, value in points]
            label = f"{probe.name}, {of}" if probe.name else of
            axes.plot([t for t, _ in points], values, color=colour, label=label, linewidth=1.2)
    axes.set_ylabel("probe RTT (ms)")
    # The legend is above the lines.
    axes.set_ylim(0, 1.3 * max((value for probe in view.rtts for _, value in probe.largest if value), default=1))
    axes.legend(loc="upper left", frameon=False, ncols=4)


def dress(plots: Sequence[Axes], view: RunSeries) -> None:
    """Give stacked plots a common time axis with the phases' names on top, and shade contender phases."""
    for axes in plots:
        axes.grid(axis="y", color="#d8dee4", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(0, view.end)
        for phase in view.phases:
            if phase.contender:
                axes.axvspan(phase.start, phase.end, color=_CONTENDER, alpha=0.08, lw=0)
    plots[-1].set_xlabel("time (s)")
    for phase in view.phases:
        middle = (phase.start + phase.end) / 2
        place = ("data", "axes fraction")
        plots[0].annotate(phase.name, (middle, 1.01), xycoords=place, ha="center", va="bottom", fontsize=9)
