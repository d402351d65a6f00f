# SPDX-License-Identifier: Apache-2.0
"""What calls and rooms get: in each queue, alone and with each contender, and after a dip of the bottleneck's rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, isinf
from statistics import median, median_high

from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.grids import height_text
from sojourn.harness.report.markdown import markdown_table
from sojourn.harness.report.number_text import interval, number
from sojourn.scoring.long_table import ALONE, label_of
from sojourn.scoring.recovery import unseen_s
from sojourn.scoring.schema.scores import LayerStep, Scores
from sojourn.scoring.statistics.intervals import Estimate

FIGURES = (
    "ear_p50_ms", "r_factor", "ear_gap_share", "lip_sync_p50_ms", "mean_height", "fps", "frames_in_time",
)  # fmt: skip
"""Fields of a phase. In a room, the sound is that of the party that speaks, and the picture that of all tiles."""
_SHARES = frozenset({"ear_gap_share", "frames_in_time"})
_BOUNDS = "value", "low", "high"


def call_table(groups: Sequence[Experiment]) -> str:
    """Return the figures of experiments with calls or rooms as Markdown: a row per queue, victim and contender.

    A figure is the mean over the valid runs with its 95 % interval, or the median where that of a run is infinite. Harm
    is that in the primary metric, of each run to itself alone. The figures of the victim alone are those of the first
    experiment in a queue: rigs, and so the phases before a contender begins, are alike in all. Experiments with other
    victims are skipped.
    """
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in groups:
        valid = [run.scores for run in one.victims if not run.reasons]
        for scores in valid[:1]:
            if scores.far:
                for contender in (None, *one.summary.contenders):
                    figures = ((name, one.summary.figure(name)) for name in FIGURES)
                    texts = [
                        _text(name, figure.of(contender) if figure else None, len(valid)) for name, figure in figures
                    ]
                    harm = one.summary.primary_harm
                    texts.append(interval(harm.contended.get(contender)) if harm and contender else "–")
                    key = str(scores.lab.get("qdisc_down")), victim(scores), contender or ALONE
                    rows.setdefault(key, texts)
    order = {name: number for number, name in enumerate(dict.fromkeys(who for *_, who in rows))}
    placed = sorted(rows.items(), key=lambda row: (row[0][0], row[0][1], order[row[0][2]]))
    labels = (label_of(name) + " (%)" * (name in _SHARES) for name in FIGURES)
    heads = ["queue", "victim", "with", *labels, "harm to these frames"]
    return markdown_table(heads, [[f"`{queue}`", who, contender, *texts] for (queue, who, contender), texts in placed])


def _text(name: str, figure: Estimate | None, runs: int) -> str:
    if figure is None:
        return "–"
    if name in _SHARES:
        percent = {key: None if (share := getattr(figure, key)) is None else 100 * share for key in _BOUNDS}
        figure = figure.model_copy(update=percent)
    median_of = "median " * (figure.statistic == "median")
    return median_of + interval(figure, "∞") + f" (of {figure.n})" * (figure.n < runs)


def victim(scores: Scores) -> str:
    """Return what a run with a call watched: a call, or a room with its number of parties."""
    return f"room of {len(scores.parties)}" if scores.parties else "call"


def dip_table(groups: Sequence[Experiment]) -> str:
    """Return the recovery of a room's pictures after a dip of the rate as Markdown: a row per victim, way and dip.

    Times are those of all pictures in that way over the valid runs. A recovery that a run does not contain began later
    than `sojourn.scoring.recovery.REGAINED_S` before the run's end; a statistic that depends on it is a lower bound.
    """
    rows: dict[tuple[str, str, float, float], list[tuple[LayerStep, LayerStep]]] = {}
    for scores in [run.scores for one in groups for run in one.victims if not run.reasons]:
        for one in scores.parties:
            for number_of_step, step in enumerate(one.steps):
                if step.recovery_s is not None:
                    low = one.steps[number_of_step - 1]
                    key = victim(scores), step.direction, low.mbps, round(low.seconds, 1)
                    rows.setdefault(key, []).append((low, step))
    heads = ["victim", "way", "dip to Mbit/s", "for s", "before", "lowest picture", "fewest frames/s", "pictures"]
    heads += ["recovered", "recovery s: median", "least", "most"]
    texts = []
    for (who, way, mbps, seconds), dips in sorted(rows.items()):
        times = [(inf if step.recovery_s is None else step.recovery_s, unseen_s(step.seconds)) for _, step in dips]
        before = sorted({step.before_height for _, step in dips if step.before_height})
        heights, rates = (
            [it for both in dips for step in both if (it := getattr(step, name)) is not None]
            for name in ("lowest_height", "lowest_fps")
        )
        texts.append(
            [
                who, way, f"{mbps:g}", f"{seconds:g}", ", ".join(f"{lines}p" for lines in before) or "–",
                height_text(min(heights, default=None)), number(min(rates, default=None)), str(len(times)),
                str(sum(not isinf(time) for time, _ in times)),
                _bounded(times, median, median_high), _bounded(times, min, min), _bounded(times, max, max),
            ]
        )  # fmt: skip
    return markdown_table(heads, texts)


_Statistic = Callable[[Iterable[float]], float]


def _bounded(times: Sequence[tuple[float, float]], of: _Statistic, highest: _Statistic) -> str:
    """Return a statistic of times of recovery, each with the least that it is if infinite.

    `highest` is the highest of the times that decide it.
    """
    least = [bound if isinf(time) else time for time, bound in times]
    last = highest(least)
    cut = any(isinf(time) and bound <= last for time, bound in times)
    sign = "≥" if any(time == last for time, _ in times) else ">"
    return f"{sign} {of(least):.0f}" if cut else number(of(least))
