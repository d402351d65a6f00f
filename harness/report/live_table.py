# SPDX-License-Identifier: Apache-2.0
"""What players show of a broadcast with low latency, alone behind a bottleneck whose rate changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.markdown import markdown_table
from sojourn.harness.report.number_text import interval
from sojourn.scoring.long_table import label_of

FIGURES = (
    "victim_mbps", "mean_height", "drops", "stall_s", "live_latency_s", "live_latency_max_s", "catch_up_share",
)  # fmt: skip
"""Fields of the victim alone, which is all of the run."""


def live_table(groups: Sequence[Experiment]) -> str:
    """Return the figures of experiments with broadcasts as Markdown: a row per profile of the rate, target and player.

    A figure is the mean over the valid runs with its 95 % interval. Experiments without a target latency are skipped.
    """
    rows: list[list[str]] = []
    for one in groups:
        options = one.runs[0].options
        if (target := options.get("target_latency_s")) is not None:
            figures = [one.summary.figure(name) for name in FIGURES]
            texts = [interval(figure.alone) if figure else "–" for figure in figures]
            rows.append([profile(options), f"{target:g}", str(options.get("player", "–")), *texts])
    heads = ["rate, Mbit/s", "target, s", "player", *(label_of(name) for name in FIGURES)]
    rows.sort(key=lambda row: (row[0], float(row[1]), row[2]))
    return markdown_table(heads, rows)


def profile(options: Mapping[str, Any]) -> str:
    """Return the bottleneck's rates, Mbit/s, and how long each lasts; a repeated pattern once."""
    steps = [(0.0, options["rate_down_bps"]), *((step["at_s"], step["rate_bps"]) for step in options["rate_steps"])]
    lasting = [(rate, f"{after - at:g}") for (at, rate), (after, _) in pairwise(steps)]
    last = steps[-1][1]
    for period in range(1, len(lasting)):
        pattern = [lasting[number % period] for number in range(len(steps))]
        if pattern[:-1] == lasting and pattern[-1][0] == last:
            return f"{_texts(lasting[:period])}, repeated"
    return ", ".join(filter(None, [_texts(lasting), f"{last / 1e6:g}"]))


def _texts(lasting: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{rate / 1e6:g} for {seconds} s" for rate, seconds in lasting)
