# SPDX-License-Identifier: Apache-2.0
"""What media gets by its sender, queue and contender, as the matrix `l4s-media` measured it: rate, delay, frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isinf
from statistics import fmean, median
from typing import Any

from sojourn.hardware.machine.messages import count_of
from sojourn.harness.report.markdown import markdown_table
from sojourn.harness.store.loaded import CellRun, LoadedRun
from sojourn.scoring.long_table import ALONE

#: Congestion control and codepoint of a cell's call → its sender.
CALLS = {("gcc", "not-ect"): "GCC", ("gcc", "ect1"): "GCC as ECT(1)", ("scream", "not-ect"): "SCReAM, Chromium"}
#: The sender of a cell whose media is a program.
PROGRAM = "SCReAM, draft"
SENDERS = (*CALLS.values(), PROGRAM)
#: Field of a phase (`sojourn.scoring.schema.cell_scores.MediaPhase`) → format of its figure, factor, and the statistic
#: over runs.
FIGURES: Mapping[str, tuple[str, float, Callable[[Sequence[float]], float]]] = {
    "mbps": ("{:.2f}", 1, fmean),
    "queue_p99_ms": ("{:.1f} ms", 1, median),  # one run with too many losses would make a mean infinite
    "frames_in_time": ("{:.0f} %", 100, fmean),
    "contender_mbps": ("{:.2f}", 1, fmean),
}
LEGEND = "media Mbit/s · P99 in the queue · frames in time · contender Mbit/s"

_Phase = Mapping[str, Any]


def media_table(runs: Sequence[LoadedRun]) -> str:
    """Return the figures of the runs of `l4s-media` as Markdown, a table per rate: queue and contender by sender.

    A figure is the mean over the runs of its cell, the P99 the median; the media's rate has the least and the most in
    brackets. The number of runs is above the tables, and in the cells that have another one.
    """
    found: dict[int, dict[tuple[str, str], dict[str, list[_Phase]]]] = {}
    for run in runs:
        if isinstance(run, CellRun) and run.scores.get("media"):
            cell = run.options["cell"]
            down = cell["hops"][0]["down"]
            for phase in run.scores["media"]:
                key = (str(down["qdisc"]), phase["contender"] or ALONE)
                rows = found.setdefault(int(down["rate_bps"]), {})
                rows.setdefault(key, {}).setdefault(_sender(cell), []).append(phase)
    counts = [len(phases) for rows in found.values() for row in rows.values() for phases in row.values()]
    usual = max(set(counts), key=counts.count, default=0)
    parts = [f"Every figure is {_of_runs(usual)}. {LEGEND}."]
    for rate, rows in sorted(found.items()):
        texts = (
            [f"`{queue}`", who, *(_text(row.get(sender, ()), usual) for sender in SENDERS)]
            for (queue, who), row in rows.items()
        )
        parts.append(f"**{rate / 1e6:g} Mbit/s**\n\n" + markdown_table(["queue", "with", *SENDERS], texts))
    return "\n\n".join(parts)


def _of_runs(count: int) -> str:
    if count == 1:
        return "of one run"
    return f"the mean of {count} runs, P99 the median, the rate with the least and the most"


def _sender(cell: Mapping[str, Any]) -> str:
    """Return the sender of a cell's media. Raises KeyError for one that is not in CALLS."""
    call = cell.get("call")
    return CALLS[call.get("cc", "gcc"), call.get("ecn", "not-ect")] if call else PROGRAM


def _text(phases: Sequence[_Phase], usual: int) -> str:
    if not phases:
        return "–"
    texts = []
    for field, (form, factor, statistic) in FIGURES.items():
        values = [factor * float(value) for phase in phases if (value := phase.get(field)) is not None]
        if values:
            middle, least, most = (
                "∞" if isinf(value) else form.format(round(value, 4) + 0.0)  # a queue that is empty but for rounding
                for value in (statistic(values), min(values), max(values))
            )
            ends = f" ({least} to {most})" if field == "mbps" and least != most else ""
            of = f" (of {len(values)})" if len(values) < len(phases) else ""
            texts.append(middle + ends + of)
    other = "" if len(phases) == usual else f" (of {count_of(len(phases), 'run')})"
    return " · ".join(texts) + other
