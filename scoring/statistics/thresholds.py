# SPDX-License-Identifier: Apache-2.0
"""Thresholds on the figures of runs: `harm.rtt_answered_p99_ms with prague < 0.3`."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sojourn.hardware.machine.messages import count_of, did_you_mean
from sojourn.scoring.long_table import METRICS
from sojourn.scoring.schema.cell_scores import declared
from sojourn.scoring.schema.metric import HARM
from sojourn.scoring.schema.scores import HARMED
from sojourn.scoring.statistics.intervals import ENOUGH, Estimate
from sojourn.scoring.statistics.summary import ExperimentSummary, Figure
from sojourn.traffic.load import parse_load
from sojourn.traffic.user_program import OPTION, PREFIX

_COMPARE = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_GRAMMAR = re.compile(
    r"(?P<metric>[\w.]+)(?:\s+(?P<alone>alone)|\s+with\s+(?P<contender>[\w.:+*@-]+))?"
    r"\s*(?P<compare><=|>=|==|!=|<|>)\s*(?P<limit>bar|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
)
KNOWN = (*(name for name, metric in METRICS.items() if metric.measured), *(f"{HARM}{metric}" for metric in HARMED))
"""Metrics of a victim's runs that a threshold may name: the measured ones, and the harm where a metric has one.

