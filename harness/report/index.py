# SPDX-License-Identifier: Apache-2.0
"""`index.html` of a results folder: the harm in every queue with every contender, and links to the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sojourn.harness.report.experiments import Experiment, experiments, has_figures
from sojourn.harness.report.html import write_page
from sojourn.harness.report.repetitions import INDEX, counted, experiments_view
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.store.loaded import LoadedRun, load_run
from sojourn.harness.store.manifest import PARTIAL, REPORT, StoreError, is_run, run_folders
from sojourn.harness.store.runs import unfinished_state

#: States of excluded runs, in the order of a page's head.
_STATES = ("invalid", "duplicate", "running", "not scored", "interrupted", "unreadable")


@dataclass(frozen=True)
class Left:
    """An excluded run: its directory, its state (one of _STATES), and why."""

    path: Path
    state: str
    reason: str

    @property
    def name(self) -> str:
        """Its folder, relative to the results: the runs of every cell are `seed-1`, `seed-2`, …, in the cell's."""
        cell = f"{self.path.parent.name}/" if self.path.name.startswith("seed-") else ""
        return cell + self.path.name


def write_index(folder: Path) -> Path:
    """Write `index.html` of the experiments with runs in `folder` and return its path.

    A run that cannot be read is listed with the reason, like an invalid one. Raises ReportError without any run.
    """
    runs, left = read_folder(folder)
    if not runs and not left:
        raise ReportError(
            f"{folder}: neither a run nor a folder with runs of experiments; give one of the two", code="not-a-run"
        )
    return write_index_of(folder, experiments(runs), left)


def write_index_of(folder: Path, groups: Sequence[Experiment], left: Sequence[Left]) -> Path:
    """Write `index.html` of the experiments read from `folder` and return its path."""
    return write_page("index.html.j2", _content(folder, groups, left), folder / INDEX)


def read_folder(folder: Path, *, whole: bool = False) -> tuple[list[LoadedRun], list[Left]]:
    """Return a folder's readable finished runs of experiments, and the unreadable or unfinished ones.

    With `whole`, a run with any altered file counts as unreadable.
    """
    runs, left = list[LoadedRun](), list[Left]()
    for path in run_folders(folder):
        try:
            if path.suffix == PARTIAL:
                left.append(_unfinished(path))
            elif has_figures(path):
                run = load_run(path)
                runs.append(run.whole(REPORT) if whole else run)
        except StoreError as error:
            left.append(Left(path, "unreadable", str(error)))
    return runs, left


def unfinished(folder: Path) -> list[Left]:
    """Return a folder's unfinished runs; a run with an unreadable manifest counts as unreadable."""
    left = list[Left]()
    for path in (run for run in run_folders(folder) if run.suffix == PARTIAL):
        try:
            left.append(_unfinished(path))
        except StoreError as error:
            left.append(Left(path, "unreadable", str(error)))
    return left


def _unfinished(run: Path) -> Left:
    return Left(run, *unfinished_state(run))


def invalid_runs(runs: Iterable[LoadedRun]) -> list[Left]:
    """Return the invalid ones of these runs, with their reasons."""
    return [Left(run.path, "invalid", "; ".join(run.reasons)) for run in runs if run.reasons]


def duplicates(groups: Iterable[Experiment]) -> list[Left]:
    """Return the runs of experiments that count as one with another run."""
    return [Left(it.run.path, "duplicate", it.reason) for one in groups for it in one.duplicates]


def _content(folder: Path, groups: Sequence[Experiment], left: Sequence[Left]) -> dict[str, Any]:
    out = [*invalid_runs(run for one in groups for run in one.runs), *duplicates(groups), *left]
    states = Counter(run_left.state for run_left in out)
    valid = sum(len(one.summary.valid) for one in groups)
    pages = {page.parent for page in folder.glob(f"*/{REPORT}")}
    return experiments_view(groups, folder) | {
        "title": f"Results: {folder.resolve().name}",
        "counts": f"{counted(valid + len(out), groups)}: {valid} valid",
        "left_counts": ", ".join(f"{states[state]} {state}" for state in _STATES if states[state]),
        "left": [
            {
                "name": run_left.name,
                "link": f"{quote(run_left.name)}/{REPORT}" if (run_left.path / REPORT).exists() else "",
                "state": run_left.state,
                "reason": run_left.reason,
            }
            for run_left in out
        ],
        "others": [(page.name, f"{quote(page.name)}/{REPORT}") for page in sorted(pages) if not is_run(page)],
    }
