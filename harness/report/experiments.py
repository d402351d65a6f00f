# SPDX-License-Identifier: Apache-2.0
"""Runs grouped into experiments, and every figure of an experiment with its label."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from sojourn.hardware.machine.messages import count_of, printable
from sojourn.harness.report.grids import labelled, pictures_of, queue
from sojourn.harness.report.headline import (
    VictimOutcome,
    average_headline,
    average_outcomes,
    enumerated,
    headline,
    outcomes,
    sureness,
)
from sojourn.harness.report.number_text import interval, number
from sojourn.harness.report.option_words import option_words
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.store.loaded import CellRun, LoadedRun, VictimRun, load_run
from sojourn.harness.store.manifest import REPORT, StoreError, is_run, run_folders
from sojourn.harness.store.runs import RunStore
from sojourn.harness.store.same_bytes import same_bytes
from sojourn.scoring.long_table import named
from sojourn.scoring.schema.files import CELL
from sojourn.scoring.schema.metric import HARM, unit_of, with_unit
from sojourn.scoring.statistics.harm import Severity
from sojourn.scoring.statistics.intervals import ENOUGH, Estimate
from sojourn.scoring.statistics.numbers import never_came
from sojourn.scoring.statistics.relevance import DEFAULT, Relevance
from sojourn.scoring.statistics.summary import ExperimentSummary, Figure, summarise, summarise_cells

SUMMARY = "summary.json"
"""The data of a summary of runs."""
#: Severities in words, the worst first.
_HARM: Mapping[Severity | None, str] = {
    "severe": "severe harm", "some": "some harm", "none": "no visible harm", None: "unknown harm",
}  # fmt: skip
#: Experiments up to which a sentence names each by its queue.
_NAMED = 4
Family = Literal["measured", "harm"]


@dataclass(frozen=True)
class ExperimentFigure:
    """A figure of an experiment: a measured one, or the harm in one."""

    family: Family
    metric: str
    """Its name in the long table (`sojourn.scoring.long_table`)."""
    name: str
    """Its label, with its probe named as in the runs."""
    figure: Figure

    @property
    def label(self) -> str:
        """Its name with its unit."""
        return with_unit(self.name, unit_of(self.metric))

    @property
    def never(self) -> str:
        """The text for an infinite value."""
        return never_came(self.metric)


@dataclass(frozen=True)
class Duplicate:
    """A run with the seed and the bytes of another one, as simulated time gives them: no repetition."""

    run: LoadedRun
    name: str
    of: str
    """The name of the run that counts."""

    @property
    def reason(self) -> str:
        """Why it does not count."""
        return duplicate_reason(self.of)


@dataclass(frozen=True)
class Experiment:
    """Runs with the same options except seed and order, and their summary."""

    title: str
    runs: tuple[LoadedRun, ...]
    summary: ExperimentSummary
    names: tuple[str, ...]
    """The runs' names in the summary."""
    duplicates: tuple[Duplicate, ...] = ()
    """Further runs, each with the bytes of one that counts."""

    @property
    def victims(self) -> list[VictimRun]:
        """The runs with a victim: all of them, or none."""
        return [run for run in self.runs if isinstance(run, VictimRun)]

    @property
    def drawn(self) -> bool:
        """Whether the seed of each run drew a rig."""
        return all(run.manifest.drawn for run in self.runs)

    @property
    def scorer(self) -> str:
        """The version of the scorer of all runs; for cells, the first digits of its digest."""
        return str(self.runs[0].definition["scorer"])[:12] or "an unknown one"

    @property
    def base(self) -> str:
        """Of what the figures without a contender are: of the victim alone, or of the whole cell."""
        return "alone" if self.victims else "whole cell"

    def labelled(self, label: str) -> str:
        """Return a metric's label with its probe named as in these runs, and with its flow's contender."""
        first = self.runs[0]
        if isinstance(first, CellRun) and (flow := re.match(r"flow (\d+)(?=, )", label)):
            return f"{flow[0]} ({printable(first.senders[int(flow[1]) - 1])}){label[flow.end() :]}"
        return labelled(label, *(run.scores for run in self.victims))

    @property
    def service(self) -> str:
        """The victim's service; empty if unknown."""
        return self.runs[0].service

    @property
    def outcomes(self) -> list[VictimOutcome]:
        """The viewer's average outcome with every contender over the valid runs."""
        if len(self.summary.valid) == 1 and self.victims:
            return next(outcomes(run.scores) for run in self.victims if not run.reasons)
        return average_outcomes(self.summary, self._pictures)

    @property
    def headline(self) -> str:
        """The outcome of the valid runs, one sentence per contender; empty without valid runs."""
        if not self.victims:
            return cell_headline(self.runs)
        if len(self.summary.valid) == 1:
            return next(headline(run.scores, self.service) for run in self.victims if not run.reasons)
        return average_headline(self.summary, self.service, self._pictures)

    @property
    def _pictures(self) -> int:
        """The pictures of which the heights of a run are the mean."""
        return pictures_of(self.victims[0].scores.parties) if self.victims else 1

    @property
    def phase_s(self) -> str:
        """The length of the contender phases, s."""
        lengths = {p["seconds"] for p in self.runs[0].options.get("phases", []) if p["contender"]}
        return " or ".join(f"{length:g}" for length in sorted(lengths)) or "?"

    def figures(self, *families: Family) -> Iterator[ExperimentFigure]:
        """Yield the figures of the valid runs that tables and plots show: of these families, or of both."""
        for family in families or get_args(Family):
            for figure in self.summary.measured if family == "measured" else self.summary.harm:
                metric = figure.metric if family == "measured" else HARM + figure.metric
                yield ExperimentFigure(family, metric, self.labelled(named(metric)[0]), figure)


