# SPDX-License-Identifier: Apache-2.0
"""Compare two runs, or two folders of runs: every figure of their experiments, with the test of the difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf, log
from pathlib import Path
from typing import Any, Literal

from sojourn.harness.report.experiments import Experiment, ExperimentFigure, by_options, by_rig
from sojourn.harness.report.grids import DEMAND_MET, labelled
from sojourn.harness.report.index import Left, duplicates, invalid_runs, read_folder
from sojourn.harness.report.number_text import figure_text, interval
from sojourn.harness.report.option_words import option_words
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.store.loaded import LoadedRun, load_run
from sojourn.harness.store.manifest import REPORT, is_run
from sojourn.scoring.long_table import label_of
from sojourn.scoring.statistics.intervals import (
    ENOUGH,
    Estimate,
    EstimatedDifference,
    difference,
    estimate,
    holm,
    paired_difference,
    shows,
)
from sojourn.scoring.statistics.relevance import DEFAULT, Relevance
from sojourn.scoring.statistics.summary import Figure

OF_OPTIONS = ("test", "cell")
"""Names that are made of options."""


@dataclass(frozen=True)
class Side:
    """A or B: its path, its valid runs, and the excluded ones."""

    name: str
    place: Path
    runs: tuple[LoadedRun, ...]
    left: tuple[Left, ...]


@dataclass(frozen=True)
class Compared:
    """One metric of both sides: alone, or with a contender (`who`), as measured or its harm.

    `p_holm` is the p of the difference, corrected for the number of secondary metrics in `family`.
    """

    who: str
    family: Literal["measured", "harm"]
    label: str
    better: str | None
    primary: bool
    a: Estimate
    b: Estimate
    less: EstimatedDifference
    words: tuple[str, str]
    """A and B as displayed."""
    demand_met: tuple[bool, bool] = (False, False)
    """For goodput: whether the path never limited the victim in A, in B."""
    least: float = 0.0
    """The least relevant difference from A."""
    p_holm: float | None = None

    @property
    def alike(self) -> bool:
        """Whether A and B are displayed alike, or a test of enough runs shows no difference."""
        return self.words[0] == self.words[1] or (min(self.a.n, self.b.n) >= ENOUGH and not self.shown)

    @property
    def shown(self) -> str:
        """The significant result for B: worse or better for the victim, or differs; empty if there is none."""
        if not self._shows(self.least):
            return ""
        if self.better is None:
            return "differs"
        return "worse" if (self.less.value > 0) == (self.better == "less") else "better"

    @property
    def irrelevant(self) -> bool:
        """Whether the difference is significant, but below the least relevant one."""
        return self._shows(0.0) and not self._shows(self.least)

    def _shows(self, least: float) -> bool:
        p = self.less.p if self.primary else self.p_holm
        return not all(self.demand_met) and shows(min(self.a.n, self.b.n), self.less, p, least)


@dataclass(frozen=True)
class Pair:
    """An experiment of A and its counterpart of B."""

    a: Experiment
    b: Experiment
    compared: tuple[Compared, ...]

    @property
    def title(self) -> str:
        """Their common title, or both."""
        return self.a.title if self.a.title == self.b.title else f"{self.a.title} | {self.b.title}"

    def where(self, who: str) -> str:
        """Return the scope of a figure: with a contender, or without one (empty) the victim alone or the whole cell."""
        return f"with {who}" if who else self.a.base


@dataclass(frozen=True)
class Shift:
    """How a measured metric differs in all pairs: the median of log(B/A) with its interval over the pairs."""

    label: str
    where: str
    ratio: Estimate
    """Its values are the pairs'."""


