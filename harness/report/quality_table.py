# SPDX-License-Identifier: Apache-2.0
"""What calls look like: rate, picture quality, lateness and responsiveness by queue, sender and contender."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from statistics import fmean, median

from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.markdown import markdown_table
from sojourn.harness.report.number_text import number
from sojourn.scoring.long_table import ALONE, label_of

FIGURES = (
    "victim_mbps", "mean_height", "vmaf_mean", "vmaf_p5", "frame_loss", "frames_in_time", "frame_p50_ms", "foreign_rpm",
)  # fmt: skip
"""Figures of a phase, those of `sojourn quality` among them."""
_SHARES = frozenset({"frame_loss", "frames_in_time"})


def quality_table(groups: Sequence[Experiment]) -> str:
    """Return the figures of experiments with calls as Markdown: a row per queue, sender and contender.

    A figure is the mean over the valid runs with the least and the most in brackets, or the median where one is
    infinite. Those of a call alone are of the first experiment of a sender in a queue: before the contender begins,
    all have the same bytes.
    """
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in groups:
        valid = [run for run in one.victims if not run.reasons]
        every = [row for run in valid for row in run.figures if row.contender or row.phase == ALONE]
        for who in (None, *one.summary.contenders) if valid else ():
            of_phase = [row for row in every if row.contender == who]
            texts = [_text(name, [row.value for row in of_phase if row.metric == name]) for name in FIGURES]
            sender = str(valid[0].options.get("call_cc", "gcc"))
            rows.setdefault((str(valid[0].scores.lab.get("qdisc_down")), sender, who or ALONE), texts)
    order = {name: place for place, name in enumerate(dict.fromkeys(who for *_, who in rows))}
    placed = sorted(rows.items(), key=lambda row: (row[0][:2], order[row[0][2]]))
    heads = ["queue", "sender", "with", *(label_of(name) + " (%)" * (name in _SHARES) for name in FIGURES)]
    return markdown_table(heads, [[f"`{queue}`", sender, who, *texts] for (queue, sender, who), texts in placed])


def _text(name: str, values: Sequence[float]) -> str:
    if not values:
        return "–"
    scaled = [value * (100 if name in _SHARES else 1) for value in values]
    middle = fmean(scaled) if all(map(isfinite, scaled)) else median(scaled)
    text, least, most = (number(value, "∞") for value in (middle, min(scaled), max(scaled)))
    return text if least == most else f"{text} ({least} to {most})"
