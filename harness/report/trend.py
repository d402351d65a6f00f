# SPDX-License-Identifier: Apache-2.0
"""The history of a device: the runs of every version, in order, and where a figure changed permanently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from markupsafe import Markup

from sojourn.harness.report.experiments import Experiment, by_options, by_rig, two_scorers
from sojourn.harness.report.grids import Grid, Row
from sojourn.harness.report.html import write_page
from sojourn.harness.report.index import Left, duplicates, invalid_runs, read_folder
from sojourn.harness.report.number_text import by_numbers, difference_text, number
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.report.svg import Dots, dot_plot
from sojourn.harness.store.manifest import run_folders
from sojourn.scoring.statistics.harm import Better
from sojourn.scoring.statistics.intervals import LEVEL, Estimate, EstimatedDifference
from sojourn.scoring.statistics.numbers import LOST
from sojourn.scoring.statistics.relevance import DEFAULT, Relevance
from sojourn.scoring.statistics.trend import FEWEST, can_show, changes

#: Looks of rows of a dot plot before and after a change.
_COLOURS = ("who-other-1", "who-other-2 hollow")


@dataclass(frozen=True)
class Version:
    """A version of the device: its name, its valid runs by experiment, and the excluded runs."""

    name: str
    place: Path
    experiments: dict[str, Experiment]
    left: tuple[Left, ...]


@dataclass(frozen=True)
class Step:
    """A figure that changed with a version: from its mean since the previous change to its mean until the next."""

    first: str
    """The first version after the change; `last` is the version before it."""
    last: str
    before: float
    after: float
    less: EstimatedDifference
    p: float
    better: Better | None
    never: str = LOST
    """The text for an infinite figure."""
    control: float | None = None
    """The difference between two folders of the same version; None without such a control."""

    @property
    def share(self) -> float | None:
        """The step as a share of the earlier value; None if that was 0, or either is infinite."""
        return self.less.value / abs(self.before) if self.before and isfinite(self.before + self.after) else None

    @property
    def outcome(self) -> Literal["worse", "better", "differs"]:
        """What the change means for the victim."""
        if self.better is None:
            return "differs"
        return "worse" if (self.less.value > 0) == (self.better == "less") else "better"


@dataclass(frozen=True)
class Series:
    """One figure over the versions that have it: of the victim alone, or with a contender."""

    label: str
    where: str
    figures: dict[str, Estimate]
    """By version name, in order."""
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Trend:
    """One experiment over the versions; those without a valid run of it are not in `versions`."""

    title: str
    versions: tuple[str, ...]
    runs: int
    control: str
    """The folder of a version that is in the series already; empty without one."""
    series: tuple[Series, ...]
    can_tell: bool
    """Whether there are enough versions and runs for a change of one of so many figures to be significant."""

    @property
    def worse(self) -> bool:
        """Whether a figure became worse for the victim."""
        return any(step.outcome == "worse" for one in self.series for step in one.steps)

    @property
    def state(self) -> str:
        """The result in words."""
        return "worse" if self.worse else "not worse" if self.can_tell else "too few versions or runs to decide"


@dataclass(frozen=True)
class History:
    """All experiments, and the excluded runs by version name."""

    trends: tuple[Trend, ...]
    left: tuple[tuple[str, Left], ...]


def read_versions(places: Sequence[Path]) -> list[Version]:
    """Return the versions of a device in order: those in a single folder, by number, or `places` as given.

    Raises ReportError if there are fewer than two, or one has no run.
    """
    if len(places) == 1:
        within = [] if _is_matrix(places[0]) else [path for path in places[0].glob("*/") if run_folders(path)]
        folders = sorted(within, key=lambda path: by_numbers(path.name))
    else:
        folders = list(places)
    if missing := next((place for place in places if not place.exists()), None):
        raise ReportError(f"{missing}: no such file or folder", code="missing")
    names = [folder.resolve().name for folder in folders]
    if len(folders) < 2:
        found = "one version" if folders else "no version"
        raise ReportError(
            f"{', '.join(map(str, places))}: {found} found; a trend needs {FEWEST}: give a folder with one folder of "
            "runs per version, or these folders",
            code="missing",
        )
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    versions = [_version(name, folder) for name, folder in zip(names, folders, strict=True)]
    for version in versions:
        if not version.experiments and not version.left:
            raise ReportError(
                f"{version.place}: no run of an experiment in it; give one folder of runs per version", code="not-a-run"
            )
    return versions


def history(
    versions: Sequence[Version], relevance: Relevance = DEFAULT, same: tuple[str, str] | None = None
) -> History:
    """Find what changed over the versions.

    A step smaller than its size in `relevance` is not reported.

    Args:
        same: names of two versions that are the same one, measured twice. The second is no version of the series but
            the control: a step that is not larger than the difference between both is not reported.

    Raises ReportError if `same` names a version that there is not, or two scorers scored the versions of an experiment.
    """
    names = [version.name for version in versions]
    if unknown := [name for name in same or () if name not in names]:
        raise ReportError(f"--same: no version {unknown[0]!r}; there are {', '.join(names)}")
    if same and same[0] == same[1]:
        raise ReportError(f"--same: {same[0]!r} twice; name two folders with runs of the same version")
    every: dict[str, dict[str, Experiment]] = {}
    for version in versions:
        for options, one in version.experiments.items():
            if one.summary.valid:
                every.setdefault(options, {})[version.name] = one
    for of in every.values():
        _require_one_scorer(of)
    trends = [_trend(of, relevance, same) for of in every.values() if len(of) > 1]
    return History(tuple(trends), tuple((version.name, left) for version in versions for left in version.left))


def lines(trend: Trend) -> list[str]:
    """Return what changed, one line each; worse figures first."""
    steps = [(one, step) for one in trend.series for step in one.steps]
    steps.sort(key=lambda it: it[1].outcome != "worse")
    texts = [f"{one.label} {one.where}: {step.outcome} since {step.first}, {_sized(step)}" for one, step in steps]
    known = f"{trend.runs} runs of {len(trend.versions)} versions"
    known += f", control {trend.control}" if trend.control else ""
    return texts or [
        f"No significant change in {known}." if trend.can_tell else f"Too few versions or runs to decide: {known}."
    ]


def records(history: History) -> dict[str, Any]:
    """Return the history as data for programs."""
    return {
        "experiments": [
            {
                "title": trend.title,
                "versions": trend.versions,
                "worse": trend.worse,
                "changes": [
                    {
                        "figure": one.label, "where": one.where, "outcome": step.outcome, "since": step.first,
                        "last": step.last, "before": step.before, "step": step.less.value, "low": step.less.low,
                        "high": step.less.high, "p": step.p, "control": step.control,
                    }
                    for one in trend.series
                    for step in one.steps
                ],
                "figures": [{"figure": one.label, "where": one.where, "versions": one.figures} for one in trend.series],
            }
            for trend in history.trends
        ],
        "left": [
            {"version": name, "run": run.path, "state": run.state, "why": run.reason} for name, run in history.left
        ],
    }  # fmt: skip


def write_history(history: History, output: Path) -> Path:
    """Write the page and return its path. Raises OSError."""
    view = {
        "method": (
            f"A change is reported if fewer than {1 - LEVEL:.0%} of such histories without a change would show one by "
            "chance: the best step, or step there and back, of the versions' means, against normal values and a "
            "permutation of the runs, corrected for the number of figures; then the same in its parts. What each "
            "version draws anew, an evening or a build, is no change unless it lasts. Steps smaller than the least "
            "relevant ones are not reported, nor those no larger than the control, the same version measured twice."
        ),
        "trends": [
            {
                "title": trend.title,
                "state": trend.state,
                "bad": trend.worse or not trend.can_tell,
                "lines": lines(trend),
                "grid": _grid(trend),
                "changed": [_plot(one) for one in trend.series if one.steps],
                "steady": [_plot(one) for one in trend.series if not one.steps and _happened(one)],
            }
            for trend in history.trends
        ],
        "left": [
            {"version": name, "name": run.name, "state": run.state, "reason": run.reason} for name, run in history.left
        ],
    }
    return write_page("trend.html.j2", view, output)


def _is_matrix(folder: Path) -> bool:
    """Whether the folders in a folder are those of a matrix's cells."""
    return any(run.parent != folder for run in run_folders(folder))


