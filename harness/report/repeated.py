# SPDX-License-Identifier: Apache-2.0
"""Repeats a sample of a table's runs, and compares their figures with those of the table.

A table whose code has changed since stays as it is where the sample is the same; its stamp says so.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sojourn.hardware.machine.files import CHECKOUT, replace_file
from sojourn.harness.report.experiments import grouped, is_title
from sojourn.harness.report.paper import OF_TABLES, figures_of_runs, place_of_runs, runs_of
from sojourn.harness.report.stamps import PaperError, PaperTable, Stamp, have, out_of_date
from sojourn.harness.store.loaded import LoadedRun
from sojourn.harness.store.runs import git_state

#: How many of the figures that differ an error names.
_NAMED = 3
_Figures = Mapping[tuple[str, ...], str]
"""A run's values, by phase, contender, metric and unit."""
_NO_FIGURES: tuple[str, _Figures] = "", {}
_Runs = Mapping[tuple[str, str], tuple[str, _Figures]]
"""The scores' digest and the figures of every run of a file, by experiment and seed."""


@dataclass(frozen=True)
class Repetition:
    """What the repeated runs of a table have in common with the table's."""

    table: PaperTable
    runs: int
    same_scores: bool
    """Whether the files of scores are the same to the byte, and not only the figures that the table shows."""
    differing: Sequence[str]
    """A line per run whose figures are others, or that is invalid, and one on another processor."""

    @property
    def what(self) -> str:
        """What is the same."""
        return "scores" if self.same_scores else "figures"

    @property
    def text(self) -> str:
        """One line on all of the runs, or one per run that differs."""
        if self.differing:
            return "\n".join(f"{self.table.name}: {line}" for line in self.differing)
        return f"{self.table.name}: {self.runs} repeated, {have(self.runs)} the same {self.what} as in the table"


def has_runs_file(table: PaperTable) -> bool:
    """Return whether there is a file of the table's figures, with which runs can be compared."""
    return (CHECKOUT / table.runs_file).is_file()


def repeat_samples(tables: Sequence[PaperTable], results: Path, sample: int) -> Iterator[Repetition]:
    """Repeat `sample` runs of each command of tables, and yield how they compare with the tables' runs.

    The runs are in a folder of `results` for the commit, apart from those of tables. A table whose runs are all the
    same is stamped with this code if it was out of date. The pages come last, as in
    `sojourn.harness.report.paper.renew`. Raises PaperError for a table of which no sample can be made or compared, and
    for code that was not committed.
    """
    for table in tables:
        _require_comparable(table)
    if (code := git_state()) is None or code.dirty:
        raise PaperError(
            "--sample: this code is not committed; commit it, so that a table can name it", code="conflict"
        )
    folder = results / f"sample-{code.commit[:8]}"
    places = [(table, *place_of_runs(table, folder)) for table in tables]
    made = [(table, parts, runs_of(table, folder, sample)) for table, parts, folder in places]
    for table, parts, runs in made:
        repetition = compared(table, runs, (CHECKOUT / table.runs_file).read_text())
        stamp, file = Stamp.of_runs(runs, parts), CHECKOUT / table.page
        page = file.read_text()
        if repetition.differing and stamp.differs_in_processor(table, page):
            seen = " and ".join(stamp.processors)
            other = f"these runs saw the processor {seen}, the table's another (docs/simulated-time.md)"
            repetition = replace(repetition, differing=[*repetition.differing, other])
        elif not repetition.differing and out_of_date([table]):
            replace_file(file, stamp.renewed(table, page, repetition.runs, repetition.what).encode())
        yield repetition


def _require_comparable(table: PaperTable) -> None:
    """Raise PaperError for a table of which a sample of runs cannot be made, or would not show whether it stands."""
    repeat = f"; `sojourn paper {table.name}` repeats all of them"
    if not has_runs_file(table):
        raise PaperError(f"{table.name}: has no {table.runs_file} to compare runs with{repeat}", code="missing")
    changed = out_of_date([table]).get(table.name, [])
    if of_all := [part for part in changed if part in OF_TABLES or part == "command"]:
        why = f"a sample does not show what all runs give now, because {' and '.join(of_all)} changed"
        raise PaperError(f"{table.name}: {why}{repeat}", code="other-version")


def compared(table: PaperTable, runs: Sequence[LoadedRun], known: str) -> Repetition:
    """Compare repeated runs with the file of a table's figures, `known`.

    Raises PaperError if it does not have a run, or has no run's figures.
    """
    every, differing, same, count = _by_run(known), [], True, 0
    in_file = _metrics(every)
    for run in runs:
        of_run = _by_run(figures_of_runs(table, [run]))
        titles = [title for title, seed in every if seed == str(run.seed) and is_title(title, run)]
        if not titles and in_file.isdisjoint(_metrics(of_run)):
            continue  # no figures; earlier versions also wrote none of published cells without flows
        count += 1
        name = f"{grouped([run])[0].title}, seed {run.seed}"
        if len(titles) != 1:
            raise PaperError(f"{table.runs_file}: has {len(titles)} runs {name} instead of one", code="missing")
        scores_then, figures_then = every[titles[0], str(run.seed)]
        scores, figures = next(iter(of_run.values()), _NO_FIGURES)
        same &= scores == scores_then
        if run.reasons:
            differing.append(f"{name}: is invalid: {'; '.join(run.reasons)}")
        elif scores != scores_then and figures != figures_then:
            differing.append(f"{name}: {_differences(figures_then, figures)}")
    if not count:
        raise PaperError(
            f"{table.runs_file}: has no figures of the repeated runs; give a larger --sample", code="missing"
        )
    return Repetition(table, count, same, differing)


def _metrics(runs: _Runs) -> set[str]:
    return {metric for _, figures in runs.values() for _, _, metric, _ in figures}


def _by_run(text: str) -> _Runs:
    """Return the scores' digest and the figures of every run of a file, by experiment and seed."""
    runs: dict[tuple[str, str], tuple[str, dict[tuple[str, ...], str]]] = {}
    for row in csv.DictReader(text.splitlines()):
        _, figures = runs.setdefault((row["experiment"], row["seed"]), (row["scores"], {}))
        figures[tuple(row[name] for name in ("phase", "contender", "metric", "unit"))] = row["value"]
    return runs


def _differences(then: _Figures, now: _Figures) -> str:
    """Return the first figures that are others, each as `metric (phase): then, now`."""
    keys = [key for key in dict.fromkeys([*then, *now]) if then.get(key) != now.get(key)]
    texts = [f"{metric} ({phase or 'all'}): {then.get(key, 'none')}, now {now.get(key, 'none')}"
             for key in keys[:_NAMED] for phase, _, metric, _ in [key]]  # fmt: skip
    return "; ".join(texts) + (f"; and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
