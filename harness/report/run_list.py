# SPDX-License-Identifier: Apache-2.0
"""The runs of a results folder, one line each; a series in it is one line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.text import Text

from sojourn.hardware.machine.messages import count_of, printable
from sojourn.harness.report.experiments import grouped
from sojourn.harness.report.grids import bottleneck_text
from sojourn.harness.report.headline import outcomes
from sojourn.harness.report.number_text import two_decimals
from sojourn.harness.report.option_words import option_words
from sojourn.harness.store.disk_usage import size_words, tree_bytes
from sojourn.harness.store.loaded import LoadedRun, VictimRun, load_run
from sojourn.harness.store.manifest import (
    PARTIAL,
    Manifest,
    StoreError,
    is_run,
    read_manifest,
    run_folders,
)
from sojourn.harness.store.runs import unfinished_state
from sojourn.harness.terminal import UNLIMITED, plain_table
from sojourn.scoring.statistics.harm import severity

SERIES = "series"
"""The experiment of a folder of runs."""
#: The options of a bottleneck.
_PATH = ("rate_down_bps", "qdisc_down", "rtt_us")
_STYLES = {"none": "green", "some": "yellow", "severe": "red"}


@dataclass(frozen=True)
class ListedRun:
    """A run or a series: what it is, how it ended, and the harm in the primary metric, by contender."""

    path: Path
    created: float | None
    """Unix s; None if unknown."""
    experiment: str
    state: str
    """valid, invalid, interrupted, not scored, running or unreadable; of a series the number of its runs."""
    bytes: int
    harm: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    """Why it is not valid."""

    @property
    def date(self) -> str:
        """When it was made, UTC."""
        return "–" if self.created is None else time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.created))


def listed(folder: Path, words: Sequence[str] = ()) -> list[ListedRun]:
    """Return the runs and series in a folder, oldest first, of which name, experiment and state have all `words`.

    Raises StoreError if the folder has none.
    """
    if is_run(folder):
        raise StoreError(f"{folder}: a run; give its folder of results, or `sojourn open` it", code="not-a-run")
    runs = run_folders(folder)
    inside = {folder / run.relative_to(folder).parts[0] for run in runs}
    others = sorted(path for path in folder.glob("*/") if path not in inside and not path.is_symlink())
    lines = [_run(path) for path in runs]
    differing = {
        run.path: group.title.removeprefix(_name(run.manifest))
        for group in grouped(run for _, run in lines if run)
        for run in group.runs
    }
    every = [replace(one, experiment=one.experiment + differing.get(one.path, "")) for one, _ in lines]
    every += [_series(path, below) for path in others if (below := run_folders(path))]
    if not every:
        raise StoreError(f"{folder}: no run in it; give a results folder", code="not-a-run")
    chosen = [it for it in every if _has(it, words)]
    return sorted(chosen, key=lambda it: it.created or 0)


def _has(one: ListedRun, words: Sequence[str]) -> bool:
    text = f"{one.path.name} {one.experiment} {one.state}".casefold()
    return all(word.casefold() in text for word in words)


def _run(path: Path) -> tuple[ListedRun, LoadedRun | None]:
    """Return a run's line, and the run if it is finished and readable."""
    size = tree_bytes(path)
    try:
        manifest = read_manifest(path)
        if path.name.endswith(PARTIAL):
            state, reason = unfinished_state(path)
            return ListedRun(path, manifest.created, _name(manifest), state, size, reason=reason), None
        run = load_run(path)
    except (StoreError, OSError) as error:
        return ListedRun(path, None, "–", "unreadable", size, reason=str(error)), None
    state = "invalid" if run.reasons else "valid"
    return ListedRun(path, manifest.created, _words(run), state, size, _harm(run), "; ".join(run.reasons)), run


def _name(manifest: Manifest) -> str:
    return f"{manifest.test}: {manifest.cell}"


def _words(run: LoadedRun) -> str:
    """Return what was watched, behind which bottleneck as requested, against whom."""
    if not isinstance(run, VictimRun):
        return _name(run.manifest)
    options = {field: option_words(field, run.options[field])[1] for field in _PATH if run.options.get(field)}
    path = [bottleneck_text(run.scores.lab)]
    if len(options) == len(_PATH):
        path = [options["rate_down_bps"], options["qdisc_down"], f"RTT {options['rtt_us']}"]
    contenders = dict.fromkeys(phase.contender for phase in run.scores.phases if phase.contender)
    against = f"with {' and '.join(contenders)}" if contenders else "alone"
    return ", ".join([run.service or run.manifest.test, *path, against])


def _harm(run: LoadedRun) -> dict[str, float]:
    if not isinstance(run, VictimRun) or run.reasons:
        return {}
    return {outcome.name: outcome.harm for outcome in outcomes(run.scores) if outcome.harm is not None}


def _series(folder: Path, runs: Sequence[Path]) -> ListedRun:
    """Return the line of a folder of runs: of a map, a matrix or a batch."""
    created = max((it for it in map(_created, runs) if it), default=None)
    return ListedRun(folder, created, SERIES, count_of(len(runs), "run"), tree_bytes(folder))


def _created(run: Path) -> float | None:
    with suppress(StoreError, OSError):
        return read_manifest(run).created
    return None


@dataclass(frozen=True)
class RunList:
    """The list for rich: a table, or two lines per run where a terminal is too narrow; paths relative to `folder`."""

    runs: Sequence[ListedRun]
    folder: Path

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = plain_table("folder", "date (UTC)", "state", "harm", "size", "experiment")
        rows = [_cells(one, self.folder) for one in self.runs]
        for row in rows:
            table.add_row(*row)
        if Measurement.get(console, options.update(max_width=UNLIMITED), table).maximum <= options.max_width:
            yield table
            return
        for name, *cells in rows:
            yield name
            yield Padding(Text("  ").join(cell for cell in cells if cell.plain), (0, 0, 0, 2))


def _cells(one: ListedRun, folder: Path) -> list[Text]:
    harm = Text(", ").join(
        Text(f"{printable(who)} {two_decimals(it)}", _STYLES[severity(it)]) for who, it in one.harm.items()
    )
    state = Text(one.state, "" if one.state in ("valid", "running") or one.experiment == SERIES else "red")
    name = Text(printable(str(one.path.relative_to(folder))), overflow="fold")
    return [name, Text(one.date), state, harm, Text(size_words(one.bytes)), Text(printable(one.experiment))]