def find_runs(
    places: Sequence[Path], *, whole: bool = True, unreadable: dict[Path, str] | None = None
) -> list[LoadedRun]:
    """Return the runs at `places`: runs, folders of runs, or folders of earlier summaries, for their runs.

    A copy of a run is not a repetition and is skipped. Raises ReportError if a place has no run, LoadError if a run has
    no scores, or with `whole` if any of its files was altered. With `unreadable`, such a run of a folder is skipped and
    added to it with the reason; ReportError if no other is left.
    """
    by_path: dict[Path, LoadedRun] = {}
    for place in places:
        if is_run(place):
            paths = [place]
        elif is_summary(place):
            paths = _summarised(place)
        else:
            paths = experiment_runs(place)
        if not paths:
            raise ReportError(f"{place}: no finished run in it; give a run or a folder of runs", code="not-a-run")
        for path in (path.resolve() for path in paths):
            try:
                run = load_run(path)
                by_path[path] = run.whole(REPORT) if whole else run
            except StoreError as error:
                if unreadable is None or is_run(place):
                    raise
                unreadable[path] = str(error)
    if unreadable and not by_path:
        raise ReportError(next(iter(unreadable.values())), code="unreadable-run")
    return without_copies(by_path.values())


def without_copies(runs: Iterable[LoadedRun]) -> list[LoadedRun]:
    """Return the runs in the order of their paths, without further copies of a run."""
    last_first = sorted(runs, key=lambda run: run.path, reverse=True)
    once = {(run.manifest.run, run.manifest.created): run for run in last_first}
    return sorted(once.values(), key=lambda run: run.path)


def is_summary(folder: Path) -> bool:
    """Return whether a folder is that of a summary; one with runs is a folder of runs, whatever else is in it."""
    return (folder / SUMMARY).exists() and not run_folders(folder)


def _summarised(folder: Path) -> list[Path]:
    """Return the runs of the summary in a folder. Raises ReportError."""
    try:
        every = (run for one in _json(folder / SUMMARY) for run in (*one["runs"], *one.get("duplicates", ())))
        return [folder / run["path"] for run in every]
    except (LookupError, TypeError) as wrong:
        raise ReportError(f"{folder / SUMMARY}: not a summary of runs: {wrong!r}", code="damaged") from wrong


def experiment_runs(folder: Path) -> list[Path]:
    """Return the finished runs of experiments and of cells in a folder; other tests may keep runs without scores."""
    return [run for run in RunStore(folder).runs() if has_figures(run)]


def has_figures(run: Path) -> bool:
    """Return whether a run is one of an experiment or of a cell, by its specification."""
    return any((run / name).exists() for name in ("timeline.json", CELL))


def experiments(runs: Sequence[LoadedRun], relevance: Relevance = DEFAULT) -> list[Experiment]:
    """Group runs into experiments, in the order of their first runs; differences have the sizes in `relevance`."""
    called = distinct_names([run.path for run in runs])
    made = []
    for group in grouped(runs):
        counted, further = without_duplicates(group.runs)
        names = {called[run.path]: run for run in counted}
        duplicates = tuple(Duplicate(run, called[run.path], called[of.path]) for run, of in further)
        made.append(Experiment(group.title, tuple(counted), _summary(names, relevance), tuple(names), duplicates))
    return made


