# SPDX-License-Identifier: Apache-2.0
"""What a user demands of runs, and whether their summary meets it: `harm.rtt_p99_ms beside prague < 0.3`."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hardware.machine.messages import did_you_mean
from scoring.harm import METRICS
from scoring.intervals import ENOUGH, Estimate
from scoring.summary import MEASURED, Figure, Summary

_COMPARE = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_HARM = "harm."
_GRAMMAR = re.compile(
    r"(?P<metric>[\w.]+)(?:\s+(?P<alone>alone)|\s+beside\s+(?P<contender>[\w-]+))?"
    r"\s*(?P<compare><=|>=|==|!=|<|>)\s*(?P<limit>bar|[-+]?\d+(?:\.\d+)?)"
)
#: What scores up to 1.8 had, by what tells it now.
_FORMERLY = {"stall_s_per_min": "played_share", "freezes_per_min": "unfrozen_share", "drops_per_min": "mean_height"}
KNOWN = (*MEASURED, *(f"{_HARM}{metric}" for metric in METRICS))
"""Figures that a threshold may be of: the victim's and contender's as measured, and the harm in those that have one."""


class ThresholdError(ValueError):
    """A threshold says nothing that can be judged; one line with what would be right."""


@dataclass(frozen=True)
class Threshold:
    """A demand on one figure: `alone`, beside one contender, or (None) beside each; units are the figure's own.

    Of `bar`, on harm less that which the victim's own kind does to it, so that its limit is 0.
    """

    text: str
    metric: str
    where: str | None
    compare: str
    limit: float
    bar: bool = False

    def meets(self, value: float) -> bool:
        """Whether a figure is as demanded."""
        return bool(_COMPARE[self.compare](value, self.limit))

    def meets_all(self, low: float, high: float) -> bool | None:
        """Whether all of an interval is as demanded (True) or none of it (False); None where a part is."""
        ends = {self.meets(low), self.meets(high)}
        split = self.compare in ("==", "!=") and low < self.limit < high
        return None if split or len(ends) > 1 else ends.pop()


@dataclass(frozen=True)
class Judgement:
    """A threshold at one place; `figure` None: no valid run has it, which does not meet anything."""

    threshold: Threshold
    where: str
    """`alone` or a contender."""
    figure: Estimate | None
    sure: bool
    """Judged by the whole interval, not by the figure alone: too few runs, or an interval that reaches over the limit,
    decide nothing."""

    @property
    def outcome(self) -> Literal["met", "not met", "not decided", "no figure"]:
        """What became of it."""
        if self.figure is None:
            return "no figure"
        if self.undecided:
            return "not decided"
        return "met" if self.threshold.meets(self.figure.value) else "not met"

    @property
    def undecided(self) -> str:
        """Why a threshold that must be sure is not decided; empty where it is, or where there is no figure."""
        if not self.sure or self.figure is None:
            return ""
        if (n := self.figure.n) < ENOUGH:
            return f"{n} run{'s' * (n > 1)}, {ENOUGH} needed"
        low, high = (self.figure.value if end is None else end for end in (self.figure.low, self.figure.high))
        return "the interval reaches over the limit" if self.threshold.meets_all(low, high) is None else ""

    @property
    def text(self) -> str:
        """The outcome, with the reason where it is not decided."""
        return f"{self.outcome}: {self.undecided}" if self.undecided else self.outcome


def parse(text: str) -> Threshold:
    """Read `[harm.]METRIC [alone | beside CONTENDER] (< <= > >= == !=) NUMBER`; of harm `bar` for the number.

    Raises ThresholdError.
    """
    match = _GRAMMAR.fullmatch(text.strip())
    if match is None:
        raise ThresholdError(f"{text!r}: write it as `harm.rtt_p99_ms beside prague < 0.3` or `stalls == 0`")
    metric = match["metric"]
    if now := _FORMERLY.get(metric.removeprefix(_HARM)):
        raise ThresholdError(f"{text!r}: {metric} is told as {_HARM}{now} since scores 2.0")
    if metric not in KNOWN:
        hint = did_you_mean(metric, KNOWN, most=3, alike=0.4)
        raise ThresholdError(f"{text!r}: unknown figure {metric!r}; {hint or 'known: ' + ', '.join(KNOWN)}")
    if match["alone"] and metric.startswith(_HARM):
        raise ThresholdError(f"{text!r}: harm is what a contender does; leave `alone` out")
    bar = match["limit"] == "bar"
    if bar and not metric.startswith(_HARM):
        raise ThresholdError(f"{text!r}: the bar is the harm that the victim's own kind does; write harm.{metric}")
    where = match["alone"] or match["contender"]
    return Threshold(text.strip(), metric, where, match["compare"], 0.0 if bar else float(match["limit"]), bar)


def judge(thresholds: list[Threshold], summary: Summary, *, sure: bool = False) -> list[Judgement]:
    """Judge runs of one experiment, each threshold at each place that it speaks of.

    `sure`: by the whole interval over the runs, so that what is met, or is not, is so but for chance.
    """
    return [
        Judgement(threshold, where, figure, sure)
        for threshold in thresholds
        for where, figure in _figures(threshold, summary)
    ]


def _figures(threshold: Threshold, summary: Summary) -> Iterator[tuple[str, Estimate | None]]:
    of_harm = threshold.metric.startswith(_HARM)
    name = threshold.metric.removeprefix(_HARM)
    figures: list[Figure] = summary.harm if of_harm else summary.measured
    known = next((figure for figure in figures if figure.metric == name), None)
    if threshold.where == "alone":
        yield "alone", known.alone if known else None
        return
    others = [name for name in summary.contenders if not threshold.bar or name != summary.own_kind]
    for contender in [threshold.where] if threshold.where else others or ["any contender"]:
        beside = known and (known.beyond if threshold.bar else known.beside)
        yield contender, beside.get(contender) if beside else None
