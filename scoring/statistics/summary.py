# SPDX-License-Identifier: Apache-2.0
"""Summary of an experiment's repetitions: the scores of its runs → figures with intervals.

For a contender with several phases in a run, the run's value is their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from statistics import fmean
from typing import Any

from pydantic import BaseModel

from sojourn.scoring.long_table import ALONE, METRICS, named, rows_of
from sojourn.scoring.schema.metric import HARM
from sojourn.scoring.schema.scores import HARMED, Scores
from sojourn.scoring.statistics.harm import Better
from sojourn.scoring.statistics.intervals import (
    LEVEL,
    POWER,
    RESAMPLES,
    SEED,
    Estimate,
    Statistic,
    crossover_estimate,
    estimate,
    holm,
    least_detectable,
    order_p,
    paired_p,
    shows,
)
from sojourn.scoring.statistics.numbers import Number
from sojourn.scoring.statistics.relevance import DEFAULT, Relevance
from sojourn.scoring.transport import demand

#: The reference contender, if it competes.
REFERENCE = "cubic"


class PairedContrast(Estimate):
    """A contender minus the reference, per run; `mde` is the least detectable true difference.

    `p` is of the paired t-test (`sojourn.scoring.statistics.intervals.paired_p`) with the order as a factor, `p_holm`
    the same corrected for the number of metrics that are not primary; None for the primary one, for metrics without a
    better side, for one run.
    """

    mde: Number | None
    least: Number | None = None
    """The least relevant difference from the reference's value (`sojourn.scoring.statistics.relevance`)."""
    p: Number | None = None
    p_holm: Number | None = None
    first: tuple[bool, ...] = ()
    """In which of the runs the contender came before the reference."""
    order_p: Number | None = None
    """The p of an effect of that order on the difference."""

    def by_order(self, came_first: bool) -> Estimate | None:
        """Return the difference in the runs of one order; None without one."""
        values = [value for value, it in zip(self.values, self.first, strict=True) if it == came_first]
        return estimate(values, self.statistic) if values else None


class Figure(BaseModel):
    """One metric over the runs: alone, with every contender, and every contender minus the reference.

    For harm, `beyond` is the excess of a contender's harm over that of the victim's own kind, the bar of Ware et al.
    ("Beyond Jain's Fairness Index", HotNets 2019): a new congestion control may be deployed with another one if it
    does no more harm to it than that one does to itself. BBR is judged with BBR.
    For goodput, `demand_met` is the number of runs in which the victim's demand was met
    (`sojourn.scoring.transport.demand`), by contender; these count as 0 in the mean of harm.
    """

    metric: str
    better: Better | None
    primary: bool = False
    alone: Estimate | None = None
    contended: dict[str, Estimate]
    contrast: dict[str, PairedContrast]
    beyond: dict[str, PairedContrast] = {}
    demand_met: dict[str, int] = {}

    def of(self, contender: str | None) -> Estimate | None:
        """Return the figure with a contender, or without one (None or empty)."""
        return self.contended.get(contender) if contender else self.alone

    def unlimited(self, contender: str) -> bool:
        """Return whether the path never limited the victim with `contender`: the figure is independent of the path."""
        contended = self.contended.get(contender)
        return contended is not None and self.demand_met.get(contender, 0) == contended.n

    def worse(self, contender: str) -> bool | None:
        """Return whether the victim fares worse with `contender` than with the reference; None if not shown.

        The rule is that of `sojourn.scoring.statistics.intervals.shows`, over runs that have the figure with both.
        """
        contrast = self.contrast.get(contender)
        if contrast is None or self.better is None or self.unlimited(contender):
            return None
        if not shows(contrast.n, contrast, contrast.p if self.primary else contrast.p_holm, contrast.least):
            return None
        return (contrast.value > 0) == (self.better == "less")


class ExperimentSummary(BaseModel):
    """The valid runs of one experiment together; names are those of the runs.

    `fair_share_mbps` is the victim's max-min fair share with one flow: half of the bottleneck's payload rate, at most
    its goodput alone. `primary` is the metric that decides for this victim, `own_kind` the contender of its own kind,
    `baseline_s` the shortest baseline of a run, s; None if unknown.
    """

    valid: list[str]
    void: dict[str, list[str]]
    contenders: list[str]
    reference: str | None
    primary: str | None = None
    own_kind: str | None = None
    baseline_s: Number | None = None
    level: float = LEVEL
    power: float = POWER
    resamples: int = RESAMPLES
    resampling_seed: int = SEED
    relevance: Relevance = DEFAULT
    fair_share_mbps: Estimate | None
    measured: list[Figure]
    harm: list[Figure]
    further: list[Figure] = []

    @property
    def primary_harm(self) -> Figure | None:
        """The harm in the primary metric; None if no run has it."""
        return next((figure for figure in self.harm if figure.primary), None)

    def figure(self, metric: str) -> Figure | None:
        """Return the figure of a measured metric; None if no run has it."""
        return next((figure for figure in (*self.measured, *self.further) if figure.metric == metric), None)