@dataclass(frozen=True)
class Comparison:
    """Both sides, the compared pairs of experiments, and the titles of experiments without a counterpart."""

    a: Side
    b: Side
    pairs: tuple[Pair, ...]
    alone: tuple[str, ...]

    @cached_property
    def shifts(self) -> list[Shift]:
        """The shift of each metric above 0 of at least two pairs.

        The resampled units are pairs: one run of each on both sides is enough to show what they have in common.
        """
        ratios: dict[tuple[str, str], list[float]] = {}
        for pair in self.pairs:
            for it in pair.compared:
                if it.family == "measured" and 0 < it.a.value < inf and 0 < it.b.value < inf:
                    key = it.label, pair.where(it.who)
                    ratios.setdefault(key, []).append(log(it.b.value / it.a.value))
        return [Shift(*key, estimate(given, "median")) for key, given in ratios.items() if len(given) > 1]

    def record(self) -> dict[str, Any]:
        """Return it as data for programs."""
        return {
            "a": self.a.place,
            "b": self.b.place,
            "experiments": [
                {
                    "title": pair.title,
                    "runs": {"a": [run.path for run in pair.a.runs], "b": [run.path for run in pair.b.runs]},
                    "metrics": [{**asdict(metric), "shown": metric.shown} for metric in pair.compared],
                }
                for pair in self.pairs
            ],
            "shifts": self.shifts,
            "alone": self.alone,
        }


def compare(a: Path, b: Path, relevance: Relevance = DEFAULT) -> Comparison:
    """Compare two runs or two folders of runs by their valid runs; see `compare_sides`.

    Raises ReportError if a place is neither, or if they are of different kinds.
    """
    if a.resolve() == b.resolve():
        raise ReportError(f"A and B are the same path ({a}); give two different runs or folders", code="conflict")
    kinds = ["a run" if is_run(place) else "a folder" for place in (a, b)]
    sides = _side_at("A", a), _side_at("B", b)
    if kinds[0] != kinds[1]:
        raise ReportError(
            f"{a} is {kinds[0]}, {b} is {kinds[1]}; give two runs or two folders of runs", code="conflict"
        )
    return compare_sides(*sides, relevance)


def compare_sides(a: Side, b: Side, relevance: Relevance = DEFAULT) -> Comparison:
    """Compare two sets of runs.

    If each side has one experiment, they are compared whatever their options; otherwise, experiments with equal
    options. A difference is a result only if it has the size in `relevance`. Raises ReportError if a side has no valid
    run, or if no two experiments match.
    """
    sides = a, b
    for side in sides:
        if not side.runs:
            why = "; ".join(f"{run.name} is {run.state}: {run.reason}" for run in side.left)
            raise ReportError(f"{side.place}: no valid run to compare: {why}", code="invalid-run")
    ours, theirs = (by_options(side.runs, side.place) for side in sides)
    a, b = sides = _counted(a, ours), _counted(b, theirs)
    if len(ours) == len(theirs) == 1:
        couples = [(*ours.values(), *theirs.values())]
        kinds = ["has a victim" if one.victims else "is of a matrix's cell" for one in couples[0]]
        if kinds[0] != kinds[1]:
            raise ReportError(
                f"{a.place} {kinds[0]}, {b.place} {kinds[1]}: they have no metric in common; compare two of one kind",
                code="conflict",
            )
    else:
        couples = [(one, theirs[key]) for key, one in ours.items() if key in theirs]
    if not couples:
        raise ReportError(
            f"{a.place} has {len(ours)} experiments, {b.place} {len(theirs)}, and none of them have the same options"
            f"{_never_common(ours.values(), theirs.values())}; give folders with one experiment each, or two runs",
            code="conflict",
        )
    known = {id(one) for couple in couples for one in couple}
    alone = [f"{one.title}: only in {side.name}" for side, all_ in zip(sides, (ours, theirs), strict=True)
             for one in all_.values() if id(one) not in known]  # fmt: skip
    return Comparison(
        *sides,
        tuple(Pair(one, other, tuple(_corrected(one, other, relevance))) for one, other in couples),
        tuple(alone),
    )


def _never_common(ours: Iterable[Experiment], theirs: Iterable[Experiment]) -> str:
    """Return the options of which no value is on both sides: `: qdisc: fq_codel in A, dualpi2 in B`."""
    sides = [
        [dict(option_words(*it) for it in one.runs[0].definition.items()) for one in side] for side in (ours, theirs)
    ]
    found = []
    for name in dict.fromkeys(name for side in sides for one in side for name in one if name not in OF_OPTIONS):
        values = [dict.fromkeys(one.get(name, "–") for one in side) for side in sides]
        if not {*values[0]} & {*values[1]}:
            found.append(f"{name}: {' or '.join(values[0])} in A, {' or '.join(values[1])} in B")
    return f": {'; '.join(found)}" if found else ""


