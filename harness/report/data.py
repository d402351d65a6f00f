# SPDX-License-Identifier: Apache-2.0
"""A run's recorded data as tables, for the user's analysis: in Python, or as Parquet for other programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.hardware.machine.messages import did_you_mean
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.store.loaded import LoadedRun, check_seal, load_run, load_valid_run
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.tables import TABLES

DESCRIPTION = "columns.md"


class RunData:
    """A finished run and its tables, each read on first access: `run.packets`, `run.probes`, …

    The tables are those of `sojourn.scoring.tables.TABLES`, as polars DataFrames; a table that was not recorded is
    empty. Access raises LoadError if a file of the table differs from the manifest, and another RuntimeError, in one
    line, if the file is damaged.
    """

    def __init__(self, run: LoadedRun) -> None:
        self._run = run
        self._read = cache(self._table)

    @property
    def path(self) -> Path:
        """The run's path."""
        return self._run.path

    @property
    def scores(self) -> Scores:
        """The run's scores; the schema of scores.json."""
        return self._run.scores

    @property
    def options(self) -> dict[str, Any]:
        """The run's options."""
        return self._run.options

    def __getattr__(self, name: str) -> pl.DataFrame:
        """Return the table of this name."""
        if name.startswith("_") or name not in TABLES:
            raise AttributeError(
                f"a run has no table {name!r}; {did_you_mean(name, TABLES) or 'known: ' + ', '.join(TABLES)}"
            )
        return self._read(name)

    def __dir__(self) -> list[str]:
        """Return the attributes, for completion."""
        return [*super().__dir__(), *TABLES]

    def __repr__(self) -> str:
        """Return the run's name and its tables."""
        return f"<{self.path.name}: {', '.join(TABLES)}>"

    def _table(self, name: str) -> pl.DataFrame:
        for file in TABLES[name].files:
            check_seal(self.path, file, self._run.manifest)
        return TABLES[name].of(self.path)


def load(run: str | os.PathLike[str], *, void: bool = False) -> RunData:
    """Open a finished, valid run; `void` also opens an invalid run, for diagnosis.

    Raises LoadError, a RuntimeError, for anything else: unfinished, edited, or not a run.
    """
    path = Path(run)
    return RunData(load_run(path) if void else load_valid_run(path))


def write_tables(data: RunData, folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Write tables (default: all) as Parquet to `folder`, with a description of their columns; return the files.

    Raises ReportError for an unknown table, RuntimeError as `RunData`, OSError.
    """
    for name in names:
        if name not in TABLES:
            raise ReportError(f"--table {name}: unknown table; {_known(name)}")
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in names or TABLES:
        made = folder / f"{name}.parquet.new"
        getattr(data, name).write_parquet(made, metadata={"run": data.path.name})
        files.append(made.replace(folder / f"{name}.parquet"))
    text = "\n\n".join(TABLES[name].described(name) for name in names or TABLES)
    (folder / DESCRIPTION).write_text(f"# Tables of {data.path.name}\n\n{text}\n")
    return [*files, folder / DESCRIPTION]


def _known(name: str) -> str:
    return did_you_mean(name, TABLES) or f"known: {', '.join(TABLES)}"