def summarise(runs: Mapping[str, Scores], relevance: Relevance = DEFAULT) -> ExperimentSummary:
    """Summarise runs of the same experiment, by name; invalid runs are listed with their reasons and not counted.

    A contender is worse or better than the reference only if the difference has at least the size in `relevance`.
    """
    void = {name: scores.validity.reasons for name, scores in runs.items() if not scores.validity.valid}
    valid = {name: scores for name, scores in runs.items() if name not in void}
    there = {phase.contender for scores in valid.values() for phase in scores.phases if phase.contender}
    contenders = sorted(there, key=lambda name: (name != REFERENCE, name))
    scored = list(valid.values())
    by_phase = [_ByPhase(scores) for scores in scored]
    primary, own_kind = _common(scores.primary for scores in scored), _common(scores.own_kind for scores in scored)
    shares = [share for scores in scored if (share := _fair_share(scores)) is not None]
    return ExperimentSummary(
        valid=list(valid),
        void=void,
        contenders=contenders,
        reference=contenders[0] if len(contenders) > 1 else None,
        primary=primary,
        own_kind=own_kind,
        baseline_s=min((scores.baseline.seconds for scores in scored if scores.baseline), default=None),
        relevance=relevance,
        fair_share_mbps=estimate(shares) if shares else None,
        measured=_figures(_measured(True), by_phase, contenders, primary, relevance),
        harm=_figures(dict.fromkeys(HARMED, "less"), by_phase, contenders, primary, relevance, HARM, own_kind),
        further=_figures(dict.fromkeys(_measured(False)), by_phase, contenders, primary, relevance),
    )


def summarise_cells(runs: Mapping[str, Mapping[str, Any]], void: Mapping[str, list[str]]) -> ExperimentSummary:
    """Summarise runs of one cell by the documents of its valid runs, by name: each figure is over the whole cell.

    `void` are the reasons of those that are not valid, by name.
    """
    values: dict[str, list[float]] = {}
    for row in (row for scores in runs.values() for row in rows_of(scores)):
        values.setdefault(row.metric, []).append(row.value)
    measured = [
        Figure(
            metric=metric,
            better=named(metric)[1].better,
            alone=estimate(given, _statistic(metric, given)),
            contended={},
            contrast={},
        )
        for metric, given in values.items()
    ]
    return ExperimentSummary(
        valid=list(runs), void=dict(void), contenders=[], reference=None, fair_share_mbps=None, measured=measured,
        harm=[],
    )  # fmt: skip


def _measured(shown: bool) -> dict[str, Better | None]:
    """Return the metrics that summaries show, or the others, and their better direction."""
    return {name: metric.better for name, metric in METRICS.items() if metric.measured is shown}


