# SPDX-License-Identifier: Apache-2.0
"""Makes the runs of the tables and pictures of README and docs, and writes both into their pages.

The figures of each run are in a file of `sojourn.harness.report.stamps.RUNS`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sojourn.hardware.machine import cache
from sojourn.hardware.machine.files import CHECKOUT, FRESH
from sojourn.hardware.machine.place import LOCAL
from sojourn.hardware.machine.signals import ended_by_signals
from sojourn.harness.options.model import BY_NAME
from sojourn.harness.report import call_table, live_table, media_table, quality_table, timeline
from sojourn.harness.report.experiments import experiments, find_runs, grouped
from sojourn.harness.report.film import write_film
from sojourn.harness.report.harm_tables import harm_table, map_table, overview_table
from sojourn.harness.report.markdown import with_marks, write_between
from sojourn.harness.report.picture import write_picture
from sojourn.harness.report.rate_tables import rigs_table, shares_table
from sojourn.harness.report.stamps import OF_MATRICES, Form, PaperError, PaperTable, Stamp, digests
from sojourn.harness.store.loaded import LoadedRun, VictimRun
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.long_table import ALONE, STEP_FIGURES, LongRow, frame
from sojourn.scoring.picture.judged import QUALITY
from sojourn.scoring.reference import published as reference
from sojourn.scoring.schema.metric import HARM
from sojourn.scoring.schema.scores import SCORER, SCORES

#: Tables whose commands keep finished runs: matrices, maps, and `harm` with lists, which is a map.
_RESUMING = frozenset({*OF_MATRICES, "map", "overview", "calls", "quality", "dips", "live"})
OF_TABLES = frozenset({"statistics", "rigs", "intervals", "published", "drawing", "film"})
"""Parts that only a table needs: a change repeats no run."""
#: What a cell has in the file of RUNS, by the table's form.
_OF_CELL = r"flows\.\d+\.d_ss_mbps"
_OF_CELL_BY_FORM: Mapping[Form, str] = {
    "media": rf"media\.\d+\.({'|'.join(media_table.FIGURES)})",
    "cells": r"utilisation|flows\.\d+\.(d_ss_mbps|normalised|retrans_share)|probes\.\d+\.(p50_ms|p99_ms|loss)"
    r"|packets\.flows\.\d+\.(loss|p(50|95|99)_owd_ms)|protection\.(sanctioned|window_sanctioned_share)"
    r"|call\.\d+\.(window_mbps|available_(min|max)_mbps|ce_share|packet_bytes)",
}
#: What a victim's run has there in addition to its primary metric: the figures that its table shows.
_FIGURES_OF_FORM: Mapping[Form, Sequence[str]] = {
    "calls": call_table.FIGURES,
    "live": live_table.FIGURES,
    "quality": quality_table.FIGURES,
}
_OF_DIPS = rf"parties\.\d+\.steps\.\d+\.({'|'.join(STEP_FIGURES)})"
_SOJOURN = sys.executable, "-m", "sojourn.harness.cli"
#: Marks a folder whose command has made all its runs.
_DONE = "done"


def renew(
    tables: Sequence[PaperTable], results: Path, published: Callable[[Path, Path], Iterable[Path]]
) -> Iterator[Path]:
    """Make the runs of tables in folders of `results`, then write every table into its page, and yield these.

    The pages come last, because a changed page is code that was not committed. Finished runs of the same commands and
    code are kept. `published` writes the published tables from a folder of runs into a page and returns what it wrote.
    Raises PaperError, also if a run failed or too few are valid; MarksError, ReportError.
    """
    for table in tables:  # before hours of runs
        with_marks(CHECKOUT / table.page, [table.marks])
    places = [(table, *place_of_runs(table, results)) for table in tables]
    made = [(table, parts, folder, runs_of(table, folder)) for table, parts, folder in places]
    for table, parts, folder, runs in made:
        text, page = stamped(table, runs, parts), CHECKOUT / table.page
        if table.table == "published":
            yield from published(folder, page)
        if table.picture:
            yield _draw(table, runs, CHECKOUT / table.picture)
        (file := CHECKOUT / table.runs_file).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(figures_of_runs(table, runs))
        yield file
        write_between({table.marks: text}, page)
        yield page


def place_of_runs(table: PaperTable, results: Path) -> tuple[dict[str, str], Path]:
    """Return the digests of what decides a table, and the folder of its runs, which another scorer keeps."""
    parts = digests(table)
    deciding = ((name, digest.encode()) for name, digest in parts.items() if name not in {*OF_TABLES, "scores"})
    return parts, results / f"{table.name}-{cache.digest(deciding)[:8]}"


def runs_of(table: PaperTable, folder: Path, sample: int | None = None) -> list[LoadedRun]:
    """Make the runs of a table that are not in its folder, score those of another scorer again, and return all.

    A `sample` is of that many runs per command. Raises PaperError if a command failed, or cannot be continued.
    """
    of_matrices = table.table in OF_MATRICES
    if not (folder / _DONE).exists():
        if sample is None and table.table not in _RESUMING and RunStore(folder).runs():
            raise PaperError(f"{table.name}: {folder} has runs of an interrupted series; remove it", code="conflict")
        for command in table.commands:
            made = shlex.split(command) if sample is None else [*as_map(command), f"--sample={sample}"]
            if ended := _ended([*_SOJOURN, *made, f"--results={folder.absolute()}"]):
                raise PaperError(f"{table.name}: `sojourn {command}` ended with {ended}; no page was changed")
        if sample is None:
            (folder / _DONE).touch()
    places = [path for path in sorted(folder.iterdir()) if path.is_dir()] if of_matrices else [folder]
    runs = find_runs(places)
    older = [run.path for run in runs if isinstance(run, VictimRun) and run.scores.scorer != SCORER]
    _each(table, older, "rescore", "score")
    unjudged = [run.path for run in runs if table.table == "quality" and not (run.path / QUALITY).exists()]
    _each(table, unjudged, "quality", "judge the pictures of")
    return find_runs(places) if older or unjudged else runs


def _each(table: PaperTable, runs: Sequence[Path], command: str, doing: str) -> None:
    """Run a command that stores its result, with `--write`, in each of the runs. Raises PaperError if one fails."""
    for number, path in enumerate(runs, 1):
        print(f"{table.name}: {doing} run {number} of {len(runs)}", flush=True)
        if ended := _ended([*_SOJOURN, command, "--write", str(path.absolute())]):
            raise PaperError(
                f"{table.name}: `sojourn {command} --write {path}` ended with {ended}; no page was changed"
            )


def as_map(command: str) -> list[str]:
    """Return the words of a command that makes the same runs and can make a sample of them; a matrix can."""
    name, *words = shlex.split(command)
    if name != "harm":
        return [name, *words]
    if not any(word.startswith("--recorder=") for word in words):
        words.append(f"--recorder={BY_NAME['recorder'].default}")
    if not any(word.startswith("--scenario=") for word in words):  # a map has an option with a list of values
        given = [word for word in words if word.startswith("--service=")] or [f"--service={BY_NAME['service'].default}"]
        words = [given[-1].removeprefix("--"), *(word for word in words if word not in given)]
    return ["map", *words]


def _ended(words: Sequence[str]) -> int:
    """Run a command in the checkout and return its exit code; it ends with this process, whatever signal ends that."""
    with ended_by_signals(), subprocess.Popen([*LOCAL.prefix, *words], cwd=CHECKOUT) as made:
        try:
            return made.wait()
        except BaseException:
            made.terminate()
            made.wait()
            raise


def _draw(table: PaperTable, runs: Sequence[LoadedRun], picture: Path) -> Path:
    shown = sorted(((run.path, run.scores) for run in runs if isinstance(run, VictimRun)), key=lambda run: run[0].name)
    if table.part is None:
        ((path, scores),) = shown
        write_picture(timeline.figure(scores, path), picture)
    else:
        fresh = picture.with_name(f"{picture.stem}{FRESH}{picture.suffix}")
        fresh.unlink(missing_ok=True)
        write_film(shown, fresh, lambda *_: None, *table.part, gif=True)
        fresh.replace(picture)
    return picture


def stamped(table: PaperTable, runs: Sequence[LoadedRun], parts: Mapping[str, str]) -> str:
    """Return a table of these runs with its stamp. Raises PaperError if too few of them are valid."""
    groups = [] if table.table in OF_MATRICES else experiments(runs)
    if short := next((one.title for one in groups if len(one.summary.valid) < table.repeats), None):
        raise PaperError(f"{table.name}: fewer than {table.repeats} valid runs of {short}; remove and repeat them")
    if table.table in ("harm", "picture") and len(groups) != 1:
        raise PaperError(f"{table.name}: runs of {len(groups)} experiments instead of one", code="conflict")
    if table.table == "film" and len(groups) != len(table.commands):
        raise PaperError(f"{table.name}: runs of {len(groups)} of {len(table.commands)} commands", code="missing")
    forms = {
        "harm": lambda: harm_table(groups[0]),
        "map": lambda: map_table(groups),
        "overview": lambda: overview_table(groups),
        "media": lambda: media_table.media_table(runs),
        "calls": lambda: call_table.call_table(groups),
        "quality": lambda: quality_table.quality_table(groups),
        "dips": lambda: call_table.dip_table(groups),
        "live": lambda: live_table.live_table(groups),
        "rigs": lambda: rigs_table(runs),
        "shares": lambda: shares_table(runs),
    }
    text = f"{forms[table.table]()}\n\n" if table.table in forms else ""
    return f"{text}{Stamp.of_runs(runs, parts).markdown(table, len(runs))}\n"


def figures_of_runs(table: PaperTable, runs: Sequence[LoadedRun]) -> str:
    """Return the figures of a table's runs as CSV, in the columns of the long table, with a digest of a run's scores.

    A victim's run has its primary metric, the harm in it and most of what its table shows; a cell's has the rate of
    each flow, and what the published tables show of its matrix, what media gets, or, in the form `cells`, shares,
    losses and delays too. `scores` has the first 16 digits of
    the SHA-256 of `scores.json`: a repetition in simulated time has the same.
    """
    wanted = re.compile(_OF_DIPS if table.table == "dips" else _OF_CELL_BY_FORM.get(table.table, _OF_CELL))
    published = _published_metrics() if table.table == "published" else {}
    shown = _FIGURES_OF_FORM.get(table.table, ())

    def figures(run: LoadedRun) -> Iterator[LongRow]:
        primary = run.scores.primary if isinstance(run, VictimRun) else None
        for row in run.figures:
            judges = row.metric in (primary, f"{HARM}{primary}", *shown) and (row.contender or row.phase == ALONE)
            if judges or wanted.fullmatch(row.metric) or row.metric in published.get(run.manifest.test, ()):
                yield row

    every = ((group.title, run) for group in grouped(runs) for run in group.runs)
    rows = frame((title, run.manifest.files[SCORES].sha256[:16], run.seed, figures(run)) for title, run in every)
    ordered = rows.rename({"run": "scores"}).sort("experiment", "seed", maintain_order=True)
    return ordered.write_csv()


def _published_metrics() -> dict[str, set[str]]:
    """Return the metrics that published tables show, by matrix; of a single run, some have no value."""
    shown: dict[str, set[str]] = {}
    for row in reference.rows("tables.csv"):
        shown.setdefault(row["matrix"], set()).update(row["metrics"].split())
    return shown