def duplicate_reason(of: str) -> str:
    """Return why a run does not count that has the bytes of the run named `of`."""
    return f"same seed and bytes as {of}; the two count as one run"


def without_duplicates(runs: Iterable[LoadedRun]) -> tuple[list[LoadedRun], list[tuple[LoadedRun, LoadedRun]]]:
    """Return the runs of one experiment that count, and the duplicates, each with the run whose bytes it has."""
    counted, duplicates = list[LoadedRun](), list[tuple[LoadedRun, LoadedRun]]()
    for run in runs:
        if of := next((it for it in counted if same_bytes(it.manifest, run.manifest)), None):
            duplicates.append((run, of))
        else:
            counted.append(run)
    return counted, duplicates


def by_options(runs: Sequence[LoadedRun], place: Path) -> dict[str, Experiment]:
    """Return the experiments in a folder by their options.

    Raises ReportError if two scorers have scored runs with the same options.
    """
    every: dict[str, Experiment] = {}
    for one in experiments(runs):
        options = {name: value for name, value in one.runs[0].definition.items() if name != "scorer"}
        other = every.setdefault(json.dumps(options, sort_keys=True), one)
        if other is not one:
            raise two_scorers(str(place), other, one)
    return every


def two_scorers(where: str, one: Experiment, other: Experiment) -> ReportError:
    """Return the refusal to put together what two scorers have computed."""
    return ReportError(
        f"{where}: runs scored by {one.scorer} and by {other.scorer}; run `sojourn rescore --write` on them",
        code="other-version",
    )


def by_rig(figures: Sequence[tuple[Experiment, Estimate]]) -> list[tuple[float, ...]] | None:
    """Return a figure of several experiments as a row per rig; None unless all have it from the same rigs, each once.

    The rigs are in the order of the first experiment.
    """
    rows: list[dict[int | None, float]] = []
    for one, figure in figures:
        seeds = [run.seed for run in one.runs if not run.reasons]
        if not one.drawn or not len({*seeds}) == len(seeds) == figure.n or (rows and {*seeds} != {*rows[0]}):
            return None
        rows.append(dict(zip(seeds, figure.values, strict=True)))
    return [tuple(row[seed] for row in rows) for seed in rows[0]]


@dataclass(frozen=True)
class RunGroup:
    """Runs with the same options except seed and order: an experiment that is not summarised yet."""

    title: str
    definition: Mapping[str, Any]
    runs: Sequence[LoadedRun]


def grouped(runs: Iterable[LoadedRun]) -> list[RunGroup]:
    """Group runs by their options, in the order of their first runs."""
    groups: dict[str, list[LoadedRun]] = {}
    for run in runs:
        groups.setdefault(json.dumps(run.definition, sort_keys=True), []).append(run)
    # Options that the name does not include distinguish runs with the same name.
    definitions = [json.loads(key) for key in groups]
    worded = [dict(option_words(field, value) for field, value in one.items()) for one in definitions]
    return [
        RunGroup(
            _title(words) + differing(words, [it for it in worded if _title(it) == _title(words)]),
            one,
            members,
        )
        for one, words, members in zip(definitions, worded, groups.values(), strict=True)
    ]


def is_title(title: str, run: LoadedRun) -> bool:
    """Return whether `grouped` calls the run's experiment so, in some selection of runs."""
    words = dict(option_words(field, value) for field, value in run.definition.items())
    name = _title(words)
    options = title.removeprefix(f"{name} (").removesuffix(")").split("; ")
    return title == name or (title.startswith(f"{name} (") and {*options} <= {f"{it} {words[it]}" for it in words})


def _title(words: Mapping[str, str]) -> str:
    return "{}: {}".format(words["test"], words["cell"])


def _summary(runs: Mapping[str, LoadedRun], relevance: Relevance) -> ExperimentSummary:
    """What runs of one experiment, by name, say together."""
    victims = {name: run.scores for name, run in runs.items() if isinstance(run, VictimRun)}
    if victims:
        return summarise(victims, relevance)
    cells = {name: run.scores for name, run in runs.items() if isinstance(run, CellRun) and not run.reasons}
    return summarise_cells(cells, {name: run.reasons for name, run in runs.items() if run.reasons})