class _ByPhase:
    """The figures of one run: of its baseline, and the mean over the phases of a contender."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores
        self._values: dict[tuple[str | None, str], list[float]] = {}
        for row in rows_of(scores):
            if row.contender or row.phase == ALONE:
                self._values.setdefault((row.contender, row.metric), []).append(row.value)

    @property
    def in_order(self) -> list[str]:
        """The contenders in the order of their first phases."""
        return list(dict.fromkeys(phase.contender for phase in self.scores.phases if phase.contender))

    def of(self, contender: str | None, metric: str) -> float | None:
        """A figure with a contender, or alone (None); None where the run does not have it."""
        values = self._values.get((contender, metric))
        return fmean(values) if values else None


def _common(given: Iterable[str | None]) -> str | None:
    """Return the common value; None if they differ."""
    different = set(given)
    return different.pop() if len(different) == 1 else None


def _figures(
    metrics: Mapping[str, Better | None],
    runs: Sequence[_ByPhase],
    contenders: Sequence[str],
    primary: str | None,
    relevance: Relevance,
    prefix: str = "",
    bar: str | None = None,
) -> list[Figure]:
    """Return one figure per metric that any run has with a contender, or alone if there is none.

    Each has `beyond` relative to the contender `bar`, if it competes.
    `prefix` begins the names of the metrics in the runs.
    """
    figures = []
    # Counts over times of different lengths are not comparable.
    counts = not contenders and all(map(_all_is_baseline, runs))
    for metric, better in metrics.items():
        compared = METRICS[metric].alone or counts
        solo = [value for run in runs if compared and (value := run.of(None, prefix + metric)) is not None]
        by_run = [{name: run.of(name, prefix + metric) for name in run.in_order} for run in runs]
        values = {name: [value for run in by_run if (value := run.get(name)) is not None] for name in contenders}
        kind = _statistic(metric, [*solo, *(value for given in values.values() for value in given)])
        beyond = {
            name: _contrast(by_run, name, bar, kind, prefix + metric, relevance)
            for name in contenders
            if bar is not None and bar in contenders and name != bar
        }
        contrast = {
            name: _contrast(by_run, name, contenders[0], kind, prefix + metric, relevance) for name in contenders[1:]
        }
        if any(values.values()) or (solo and not contenders):
            figures.append(
                Figure(
                    metric=metric,
                    better=better,
                    primary=metric == primary,
                    alone=estimate(solo, kind) if solo else None,
                    contended={name: estimate(given, kind) for name, given in values.items() if given},
                    contrast={name: given for name, given in contrast.items() if given},
                    beyond={name: given for name, given in beyond.items() if given},
                    demand_met=_demand_met([run.scores for run in runs], contenders) if metric == demand.METRIC else {},
                )
            )
    return _corrected(figures)


def _all_is_baseline(run: _ByPhase) -> bool:
    """Whether the baseline is all of the run, to a second; that of a room ends where the rate first changes."""
    baseline = run.scores.baseline
    return baseline is not None and sum(phase.seconds for phase in run.scores.phases) - baseline.seconds < 1


def _statistic(metric: str, values: Iterable[float]) -> Statistic:
    """Return the median for heights, because their mean is not a rung, and if a value is infinite; else the mean."""
    rungs = metric in ("lowest_height", "second_height")
    return "median" if rungs or not all(map(isfinite, values)) else "mean"


def _corrected(figures: list[Figure]) -> list[Figure]:
    """Return the figures; contrasts of metrics that are not primary are corrected for their number, per contender."""
    family: dict[str, dict[str, float]] = {}
    for figure in figures:
        for name, contrast in figure.contrast.items():
            if not figure.primary and figure.better and contrast.p is not None:
                family.setdefault(name, {})[figure.metric] = contrast.p
    corrected = {name: holm(p) for name, p in family.items()}
    return [
        figure.model_copy(
            update={
                "contrast": {
                    name: contrast.model_copy(update={"p_holm": corrected.get(name, {}).get(figure.metric)})
                    for name, contrast in figure.contrast.items()
                }
            }
        )
        for figure in figures
    ]


def _contrast(
    by_run: Sequence[Mapping[str, float | None]],
    contender: str,
    reference: str,
    kind: Statistic,
    metric: str,
    relevance: Relevance,
) -> PairedContrast | None:
    given = [(run.get(contender), run.get(reference), list(run)) for run in by_run]
    pairs = [(one, other, names) for one, other, names in given if one is not None and other is not None]
    if not pairs:
        return None
    differences = [_less(one, other) for one, other, _ in pairs]
    first = tuple(names.index(contender) < names.index(reference) for *_, names in pairs)
    mde = least_detectable(differences, first) if kind == "mean" else None
    least = relevance.least(metric, estimate([other for _, other, _ in pairs], kind).value)
    return PairedContrast(
        **crossover_estimate(differences, first, kind).model_dump(), mde=mde, least=least, first=first,
        p=paired_p(differences, first), order_p=order_p(differences, first),
    )  # fmt: skip


def _less(one: float, other: float) -> float:
    """Return the difference; 0 if both are infinite."""
    return 0.0 if one == other else one - other


def _demand_met(runs: Sequence[Scores], contenders: Sequence[str]) -> dict[str, int]:
    """Return the number of runs in which the victim's demand was met in every phase of a contender, by contender."""
    harms = [[harm for harm in scores.harm if harm.metric == demand.METRIC] for scores in runs]
    with_name = {name: [[it.demand_met for it in run if it.contender == name] for run in harms] for name in contenders}
    return {name: sum(bool(met) and all(met) for met in given) for name, given in with_name.items()}


def _fair_share(scores: Scores) -> float | None:
    return demand.fair_share_mbps(scores.lab, scores.baseline.victim_mbps if scores.baseline else None)