def _version(name: str, folder: Path) -> Version:
    runs, left = read_folder(folder, whole=True)
    # As in `compare`: an invalid run, which has no figure, may be of an older scorer.
    valid = by_options([run for run in runs if not run.reasons], folder)
    return Version(name, folder, valid, (*invalid_runs(runs), *duplicates(valid.values()), *left))


def _require_one_scorer(every: Mapping[str, Experiment]) -> None:
    """Refuse an experiment, given by version name, that two scorers have scored: the step could be theirs."""
    (first, before), *others = every.items()
    for name, one in others:
        if one.scorer != before.scorer:
            raise two_scorers(f"{first} and {name}", before, one)


def _trend(every: dict[str, Experiment], relevance: Relevance, same: tuple[str, str] | None) -> Trend:
    """Return the changes of one experiment, given by version name."""
    control = same[1] if same and same[0] in every and same[1] in every else ""
    of = {name: one for name, one in every.items() if name != control}
    figures: dict[_Which, dict[str, Estimate]] = {}
    for version, one in of.items():
        for key, figure in _figures(one):
            figures.setdefault(key, {})[version] = figure
    twice = {key: figure.value for key, figure in _figures(every[control])} if control else {}
    found = changes({key: _values([(of[name], figure) for name, figure in it.items()]) for key, it in figures.items()})
    series = []
    for key, given in figures.items():
        names = list(given)
        apart = abs(twice[key] - given[same[0]].value) if same and key in twice and same[0] in given else None
        steps = (
            Step(
                names[it.version],
                names[it.version - 1],
                it.before,
                it.after,
                it.step,
                it.p,
                key.better,
                key.never,
                apart,
            )
            for it in found.get(key, [])
            if abs(it.step.value) >= relevance.least(key.metric, it.before) and not abs(it.step.value) <= (apart or 0)
        )
        series.append(Series(key.label, key.where, given, tuple(steps)))
    runs = [len(one.summary.valid) for one in of.values()]
    able = can_show(runs, len(found))
    return Trend(next(iter(of.values())).title, tuple(of), sum(runs), control, tuple(series), able)


