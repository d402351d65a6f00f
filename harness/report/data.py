# SPDX-License-Identifier: Apache-2.0
"""A run's recorded data as tables, for the user's analysis: in Python, or as Parquet for other programs."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.hardware.machine.messages import did_you_mean, printable
from sojourn.harness.report.experiments import (
    RunGroup,
    distinct_names,
    duplicate_reason,
    grouped,
    has_figures,
    varying,
    without_copies,
    without_duplicates,
)
from sojourn.harness.report.index import Left, invalid_runs, read_folder
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.store.loaded import CellRun, LoadedRun, VictimRun, load_run, valid
from sojourn.harness.store.manifest import MANIFEST, is_run, run_folders
from sojourn.scoring.cell_tables import TABLES as CELL_TABLES
from sojourn.scoring.long_table import COLUMNS, LongRow, frame
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.tables import TABLES, Table

DESCRIPTION = "columns.md"


class RunData:
    """A finished run and its tables, each read on first access: `run.packets`, `run.probes`, …

    The tables are those of `tables_of`, as polars DataFrames; a table that was not recorded is
    empty. Access raises LoadError if a file of the table differs from the manifest, and another RuntimeError, in one
    line, if the file is damaged.
    """

    def __init__(self, run: LoadedRun) -> None:
        self._run = run
        self.tables = tables_of(run)
        self._read = cache(self._table)

    @property
    def path(self) -> Path:
        """The run's path."""
        return self._run.path

    @property
    def scores(self) -> Scores | dict[str, Any]:
        """The run's scores: with the schema of scores.json, or the document of a cell's run."""
        return self._run.scores

    @property
    def options(self) -> dict[str, Any]:
        """The run's options."""
        return self._run.options

    def __getattr__(self, name: str) -> pl.DataFrame:
        """Return the table of this name."""
        if name.startswith("_") or name == "tables" or name not in self.tables:
            raise AttributeError(f"{self.path}: has no table {name!r}; {_known(name, self.tables)}")
        return self._read(name)

    def __dir__(self) -> list[str]:
        """Return the attributes, for completion."""
        return [*super().__dir__(), *self.tables]

    def __repr__(self) -> str:
        """Return the run's name and its tables."""
        return f"<{self.path.name}: {', '.join(self.tables)}>"

    def _table(self, name: str) -> pl.DataFrame:
        self._run.require_unaltered(*self.tables[name].files)
        return self.tables[name].of(self.path)


def tables_of(run: LoadedRun) -> Mapping[str, Table]:
    """Return the tables of a run of its kind, by name: its raw files, and its scores as the long table."""
    manifest = run.manifest

    def figures(_: Path) -> pl.DataFrame:
        return frame([(f"{manifest.test}: {manifest.cell}", manifest.run, run.seed, run.figures)])

    long = Table("a figure of `scores.json`", COLUMNS, (SCORES,), figures)
    return {**(CELL_TABLES if isinstance(run, CellRun) else TABLES), "figures": long}


def load(place: str | os.PathLike[str], *, void: bool = False) -> Any:
    """Open a finished, valid run as `RunData`, or the runs of a folder as one long table (`of_folder`).

    `void` also opens invalid runs, for diagnosis. Raises LoadError, a RuntimeError, for anything else: unfinished,
    edited, or not a run; in a folder, such runs are skipped with a warning.
    """
    path = Path(place)
    if not is_run(path) and (run_folders(path) or _without_manifest(path)):
        return of_folder(path, void=void)
    return of_run(path, void=void)


def of_run(run: Path, *, void: bool = False) -> RunData:
    """Open a run; see `load`."""
    loaded = load_run(run)
    return RunData(loaded if void else valid(loaded))


def of_folder(folder: Path, *, void: bool = False) -> pl.DataFrame:
    """Return the figures of a folder's runs as one table: the columns of `figures`, then the options that differ.

    An option has a column if experiments of one kind differ in it; a value that is not a number, a text or a truth
    value is JSON. `void` also reads invalid runs and adds the column `valid`. Every skipped run is named in a warning.
    """
    runs, left = read_folder(folder)
    left += [Left(path, "unreadable", f"{MANIFEST} is missing") for path in _without_manifest(folder)]
    if not void:
        left += invalid_runs(runs)
    figures: dict[Path, list[LongRow]] = {}
    for run in (run for run in runs if void or not run.reasons):
        try:
            figures[run.path] = run.figures
        except RuntimeError as damaged:
            left.append(Left(run.path, "unreadable", str(damaged)))
    kept = without_copies(run for run in runs if run.path in figures)
    names = distinct_names([run.path for run in kept])
    groups = list[RunGroup]()
    for group in grouped(kept):
        counted, further = without_duplicates(group.runs)
        groups.append(replace(group, runs=counted))
        left += [Left(run.path, "duplicate", duplicate_reason(names[of.path])) for run, of in further]
    for one in left:
        warnings.warn(printable(f"{one.path}: skipped: {one.state}: {one.reason}"), stacklevel=3)
    table = frame((group.title, names[run.path], run.seed, figures[run.path]) for group in groups for run in group.runs)
    every = [(group, run) for group in groups for run in group.runs]
    of_runs: dict[str, list[Any]] = {"run": [names[run.path] for _, run in every]}
    if void:
        of_runs["valid"] = [not run.reasons for _, run in every]
    for name in dict.fromkeys(name for kind in (VictimRun, CellRun) for name in _options(groups, kind)):
        of_runs[name] = _alike([_native(group.definition.get(name), run) for group, run in every])
    return table.join(pl.DataFrame(of_runs, schema_overrides={"run": pl.String}), on="run", maintain_order="left")


def _without_manifest(folder: Path) -> list[Path]:
    """Return what looks like the directory of a run but has no manifest."""
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in inside if path.is_dir() and has_figures(path) and not is_run(path)]


def _options(groups: Sequence[RunGroup], kind: type[LoadedRun]) -> list[str]:
    """Return the options in which the experiments of a kind of run differ; their names are in `experiment`."""
    named = varying([group.definition for group in groups if isinstance(group.runs[0], kind)])
    return [name for name in named if name not in ("test", "cell")]


def _native(value: Any, run: LoadedRun) -> Any:
    """Return the value of an option; those of a cell are kept as JSON."""
    with suppress(ValueError):
        return json.loads(value) if isinstance(run, CellRun) and isinstance(value, str) else value
    return value


def _alike(values: Sequence[Any]) -> list[Any]:
    """Return values of one type as they are, whole numbers among others as float, and any others as JSON."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) <= 1 and kinds <= {str, bool, int, float}:
        return list(values)
    return [None if value is None else json.dumps(value, sort_keys=True) for value in values]


def write_tables(data: RunData, folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Write tables (default: all) as Parquet to `folder`, with a description of their columns; return the files.

    Raises ReportError for an unknown table, RuntimeError as `RunData`, OSError.
    """
    for name in names:
        if name not in data.tables:
            raise ReportError(
                f"--table {name}: unknown table for this kind of run; {_known(name, data.tables)}", code="unknown-value"
            )
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in names or data.tables:
        made = folder / f"{name}.parquet.new"
        getattr(data, name).write_parquet(made, metadata={"run": data.path.name})
        files.append(made.replace(folder / f"{name}.parquet"))
    text = "\n\n".join(data.tables[name].described(name) for name in names or data.tables)
    (folder / DESCRIPTION).write_text(f"# Tables of {data.path.name}\n\n{text}\n")
    return [*files, folder / DESCRIPTION]


def _known(name: str, tables: Mapping[str, Table]) -> str:
    return did_you_mean(name, tables) or f"known: {', '.join(tables)}"