def _counted(side: Side, every: Mapping[str, Experiment]) -> Side:
    """Return a side without the duplicates among its runs, which are excluded."""
    further = duplicates(every.values())
    paths = {it.path for it in further}
    runs = tuple(run for run in side.runs if run.path not in paths)
    return replace(side, runs=runs, left=(*side.left, *further))


def _side_at(name: str, place: Path) -> Side:
    if is_run(place):
        runs, left = [load_run(place).whole(REPORT)], list[Left]()
    else:
        runs, left = read_folder(place, whole=True)
        if not runs and not left:
            raise ReportError(
                f"{place}: neither a run nor a folder with runs of experiments; give one of the two", code="not-a-run"
            )
    return side_of(name, place, runs, left)


def side_of(name: str, place: Path, runs: Iterable[LoadedRun], left: Iterable[Left]) -> Side:
    """Return A or B by its runs, valid and invalid, and the excluded ones."""
    every = list(runs)
    # Two runs with the same name must stay separate.
    valid = (replace(run, path=run.path.resolve()) for run in every if not run.reasons)
    return Side(name, place, tuple(valid), (*left, *invalid_runs(every)))


def _corrected(one: Experiment, other: Experiment, relevance: Relevance) -> list[Compared]:
    """Return the comparisons, with p corrected for the number of rows in their family."""
    compared = list(_compared(one, other, relevance))
    corrected = {
        key: holm({it.label: it.less.p for it in rows if it.less.p is not None})
        for key, rows in families(compared).items()
    }
    return [it if it.primary else replace(it, p_holm=corrected[it.who, it.family].get(it.label)) for it in compared]


def families(compared: Iterable[Compared]) -> dict[tuple[str, str], list[Compared]]:
    """Return the rows that are corrected together, by contender and family: all secondary metrics."""
    families: dict[tuple[str, str], list[Compared]] = {}
    for it in compared:
        if not it.primary:
            families.setdefault((it.who, it.family), []).append(it)
    return families


def _compared(one: Experiment, other: Experiment, relevance: Relevance) -> Iterator[Compared]:
    """Yield the comparisons alone, then with every common contender: the harm, then the measured values."""
    every = [run.scores for side in (one, other) for run in side.victims]
    by_metric = {it.metric: it.figure for it in other.figures()}
    both = [(it, by_metric[it.metric]) for it in one.figures("harm", "measured") if it.metric in by_metric]
    for who in ("", *(name for name in one.summary.contenders if name in other.summary.contenders)):
        for it, theirs in both:
            a, b = it.figure.of(who), theirs.of(who)
            if a and b:
                yield Compared(
                    who=who,
                    family=it.family,
                    label=labelled(label_of(it.metric), *every),
                    better=it.figure.better,
                    primary=it.figure.primary,
                    a=a,
                    b=b,
                    less=_difference(one, other, a, b),
                    least=relevance.least(it.metric, a.value),
                    words=(_words(it, it.figure, one, who), _words(it, theirs, other, who)),
                    demand_met=(it.figure.unlimited(who), theirs.unlimited(who)),
                )


def _difference(one: Experiment, other: Experiment, a: Estimate, b: Estimate) -> EstimatedDifference:
    """Return B - A: by seed if both sides have the same drawn rigs, each once, and the figure in every run."""
    rigs = by_rig([(one, a), (other, b)])
    if rigs is None:
        return difference(a.values, b.values, a.statistic)
    first, second = zip(*rigs, strict=True)
    return paired_difference(first, second, a.statistic)


def _words(it: ExperimentFigure, figure: Figure, side: Experiment, who: str) -> str:
    """Return a side's figure as displayed."""
    if it.family == "measured":
        return figure_text(figure, side.summary, who or None)
    return DEMAND_MET if figure.unlimited(who) else interval(figure.contended[who])
