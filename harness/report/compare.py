# SPDX-License-Identifier: Apache-2.0
"""Compare two runs, or two folders of runs: the options that differ, then the results that differ."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from markupsafe import Markup

from sojourn.bottleneck.units import format_rate, format_time
from sojourn.harness.report.experiments import Experiment, ExperimentFigure, distinct_names, experiments
from sojourn.harness.report.grids import (
    DEMAND_MET,
    PRIMARY,
    Grid,
    Row,
    interval,
    labelled,
    number,
)
from sojourn.harness.report.headline import Badge, badges
from sojourn.harness.report.html import write_page
from sojourn.harness.report.index import Left, read_folder
from sojourn.harness.report.repetitions import figure_text
from sojourn.harness.report.run_page import REPORT, ReportError, versions_of
from sojourn.harness.report.svg import Dots, dot_plot
from sojourn.harness.store.loaded import LoadedRun, VictimRun, load_run
from sojourn.harness.store.manifest import is_run
from sojourn.scoring.long_table import label_of
from sojourn.scoring.statistics.intervals import (
    ENOUGH,
    LEVEL,
    RESAMPLES,
    SEED,
    Estimate,
    EstimatedDifference,
    difference,
    holm,
    shows,
)
from sojourn.scoring.statistics.numbers import LOST
from sojourn.scoring.statistics.summary import Figure

#: Names that are made of options, which the table of differences lists separately.
_NAMES = ("test", "cell")


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
    never: str = LOST
    """The text for an infinite bound."""
    demand_met: tuple[bool, bool] = (False, False)
    """For goodput: whether the path never limited the victim in A, in B."""
    p_holm: float | None = None

    @property
    def shown(self) -> str:
        """The significant result for B: worse or better for the victim, or differs; empty if there is none."""
        if all(self.demand_met):
            return ""
        if not shows(min(self.a.n, self.b.n), self.less.low, self.less.high, self.p_holm, self.primary):
            return ""
        if self.better is None:
            return "differs"
        return "worse" if (self.less.value > 0) == (self.better == "less") else "better"


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
class Comparison:
    """Both sides, the compared pairs of experiments, and the titles of experiments without a counterpart."""

    a: Side
    b: Side
    pairs: tuple[Pair, ...]
    alone: tuple[str, ...]

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
            "alone": self.alone,
        }


def compare(a: Path, b: Path) -> Comparison:
    """Compare two runs or two folders of runs by their valid runs.

    If each side has one experiment, they are compared whatever their options; otherwise, experiments with equal
    options. Raises ReportError if a place is neither, if they are of different kinds, if a side has no valid run, or if
    no two experiments match.
    """
    if a.resolve() == b.resolve():
        raise ReportError(f"A and B are the same path ({a}); give two different runs or folders")
    kinds = ["a run" if is_run(place) else "a folder" for place in (a, b)]
    sides = _side("A", a), _side("B", b)
    if kinds[0] != kinds[1]:
        raise ReportError(f"{a} is {kinds[0]}, {b} is {kinds[1]}; give two runs or two folders of runs")
    for side in sides:
        if not side.runs:
            why = "; ".join(f"{run.path.name} is {run.state}: {run.reason}" for run in side.left)
            raise ReportError(f"{side.place}: no valid run to compare: {why}")
    ours, theirs = (_by_definition(side) for side in sides)
    if len(ours) == len(theirs) == 1:
        couples = [(*ours.values(), *theirs.values())]
    else:
        couples = [(one, theirs[key]) for key, one in ours.items() if key in theirs]
    if not couples:
        raise ReportError(
            f"{a} has {len(ours)} experiments, {b} {len(theirs)}, and none of them have the same options; "
            "give folders with one experiment each, or two runs"
        )
    known = {id(one) for couple in couples for one in couple}
    alone = [f"{one.title}: only in {side.name}" for side, all_ in zip(sides, (ours, theirs), strict=True)
             for one in all_.values() if id(one) not in known]  # fmt: skip
    return Comparison(
        *sides, tuple(Pair(one, other, tuple(_corrected(one, other))) for one, other in couples), tuple(alone)
    )


def _side(name: str, place: Path) -> Side:
    if is_run(place):
        runs, left = [load_run(place).whole(REPORT)], list[Left]()
    else:
        runs, left = read_folder(place, whole=True)
        if not runs and not left:
            raise ReportError(f"{place}: neither a run nor a folder with runs of experiments; give one of the two")
    valid = []
    for run in runs:
        if run.reasons:
            left.append(Left(run.path, "invalid", "; ".join(run.reasons)))
        else:
            # Two runs with the same name must stay separate.
            valid.append(replace(run, path=run.path.resolve()))
    return Side(name, place, tuple(valid), tuple(left))


def _by_definition(side: Side) -> dict[str, Experiment]:
    """Return the experiments of a side by their options, whatever the scorer. Raises ReportError for two scorers."""
    by_definition: dict[str, Experiment] = {}
    for one in experiments(side.runs):
        key = repr(sorted((name, value) for name, value in one.runs[0].definition.items() if name != "scorer"))
        if key in by_definition:
            raise ReportError(
                f"{side.place}: its runs were scored by different scorers; run `sojourn rescore --write` on them"
            )
        by_definition[key] = one
    return by_definition


def _corrected(one: Experiment, other: Experiment) -> list[Compared]:
    """Return the comparisons, with p corrected for the number of rows in their family."""
    compared = list(_compared(one, other))
    corrected = {
        key: holm({it.label: it.less.p for it in rows if it.less.p is not None})
        for key, rows in _families(compared).items()
    }
    return [it if it.primary else replace(it, p_holm=corrected[it.who, it.family].get(it.label)) for it in compared]


def _families(compared: Iterable[Compared]) -> dict[tuple[str, str], list[Compared]]:
    """Return the rows that are corrected together, by contender and family: all secondary metrics."""
    families: dict[tuple[str, str], list[Compared]] = {}
    for it in compared:
        if not it.primary:
            families.setdefault((it.who, it.family), []).append(it)
    return families


def _compared(one: Experiment, other: Experiment) -> Iterator[Compared]:
    """Yield the comparisons alone, then with every common contender: the harm, then the measured values."""
    every = [run.scores for side in (one, other) for run in side.victims]
    by_metric = {it.metric: it.figure for it in other.figures()}
    both = [(it, by_metric[it.metric]) for it in one.figures() if it.metric in by_metric]
    both.sort(key=lambda pair: pair[0].family != "harm")
    for who in ("", *(name for name in one.summary.contenders if name in other.summary.contenders)):
        for it, theirs in both:
            a, b = _estimate(it.figure, who), _estimate(theirs, who)
            if a and b:
                yield Compared(
                    who=who,
                    family=it.family,
                    label=labelled(label_of(it.metric), *every),
                    better=it.figure.better,
                    primary=it.figure.primary,
                    a=a,
                    b=b,
                    less=difference(a.values, b.values, a.statistic),
                    words=(_words(it, it.figure, one, who), _words(it, theirs, other, who)),
                    never=it.never,
                    demand_met=(it.figure.unlimited(who), theirs.unlimited(who)),
                )


def _words(it: ExperimentFigure, figure: Figure, side: Experiment, who: str) -> str:
    """Return a side's figure as displayed."""
    if it.family == "measured":
        return figure_text(figure, side.summary, who or None)
    return DEMAND_MET if figure.unlimited(who) else interval(figure.contended[who])