def distinct_names(paths: Collection[Path]) -> dict[Path, str]:
    """Return a name per path: its last part, and for namesakes as many parts as needed to distinguish them.

    Two hosts that start the same cell in the same second use the same run name.
    """
    names: dict[Path, str] = {}
    every, depth = set(paths), 0
    while len(names) < len(every):
        depth += 1
        alike = Counter(path.parts[-depth:] for path in every)
        names = {p: "/".join(p.parts[-depth:]) for p in every if alike[p.parts[-depth:]] == 1} | names
    return names


def differing(one: Mapping[str, Any], alike: Sequence[Mapping[str, Any]]) -> str:
    """Return in brackets the options in which `one` differs from its namesakes; empty if there are none."""
    differences = [f"{name} {one[name]}" for name in varying([one, *alike]) if name in one]
    return f" ({'; '.join(differences)})" if differences else ""


def varying(definitions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the options in which these differ, in the order of their first appearance."""
    names = dict.fromkeys(name for one in definitions for name in one)
    return [name for name in names if any(one.get(name) != definitions[0].get(name) for one in definitions)]


def answers(groups: Sequence[Experiment]) -> list[str]:
    """Return what happened in all experiments, a sentence for each contender, and how sure that is."""
    every: dict[str, list[tuple[str, VictimOutcome]]] = {}
    for one in groups:
        for outcome in average_outcomes(one.summary) if one.summary.valid else ():
            every.setdefault(outcome.name, []).append((queue(one.victims[0].scores.lab), outcome))
    said = [f"With {name}: {_in_all(had) if len(had) > 1 else _in_one(had[0][1])}." for name, had in every.items()]
    fewest = min((len(one.summary.valid) for one in groups if one.summary.valid), default=ENOUGH)
    if said and fewest < ENOUGH:
        said.append(f"Not a result yet: {count_of(fewest, 'run')} of an experiment, {ENOUGH} are needed.")
    return said


def _in_one(outcome: VictimOutcome) -> str:
    """Return the harm in the only experiment with a contender, with its interval, or its other effects."""
    words = _HARM[outcome.severity]
    if outcome.severity != "none":
        return f"{words} {interval(outcome.over_runs)}" if outcome.over_runs else words
    effects = [effect.words or effect.kind for effect in outcome.effects]
    return f"{words}, but {enumerated(effects)}" if effects else words


def _in_all(had: Sequence[tuple[str, VictimOutcome]]) -> str:
    """Return the experiments, by queue and outcome, by severity, and those with other effects only.

    They are named by their queues if these distinguish them, and counted otherwise.
    """
    by_name = len({name for name, _ in had}) == len(had) <= _NAMED

    def where(chosen: Sequence[str]) -> str:
        return enumerated(chosen) if by_name else str(len(chosen))

    by_severity: dict[Severity | None, list[str]] = {}
    others: dict[str, list[str]] = {}
    for name, outcome in had:
        by_severity.setdefault(outcome.severity, []).append(name)
        for effect in outcome.effects if outcome.severity == "none" else ():
            others.setdefault(effect.kind, []).append(name)
    said = [f"{words} in {where(by_severity[word])}" for word, words in _HARM.items() if word in by_severity]
    but = enumerated([f"{kind} in {where(names)}" for kind, names in others.items()]) if others else ""
    total = "" if by_name else f" of {len(had)} experiments"
    return f"{', '.join(said)}{total}" + (f" ({'but' if by_name else 'of these,'} {but})" if but else "")


def headline_rate(scores: Mapping[str, Any]) -> tuple[str, str]:
    """Return label and field of a flow's rate: D_SS, or the goodput of flows that take turns and share no window."""
    begin, end = scores.get("window_s", (0, 1))  # scores from elsewhere may have none
    return ("D_SS", "d_ss_mbps") if begin < end else ("Goodput", "goodput_mbps")


def cell_headline(runs: Sequence[LoadedRun]) -> str:
    """Return `headline_rate` of each flow of a cell, the mean over its valid runs, and how sure that is.

    Empty without any.
    """
    valid = [run for run in runs if isinstance(run, CellRun) and not run.reasons]
    if not valid:
        return ""
    rates: dict[str, list[float]] = {}
    for row in (row for run in valid for row in run.figures):
        rates.setdefault(row.metric, []).append(row.value)
    label, metric = headline_rate(valid[0].scores)
    text = [
        f"{printable(name)} {number(fmean(given))}"
        for n, name in enumerate(valid[0].senders)
        if (given := rates.get(f"flows.{n}.{metric}"))
    ]
    return (f"{label} in Mbit/s: {', '.join(text)}. " if text else "") + sureness(len(valid), None)


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ReportError(f"{file}: cannot be read: {error}", code="damaged") from error