def _values(figures: Sequence[tuple[Experiment, Estimate]]) -> list[tuple[float, ...]]:
    """Return the runs' values of each version, without what a rig does to all versions if all have the same rigs.

    The versions' means stay.
    """
    rigs = by_rig(figures)
    if rigs is None or not all(map(isfinite, chain.from_iterable(rigs))):
        return [figure.values for _, figure in figures]
    middle = fmean(chain.from_iterable(rigs))
    return list(zip(*([value - fmean(row) + middle for value in row] for row in rigs), strict=True))


class _Which(NamedTuple):
    """What tells the figures of an experiment apart, and how they are shown."""

    metric: str
    label: str
    where: str
    better: Better | None
    never: str


def _figures(one: Experiment) -> Iterator[tuple[_Which, Estimate]]:
    """Yield the figures of an experiment in one version."""
    for it in one.figures():
        given = {one.base: it.figure.alone} if it.figure.alone else {}
        given |= {f"with {contender}": estimate for contender, estimate in it.figure.contended.items()}
        for where, estimate in given.items():
            yield _Which(it.metric, it.label, where, it.figure.better, it.never), estimate


def _sized(step: Step) -> str:
    before, after, size = _texts(step)
    share = f", {step.share:+.0%}" if step.share is not None else ""
    return f"{before} → {after}" + (f": {size}{share}" if isfinite(step.less.value) else "")


def _texts(step: Step) -> tuple[str, str, str]:
    """Return before, after, and the step with its interval as texts."""
    less, low, high = map(difference_text, (step.less.value, step.less.low, step.less.high))
    span = f" ({low} to {high})" if step.less.low is not None else ""
    return number(step.before, step.never), number(step.after, step.never), less + span


def _grid(trend: Trend) -> Grid:
    heads = ["figure", "where", "last before", "first after", "before", "after", "step", "share", "p"]
    grid = Grid("", [*heads, *(["same version twice"] if trend.control else [])])
    for one in trend.series:
        for step in one.steps:
            share = f"{step.share:+.0%}" if step.share is not None else "–"
            cells = [one.label, one.where, step.last, step.first, *_texts(step), share, f"{step.p:.4f}"]
            if trend.control:
                cells.append(difference_text(step.control))
            grid.rows.append(Row(cells, hurt={6} if step.outcome == "worse" else set()))
    return grid


def _plot(one: Series) -> dict[str, Any]:
    """Draw every version as a row of dots; the colour changes where the figure does."""
    firsts = {step.first for step in one.steps}
    rows, colour = [], 0
    for name, figure in one.figures.items():
        colour += name in firsts
        kind = _COLOURS[colour % len(_COLOURS)]
        rows.append(Dots(name, kind, figure.values, figure.value, figure.low, figure.high))
    title = f"{one.label} {one.where}"
    return {"title": title, "svg": Markup(dot_plot(rows, title))}


def _happened(one: Series) -> bool:
    return any(value for figure in one.figures.values() for value in figure.values)