def _estimate(figure: Figure, who: str) -> Estimate | None:
    return figure.contended.get(who) if who else figure.alone


def lines(pair: Pair) -> list[str]:
    """Return what a pair shows, and how reliable it is, one line each."""
    counts = [len(one.runs) for one in (pair.a, pair.b)]
    sentences = [f"A: {pair.a.headline}", f"B: {pair.b.headline}"]
    sentences.append(f"Valid runs: {counts[0]} in A, {counts[1]} in B.")
    if min(counts) < ENOUGH:
        sentences.append(f"Too few runs for a result: at least {ENOUGH} runs per side are needed.")
    least = next((metric.less.least_p for metric in pair.compared if metric.less.least_p), None)
    if least and least > 1 - LEVEL:
        sentences.append(f"This number of runs cannot give a p below {least:.2g}, whatever the values.")
    elif least and (most := max(map(len, _families(pair.compared).values()), default=0)) * least > 1 - LEVEL:
        sentences.append(
            f"This number of runs cannot give a p below {least:.2g}, nor below {most * least:.2g} corrected for {most} "
            "rows (Holm): only the primary metric can show a difference."
        )
    for word in ("worse", "better", "differs"):
        if names := [f"{metric.label} {pair.where(metric.who)}" for metric in pair.compared if metric.shown == word]:
            sentences.append(f"Shown {'different' if word == 'differs' else word} in B: {'; '.join(names)}.")
    for name, one, other in (("A", pair.a, pair.b), ("B", pair.b, pair.a)):
        if only := [who for who in one.summary.contenders if who not in other.summary.contenders]:
            sentences.append(f"With {', '.join(only)}: only in {name}.")
    return sentences


def side_badges(pair: Pair) -> list[tuple[str, list[Badge]]]:
    """Return the badges of A and of B."""
    sides = [(name, badges(one.outcomes)) for name, one in (("A", pair.a), ("B", pair.b))]
    return [(name, shown) for name, shown in sides if shown]


def grids(pair: Pair) -> list[Grid]:
    """Return the tables of a pair: what differs in options and versions, then one table alone and one per contender."""
    tables = [setup_grid(pair)]
    for who in dict.fromkeys(metric.who for metric in pair.compared):
        heads = ["", "A", "B", "B − A", f"{LEVEL:.0%} interval", "p", "p (Holm)", "for the victim"]
        grid = Grid(pair.where(who).capitalize(), heads)
        for metric in (metric for metric in pair.compared if metric.who == who):
            low, high, p = metric.less.low, metric.less.high, metric.less.p
            bounds = "n too small"
            if low is not None and high is not None:
                bounds = f"{number(low, metric.never)} to {number(high, metric.never)}"
            label = metric.label + (PRIMARY if metric.primary else "")
            if all(metric.demand_met):
                grid.rows.append(Row([label, *metric.words, "–", "–", "–", "–", DEMAND_MET]))
                continue
            cells = [label, *metric.words, _signed(metric.less.value, metric.never), bounds]
            cells += ["n too small" if p is None else f"{p:.3f}"]
            cells += ["–" if metric.p_holm is None else f"{metric.p_holm:.3f}", metric.shown or "–"]
            grid.rows.append(Row(cells, hurt={3, 7} if metric.shown == "worse" else set()))
        tables.append(grid)
    return tables


