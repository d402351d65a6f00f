# SPDX-License-Identifier: Apache-2.0
"""A run's recorded data as tables, for the user's analysis: in Python, or as Parquet for other programs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.hardware.machine.messages import did_you_mean
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.store.loaded import CellRun, LoadedRun, load_run, valid
from sojourn.scoring.cell_tables import TABLES as CELL_TABLES
from sojourn.scoring.long_table import COLUMNS, frame
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


def load(run: str | os.PathLike[str], *, void: bool = False) -> RunData:
    """Open a finished, valid run; `void` also opens an invalid run, for diagnosis.

    Raises LoadError, a RuntimeError, for anything else: unfinished, edited, or not a run.
    """
    loaded = load_run(Path(run))
    return RunData(loaded if void else valid(loaded))


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
