# SPDX-License-Identifier: Apache-2.0
"""What calls and rooms get: in each queue, alone and with each contender, and after a dip of the bottleneck's rate."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from statistics import median

from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.grids import interval, number
from sojourn.harness.report.markdown import markdown_table
from sojourn.scoring.long_table import ALONE, label_of
from sojourn.scoring.schema.scores import LayerStep, Scores

FIGURES = (
    "ear_p50_ms", "r_factor", "ear_gap_share", "lip_sync_p50_ms", "mean_height", "fps", "frames_in_time",
)  # fmt: skip
"""Fields of a phase. In a room, the sound is that of the party that speaks, and the picture that of all tiles."""


def call_table(groups: Sequence[Experiment]) -> str:
    """Return the figures of experiments with calls or rooms as Markdown: a row per queue, victim and contender.

    A figure is the mean over the valid runs with its 95 % interval. The figures of the victim alone are those of the
    first experiment in a queue. Experiments with other victims are skipped.
    """
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in groups:
        for scores in [run.scores for run in one.victims if not run.reasons][:1]:
            if scores.far:
                for contender in (None, *one.summary.contenders):
                    figures = ((name, one.summary.figure(name)) for name in FIGURES)
                    texts = [interval(figure.of(contender)) if figure else "–" for _, figure in figures]
                    key = str(scores.lab.get("qdisc_down")), victim(scores), contender or ALONE
                    rows.setdefault(key, texts)
    order = {name: number for number, name in enumerate(dict.fromkeys(who for *_, who in rows))}
    placed = sorted(rows.items(), key=lambda row: (row[0][0], row[0][1], order[row[0][2]]))
    heads = ["queue", "victim", "with", *(label_of(name) for name in FIGURES)]
    return markdown_table(heads, [[f"`{queue}`", who, contender, *texts] for (queue, who, contender), texts in placed])


def victim(scores: Scores) -> str:
    """Return what a run with a call watched: a call, or a room with its number of parties."""
    return f"room of {len(scores.parties)}" if scores.parties else "call"


def dip_table(groups: Sequence[Experiment]) -> str:
    """Return the recovery of a room's pictures after a dip of the rate as Markdown: a row per victim, way and dip.

    Times are those of all pictures in that way over the valid runs. A recovery that a run does not contain is longer
    than the time that the run watched it.
    """
    rows: dict[tuple[str, str, float, float], list[tuple[LayerStep, LayerStep]]] = {}
    for scores in [run.scores for one in groups for run in one.victims if not run.reasons]:
        for one in scores.parties:
            for number_of_step, step in enumerate(one.steps):
                if step.recovery_s is not None:
                    low = one.steps[number_of_step - 1]
                    key = victim(scores), step.direction, low.mbps, round(low.seconds, 1)
                    rows.setdefault(key, []).append((low, step))
    heads = ["victim", "way", "dip to Mbit/s", "for s", "lowest picture", "pictures", "recovered", "recovery s: median"]
    heads += ["least", "most"]
    texts = []
    for (who, way, mbps, seconds), dips in sorted(rows.items()):
        times = sorted((step.recovery_s or 0.0, step.seconds) for _, step in dips)
        lowest = min(
            (height for low, step in dips for height in (low.lowest_height, step.lowest_height) if height), default=0
        )
        texts.append(
            [
                who, way, f"{mbps:g}", f"{seconds:g}", f"{lowest}p", str(len(times)),
                str(sum(not isinf(time) for time, _ in times)),
                _time(median(time for time, _ in times), times), _time(times[0][0], times), _time(times[-1][0], times),
            ]
        )  # fmt: skip
    return markdown_table(heads, texts)


def _time(time: float, times: Sequence[tuple[float, float]]) -> str:
    """Return a time of recovery, for an infinite one the least time that it took longer than, and than any other."""
    if not isinf(time):
        return number(time)
    known = [recovered for recovered, _ in times if not isinf(recovered)]
    return f"> {max([min(watched for recovered, watched in times if isinf(recovered)), *known]):.0f}"