def setup_grid(pair: Pair) -> Grid:
    """Return the differences of both experiments in options, commit, scorer and versions."""
    sides = [_facts(one.runs) for one in (pair.a, pair.b)]
    rows = []
    for name in dict.fromkeys(name for side in sides for name in side):
        ours, theirs = (" / ".join(sorted(side.get(name, {"–"}))) for side in sides)
        if ours != theirs:
            rows.append(Row([name, ours, theirs]))
    return (
        Grid("Differences in options, commit, scorer and versions", ["", "A", "B"], rows)
        if rows
        else Grid("Options, commit, scorer and versions are the same.", ["", "A", "B"])
    )


def _facts(runs: Sequence[LoadedRun]) -> dict[str, set[str]]:
    """Return options and versions by name: every value that any run has."""
    facts: dict[str, set[str]] = {}
    for run in runs:
        options = {name: value for name, value in run.definition.items() if name not in _NAMES}
        named: dict[str, Any] = dict(options)
        if isinstance(run, VictimRun):
            named["order of contenders"] = ", ".join(it.contender for it in run.scores.phases if it.contender)
        named |= versions_of(run.path, run.manifest)
        for name, value in named.items():
            label, text = _label_and_text(name, value)
            facts.setdefault(label, set()).add(text)
    return facts


def _label_and_text(name: str, value: Any) -> tuple[str, str]:
    for suffix, form in (("_bps", format_rate), ("_us", format_time)):
        if name.endswith(suffix) and isinstance(value, int):
            return name.removesuffix(suffix), form(value)
    return name, "–" if value in (None, "") else str(value)


def _signed(value: float, never: str) -> str:
    text = number(value, never)
    return f"+{text}" if value > 0 and text not in ("0", "0.00") else text


def method() -> str:
    """Return how intervals and p are computed."""
    return (
        f"One value per run. In brackets and for B − A: {LEVEL:.0%} bootstrap interval over runs (expanded percentile, "
        f"{RESAMPLES} resamples, seed {SEED}). p: two-sided permutation test of the runs' means (for lowest pictures: "
        f"medians), exact up to {RESAMPLES} permutations (Ernst, Statistical Science 19(4), 2004). p (Holm): corrected "
        "for the number of rows with one contender, harm and measured values separately (Holm 1979). Worse or better: "
        f"the interval excludes 0, with at least {ENOUGH} runs per side; except for the primary metric, p (Holm) is at "
        f"most {1 - LEVEL:.2g}."
    )


def write_comparison(comparison: Comparison, output: Path) -> Path:
    """Write the page and return its path. Raises OSError."""
    folder = output.resolve().parent

    def link(path: Path) -> str:
        page = path / REPORT
        return quote(Path(os.path.relpath(page.resolve(), folder)).as_posix()) if page.exists() else ""

    sides = (comparison.a, comparison.b)
    names = {path: name for side in sides for path, name in distinct_names([run.path for run in side.runs]).items()}
    view = {
        "sides": [
            {
                "name": side.name,
                "place": str(side.place),
                "runs": [(names[run.path], link(run.path)) for run in side.runs],
            }
            for side in sides
        ],
        "left": [
            {"name": it.path.name, "side": side.name, "state": it.state, "reason": it.reason,
             "link": link(it.path)}
            for side in sides for it in side.left
        ],
        "alone": comparison.alone,
        "pairs": [
            {"title": pair.title, "lines": lines(pair), "badges": side_badges(pair),
             "setup": setup_grid(pair), "grids": grids(pair)[1:],
             "plots": list(_plots(pair))}
            for pair in comparison.pairs
        ],
        "method": method(),
    }  # fmt: skip
    return write_page("compare.html.j2", view, output)


def _plots(pair: Pair) -> Iterator[dict[str, Any]]:
    """Yield the runs of both sides as dots, one plot per metric; none for single runs, or if all values are 0."""
    for label in dict.fromkeys(metric.label for metric in pair.compared):
        of = [metric for metric in pair.compared if metric.label == label]
        values = [value for metric in of for value in (*metric.a.values, *metric.b.values)]
        if any(values) and max(metric.a.n + metric.b.n for metric in of) > 2:
            rows = [
                Dots(f"{name} {pair.where(metric.who)}", kind, side.values, side.value, side.low, side.high)
                for metric in of
                for name, kind, side in (("A", "c0", metric.a), ("B", "c1", metric.b))
            ]
            yield {"title": label, "svg": Markup(dot_plot(rows, label))}