Those of a cell's are the addresses of its figures (`sojourn.scoring.schema.cell_scores`).
"""


class ThresholdError(ValueError):
    """A threshold is not understood; the message is one line and says what would be right."""


@dataclass(frozen=True)
class Threshold:
    """A limit for a metric, in its units: `alone`, with one contender, or (None) with every one, or alone without any.

    With `bar`, the limit is for the harm minus the harm that the victim's own kind does: the least relevant harm
    (`sojourn.scoring.statistics.relevance`), or 0 if the harm must be above the bar.
    """

    text: str
    metric: str
    where: str | None
    compare: str
    limit: float
    bar: bool = False

    def meets(self, value: float) -> bool:
        """Return whether a figure meets the threshold."""
        return bool(_COMPARE[self.compare](value, self.limit))

    def meets_all(self, low: float, high: float) -> bool | None:
        """Return whether all of an interval meets the threshold (True), none of it (False), or a part (None)."""
        ends = {self.meets(low), self.meets(high)}
        split = self.compare in ("==", "!=") and low < self.limit < high
        return None if split or len(ends) > 1 else ends.pop()


@dataclass(frozen=True)
class Judgement:
    """A threshold, judged alone or with one contender. Without a figure (None) it is not met: no valid run has one."""

    threshold: Threshold
    where: str
    """`alone`, `whole cell` or a contender."""
    figure: Estimate | None
    sure: bool
    """Whether to judge by the whole interval: too few runs, or an interval that includes the limit, decide nothing."""

    @property
    def outcome(self) -> Literal["met", "not met", "not decided", "no figure"]:
        """Return the outcome."""
        if self.figure is None:
            return "no figure"
        if self.undecided:
            return "not decided"
        return "met" if self.threshold.meets(self.figure.value) else "not met"

    @property
    def undecided(self) -> str:
        """Return why the threshold is not decided; empty if it is decided, or if there is no figure."""
        if not self.sure or self.figure is None:
            return ""
        if (n := self.figure.n) < ENOUGH:
            return f"{count_of(n, 'run')}, {ENOUGH} needed"
        low, high = (self.figure.value if end is None else end for end in (self.figure.low, self.figure.high))
        return "the interval includes the limit" if self.threshold.meets_all(low, high) is None else ""

    @property
    def why(self) -> str:
        """Return why the threshold is not decided, or why there is no figure; empty otherwise."""
        if self.figure is not None:
            return self.undecided
        where = {"alone": " alone", "whole cell": ""}.get(self.where, f" with {self.where}")
        return f"no valid run has {self.threshold.metric}{where}"

    @property
    def text(self) -> str:
        """Return the outcome, with the reason if it is not decided or if there is no figure."""
        return f"{self.outcome}: {self.why}" if self.why else self.outcome


def parse(text: str) -> Threshold:
    """Parse `[harm.]METRIC [alone | with CONTENDER] (< <= > >= == !=) NUMBER`; for harm, `bar` may replace the number.

    Raises ThresholdError.
    """
    match = _GRAMMAR.fullmatch(text.strip())
    if match is None:
        raise ThresholdError(
            f"{text!r}: write it as METRIC OPERATOR NUMBER, such as `stalls == 0` or "
            "`harm.rtt_answered_p99_ms with prague < 0.3`"
        )
    metric = match["metric"]
    if metric not in KNOWN and declared(metric) is None:
        hint = successor(metric, KNOWN) or did_you_mean(metric, KNOWN, most=3, alike=0.4)
        raise ThresholdError(f"{text!r}: unknown figure {metric!r}; {hint or 'known: ' + ', '.join(KNOWN)}")
    if match["alone"] and metric.startswith(HARM):
        raise ThresholdError(f"{text!r}: harm needs a contender; remove `alone`")
    bar = match["limit"] == "bar"
    if bar and not metric.startswith(HARM):
        raise ThresholdError(f"{text!r}: `bar` is a harm; write harm.{metric}")
    where = match["alone"] or match["contender"]
    if match["contender"]:
        where = where.replace(OPTION, PREFIX).removesuffix(".toml")  # as records call it
    return Threshold(text.strip(), metric, where, match["compare"], 0.0 if bar else float(match["limit"]), bar)


def successor(metric: str, known: Sequence[str]) -> str:
    """Return what to write instead of a metric of which there is no harm any more; empty for any other."""
    name = metric.replace("rtt_p99_ms", "rtt_answered_p99_ms")
    return f"write {name}" if name != metric and name in known else ""


def require_known(thresholds: Iterable[Threshold], summaries: Sequence[ExperimentSummary]) -> None:
    """Raise ThresholdError for a contender that neither these runs have nor this machine knows.

    Also for a threshold that cannot have a figure in any experiment.
    """
    known = {None, "alone", *(name for summary in summaries for name in summary.contenders)}
    for threshold in thresholds:
        if threshold.where not in known:
            try:
                parse_load(str(threshold.where))
            except ValueError as wrong:
                raise ThresholdError(f"{threshold.text!r}: {wrong}") from wrong
        whys = [why_no_figure(threshold, summary) for summary in summaries if summary.valid]
        if whys and all(whys):
            raise ThresholdError(f"{threshold.text!r}: no experiment has such a figure: {whys[0]}")


def why_no_figure(threshold: Threshold, summary: ExperimentSummary) -> str:
    """Return why an experiment cannot have the figure of a threshold, whatever was measured; empty if it can."""
    contenders, own = summary.contenders, summary.own_kind
    if threshold.where == "alone":
        metric = METRICS.get(threshold.metric)
        never = metric is not None and not metric.alone and contenders
        return f"{threshold.metric} has none alone in runs with contenders; remove `alone`" if never else ""
    if threshold.where and threshold.where not in contenders:
        return f"{threshold.where} does not compete"
    if threshold.metric.startswith(HARM) and not contenders:
        return "nothing competes"
    if threshold.bar and own not in contenders:
        return f"{own or 'a contender of the own kind'}, the bar, does not compete"
    if threshold.bar and (threshold.where == own or contenders == [own]):
        return f"{own} is the bar itself"
    return ""


def judge(thresholds: list[Threshold], summary: ExperimentSummary, *, sure: bool = False) -> list[Judgement]:
    """Judge the runs of one experiment by every threshold, alone or with each contender that it covers.

    With `sure`, judge by the whole 95 % interval over the runs.
    """
    at_bar = {"<": summary.relevance.harm, "<=": summary.relevance.harm}
    limited = (replace(it, limit=at_bar.get(it.compare, 0.0)) if it.bar else it for it in thresholds)
    return [
        Judgement(threshold, where, figure, sure)
        for threshold in limited
        for where, figure in _figures(threshold, summary)
    ]


def _figures(threshold: Threshold, summary: ExperimentSummary) -> Iterator[tuple[str, Estimate | None]]:
    of_harm = threshold.metric.startswith(HARM)
    name = threshold.metric.removeprefix(HARM)
    figures: list[Figure] = summary.harm if of_harm else summary.measured
    known = next((figure for figure in figures if figure.metric == name), None)
    whole = "alone" if summary.baseline_s is not None else "whole cell"
    if threshold.where == "alone" or (threshold.where is None and not summary.contenders and not of_harm):
        yield threshold.where or whole, known.alone if known else None
        return
    others = [name for name in summary.contenders if not threshold.bar or name != summary.own_kind]
    for contender in [threshold.where] if threshold.where else others or ["any contender"]:
        estimates = known and (known.beyond if threshold.bar else known.contended)
        yield contender, estimates.get(contender) if estimates else None
