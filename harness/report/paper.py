# SPDX-License-Identifier: Apache-2.0
"""The tables and pictures of README and docs that runs decide: where they are, what makes them, their stamps.

A stamp names commit, kernel build and scores version, and has a digest of each part of the code that decides a table.
A table whose stamp differs from the code is out of date. The figures of each run are in a file of RUNS.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sojourn.apps import SERVICES
from sojourn.hardware.machine import cache, toml_file
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import CHECKOUT, FRESH
from sojourn.hardware.machine.messages import first_wrong
from sojourn.hardware.machine.place import LOCAL
from sojourn.hardware.machine.signals import ended_by_signals
from sojourn.harness.options.model import BY_NAME, OPTIONS, omitted_from_records
from sojourn.harness.options.sources import scenario_file
from sojourn.harness.report import call_table, live_table, timeline
from sojourn.harness.report.experiments import Experiment, experiments, find_runs, grouped
from sojourn.harness.report.film import write_film
from sojourn.harness.report.grids import interval
from sojourn.harness.report.heat_map import HarmField, HeatTable, heat_maps
from sojourn.harness.report.markdown import markdown_table, with_marks, write_between
from sojourn.harness.report.media_table import media_table
from sojourn.harness.report.overview import overview
from sojourn.harness.report.picture import write_picture
from sojourn.harness.store.loaded import CellRun, LoadedRun, VictimRun
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.long_table import ALONE, LongRow, frame, label_of
from sojourn.scoring.schema.metric import HARM
from sojourn.scoring.schema.scores import SCORER, SCORES
from sojourn.scoring.statistics.intervals import Estimate, estimate
from sojourn.scoring.statistics.rig_spread import SERIES, rig_spread
from sojourn.traffic import rust
from sojourn.traffic.contender import OURS
from sojourn.traffic.program import rust_package
from sojourn.traffic.user_program import OPTION

FILE = "docs/paper.toml"
"""The list of the tables, in a checkout."""
RUNS = "docs/runs"
"""The folder of a checkout with a file per table: its runs' figures, and digests of their scores."""
Form = Literal[
    "harm", "map", "overview", "published", "picture", "film", "rigs", "shares", "media", "calls", "dips", "live"
]
#: Files of the code, by the part that they belong to; patterns as of Path.glob.
PARTS: Mapping[str, Sequence[str]] = {
    "kernel": ("hardware/kernel/*.c", "hardware/kernel/*.h", "hardware/kernel/*.config", "hardware/kernel/patches/*"),
    "path": ("bottleneck/rig.py", "bottleneck/shaper.py", "bottleneck/impairment.py", "bottleneck/spec.py"),
    "player": (
        *("apps/standins/*.py", "apps/standins/*.json", "apps/standins/youtube/*.*", "apps/standins/iptv/*.*"),
        *("apps/browsed.py", "apps/page_service.py", "captures/player.js", "captures/frames.js"),
    ),
    "players": ("apps/players/*.py", "apps/standins/players/*", "apps/standins/broadcast/*.py"),
    "call": (
        *("apps/standins/call/*.*", "apps/standins/scenes.py", "apps/two_party.py", "apps/call.py"),
        *("captures/call.js", "captures/frames.js", "captures/sound.js"),
    ),
    "room": ("apps/room.py", "apps/standins/room/*.*", "apps/standins/room/sfu/*"),
    "senders": ("traffic/iperf3.py",),
    "timeline": ("harness/options/timeline.py", "harness/experiment/recording.py"),
    "statistics": tuple(f"scoring/statistics/{name}.py" for name in ("harm", "intervals", "relevance", "summary")),
    "cells": (
        *("harness/matrix/dumbbell.py", "harness/matrix/cells/guest/*.py", "bottleneck/cell.py"),
        *("traffic/endpoints/*", "traffic/call_traffic.py", "traffic/recorded_call.py"),
        *("traffic/skype_call.csv", "scoring/transport/*.py"),
    ),
    "media": ("traffic/rust/*.*", "traffic/rust/noq/*", "scoring/media_phases.py"),
    "rigs": ("scoring/statistics/intervals.py", "scoring/statistics/rig_spread.py"),
    "intervals": ("scoring/statistics/intervals.py",),
    "published": ("scoring/reference/*",),
    "drawing": tuple(f"harness/report/{name}.py" for name in ("timeline", "svg", "picture", "palette")),
    "film": ("harness/report/film.py",),
}
_RUN = "kernel", "path", "player", "senders", "timeline"
#: The parts that decide a table.
DECIDING: Mapping[Form, Sequence[str]] = {
    "harm": (*_RUN, "statistics"),
    "map": (*_RUN, "statistics"),
    "published": ("kernel", "path", "cells", "published"),
    "overview": (*_RUN, "statistics"),
    "calls": (*_RUN, "statistics"),
    "dips": _RUN,
    "live": (*_RUN, "statistics"),
    "picture": (*_RUN, "drawing"),
    "film": (*_RUN, "drawing", "film"),
    "media": ("kernel", "path", "call", "senders", "cells", "media"),
    "rigs": ("kernel", "path", "cells", "rigs"),
    "shares": ("kernel", "path", "cells", "intervals"),
}
#: Tables whose commands run matrices, each in a folder of its own.
_OF_MATRICES = frozenset({"published", "rigs", "shares", "media"})
#: Tables whose commands keep finished runs: matrices, maps, and `harm` with lists, which is a map.
_RESUMING = frozenset({*_OF_MATRICES, "map", "overview", "calls", "dips", "live"})
#: What only a table needs: a change repeats no run.
_OF_TABLES = frozenset({"statistics", "rigs", "intervals", "published", "drawing", "film"})
#: What a cell's flow has in the file of RUNS.
_RATE = "d_ss_mbps"
_RATE_OF_FORM: Mapping[Form, str] = {"media": "goodput_mbps"}  # where flows take turns, none has a window
#: What a victim's run has there in addition to its primary metric: the figures that its table shows.
_FIGURES_OF_FORM: Mapping[Form, Sequence[str]] = {"calls": call_table.FIGURES, "live": live_table.FIGURES}
_OF_DIPS = r"parties\.\d+\.steps\.\d+\.(first_drop_s|lowest_height|recovery_s)"
#: Marks a folder whose command has made all its runs.
_DONE = "done"
_STAMP = re.compile(r"<!-- stamp of (?P<name>[\w-]+): (?P<parts>[^>]*) -->")
#: The services of a command or of a scenario; a list is in brackets there.
_SERVICE = re.compile(r"\bservice *= *([\w,-]+|\"[^\"]*\"|\[[^]]*\])")
_DIGITS = 12
#: A run's names of versions without "kernel", and a cell's.
_KERNEL = {"source": "source", "build": "kernel"}


class PaperError(CodedError):
    """The list of tables, or a page of it, is wrong; one line that says what."""


class PaperTable(BaseModel):
    """A table: its page, the commands that make its runs, in shell words without `sojourn`, and its form.

    The published tables and a `picture` (a file) are outside the marks, which then hold the stamp alone. A film is a
    GIF of the runs of both commands, from `part[0]` to `part[1]` s of the run.
    Whether a `slow` one is out of date is checked before a release, not by every run of the tests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(pattern=r"^[a-z0-9-]+$")
    page: str
    commands: tuple[str, ...] = Field(min_length=1)
    table: Form
    picture: str | None = None
    part: tuple[float, float] | None = None
    slow: bool = False

    @model_validator(mode="after")
    def _has_what_its_form_needs(self) -> Self:
        needed = {"picture": self.table in ("picture", "film"), "part": self.table == "film"}
        for name, needs in needed.items():
            if needs != (getattr(self, name) is not None):
                raise ValueError(f"{name}: {'missing' if needs else 'of no use'} for a table of the form {self.table}")
        return self

    @property
    def words(self) -> list[str]:
        """The shell words of its commands."""
        return [word for command in self.commands for word in shlex.split(command)]

    @property
    def repeats(self) -> int:
        """The number of runs of every experiment."""
        return next((int(word.partition("=")[2]) for word in self.words if word.startswith("--repeat=")), 1)

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The parts of the code that decide it."""
        room = "--service=room" in self.words
        call = room or "--service=call" in self.words
        players = ("players",) * any(word.startswith(("player=", "--player=")) for word in self.words)
        parts = ("call" if part == "player" and call else part for part in DECIDING[self.table])
        return (*parts, *players, *["room"] * room)

    @property
    def matrices(self) -> tuple[str, ...]:
        """The names of the matrices that its commands run."""
        words = (shlex.split(command) for command in self.commands)
        return tuple(dict.fromkeys(name for command, name, *_ in words if command == "matrix"))

    @property
    def runs_file(self) -> Path:
        """The file with its runs' figures, within a checkout."""
        return Path(RUNS, f"{self.name}.csv")

    @property
    def marks(self) -> tuple[str, str]:
        """The lines of the page between which it is."""
        return f"<!-- {self.name}: made by `sojourn paper` -->", f"<!-- end of {self.name} -->"


class _Paper(BaseModel):
    model_config = ConfigDict(extra="forbid")
    result: list[PaperTable]


@dataclass(frozen=True)
class Stamp:
    """What a table was made with, and digests of the code that decides it, by part."""

    commit: str
    kernel: str
    parts: Mapping[str, str]

    @classmethod
    def of_runs(cls, runs: Sequence[LoadedRun], parts: Mapping[str, str]) -> Stamp:
        """Return the stamp of a table of these runs, made by code with these digests.

        Raises PaperError if they are of several commits or kernels, or of code that was not committed.
        """
        if any(run.manifest.git is None or run.manifest.git.dirty for run in runs):
            raise PaperError("the runs of a table are of code that was not committed; commit it, then repeat them")
        made = {(run.manifest.git.commit[:8], _kernel(run)) for run in runs if run.manifest.git}
        if len(made) != 1:
            raise PaperError(f"the runs of a table are of {len(made)} versions: {made}; remove the older ones")
        ((commit, kernel),) = made
        return cls(commit, kernel, parts)

    def markdown(self, table: PaperTable, runs: int) -> str:
        """Return the lines under a table."""
        parts = " ".join(f"{part}={digest}" for part, digest in self.parts.items())
        file = os.path.relpath(table.runs_file, Path(table.page).parent)
        made = f"[{runs} run{'s' * (runs != 1)}]({file}); commit {self.commit}, {self.kernel}, scores {SCORER}"
        return (
            f"*{made}; `sojourn paper {table.name}` repeats it at its commit.*\n<!-- stamp of {table.name}: {parts} -->"
        )


def paper_tables(checkout: Path = CHECKOUT) -> list[PaperTable]:
    """Return the tables of README and docs. Raises PaperError."""
    try:
        return _Paper.model_validate(toml_file.read_toml(checkout / FILE)).result
    except OSError as missing:
        raise PaperError(
            f"{checkout / FILE}: {missing.strerror}; it is in a checkout", code="unreadable-file"
        ) from missing
    except (toml_file.TomlError, ValidationError) as wrong:
        why = first_wrong(wrong) if isinstance(wrong, ValidationError) else wrong
        raise PaperError(f"{checkout / FILE}: {why}", code="damaged") from wrong


def digests(table: PaperTable, checkout: Path = CHECKOUT) -> dict[str, str]:
    """Return a digest of each part of the code that decides a table.

    Its command, with the scenarios, kernel files and built-in programs that it names, and the defaults of options and
    of its services are parts too. A default that no record of a run has, because earlier versions had no such option,
    does not count. The code that carries the parts out (`harness/`, the router's set-up) does not count either: the
    tests hold it to the same bytes.
    """
    defaults = {it.name: it.default for it in OPTIONS if it.subject == "what" and not omitted_from_records(it)}
    command = [("command", "\n".join(table.commands).encode()), *_named_files(table, checkout)]
    known = {
        "scores": SCORER,
        "command": _digest(command),
        "defaults": _digest([("defaults", json.dumps(defaults, sort_keys=True).encode())]),
    }
    if table.table not in _OF_MATRICES:
        services = {name: dict(SERVICES[name].defaults) for name in _services(command)}
        known["services"] = _digest([("services", json.dumps(services, sort_keys=True).encode())])
    for part in table.decided_by:
        of_matrices = _experiments(table, checkout) if part == "cells" else set()
        # What the names of the contenders stand for, not the code that finds them.
        senders = [("senders", repr(sorted(OURS.items())).encode())] * (part in ("senders", "cells"))
        files = sorted(of_matrices.union(file for it in PARTS[part] for file in checkout.glob(it) if file.is_file()))
        texts = ((str(file.relative_to(checkout)), file.read_bytes()) for file in files)
        known[part] = _digest([*senders, *texts])
    return known


def _services(command: Iterable[tuple[str, bytes]]) -> list[str]:
    """Return the services that commands and the files that they name set by `--service=` or `service =`."""
    text = b"\n".join(text for _, text in command).decode(errors="replace")
    named = {name for names in _SERVICE.findall(text) for name in re.findall(r"[\w-]+", names)}
    return sorted(named & SERVICES.keys()) or [str(BY_NAME["service"].default)]


def _named_files(table: PaperTable, checkout: Path) -> list[tuple[str, bytes]]:
    """Return the contents of what a table's commands name by name only."""
    values = [word.partition("=")[::2] for word in table.words]
    scenarios = [(value, scenario_file(value, checkout)) for option, value in values if option == "--scenario"]
    folders = [value for option, value in values if option == "--kernel-source"]
    files = {file for folder in folders for file in (checkout / folder).rglob("*")}
    for package in _rust_packages(table):
        files.update(rust.sources(package, checkout / "traffic/rust"))
    ordered = sorted(filter(_decides, files))
    named = [*scenarios, *((str(file.relative_to(checkout)), file) for file in ordered)]
    return [(name, file.read_bytes()) for name, file in named]


def _rust_packages(table: PaperTable) -> set[str]:
    """Return the packages of `sojourn.traffic.rust` whose programs a table's commands run."""
    named = (name for word in table.words for name in re.findall(rf"{OPTION}([\w-]+)", word))
    packages = {package for name in named if (package := rust_package(name)) is not None}
    return packages | {"origin"} if any(word.startswith("--origin-protocol") for word in table.words) else packages


def _decides(file: Path) -> bool:
    return file.is_file() and file.suffix not in (".md", ".pyc")


def _experiments(table: PaperTable, checkout: Path) -> set[Path]:
    """Return the files that define the matrices of a table. Raises PaperError for one that none defines."""
    texts = {file: file.read_text() for file in checkout.glob("tests/test_*.py")}
    found = set()
    for name in table.matrices:
        defines = re.compile(rf'^MATRIX = Matrix\(\s*name="{re.escape(name)}"', re.MULTILINE)
        of_name = {file for file, text in texts.items() if defines.search(text)}
        if not of_name:
            raise PaperError(f"{table.name}: no file tests/test_*.py defines the matrix {name}", code="unknown-value")
        found |= of_name
    return found


def _digest(parts: Iterable[tuple[str, bytes]]) -> str:
    return cache.digest(parts)[:_DIGITS]


def out_of_date(tables: Iterable[PaperTable], checkout: Path = CHECKOUT) -> dict[str, list[str]]:
    """Return the tables that the code no longer makes, by name, each with the parts that have changed since."""
    old = {}
    for table in tables:
        now = digests(table, checkout)
        page = checkout / table.page
        stamps = {match["name"]: match["parts"] for match in _STAMP.finditer(page.read_text() if page.exists() else "")}
        if table.name not in stamps:
            old[table.name] = ["never made"]
            continue
        then = dict(word.split("=", 1) for word in stamps[table.name].split())
        if changed := [part for part in now | then if now.get(part) != then.get(part)]:
            old[table.name] = changed
    return old


def harm_table(one: Experiment) -> str:
    """Return the harm by each contender, the bar, and what the viewer saw, as a Markdown table with intervals.

    Raises PaperError without a harm.
    """
    summary = one.summary
    harm = summary.primary_harm
    if harm is None:
        raise PaperError(f"{one.title}: no valid run has a harm in the primary metric", code="invalid-run")

    def row(head: str, alone: str, figures: Mapping[str, Estimate]) -> list[str]:
        return [head, alone, *(interval(figures.get(name)) for name in summary.contenders)]

    rows = [row("harm", "–", harm.contended)]
    if harm.beyond:
        rows.append(row("harm minus the bar", "–", harm.beyond))
    for metric in ("played_height", "victim_mbps", "recovery_s"):
        if figure := summary.figure(metric):
            rows.append(row(label_of(metric), interval(figure.alone), figure.contended))
    heads = ["", "alone", *(f"with {name}{', the bar' * (name == summary.own_kind)}" for name in summary.contenders)]
    contrasts = [f"{name} − {summary.reference}: {interval(it)}" for name, it in harm.contrast.items()]
    return markdown_table(heads, rows) + (f"\n\nDifference in harm: {'; '.join(contrasts)}." if contrasts else "")


def map_table(groups: Sequence[Experiment]) -> str:
    """Return the harm in the primary metric of a map as Markdown tables. Raises PaperError without one."""
    primary = next((one for one in heat_maps(HarmField(groups)) if one.primary), None)
    if primary is None:
        raise PaperError("no valid run of the map has a harm in the primary metric", code="invalid-run")
    parts = []
    for table in primary.tables:
        spread = [text for text, width in table.groups for _ in range(width)] or [""] * len(table.heads)
        heads = [f"{group}<br>{head}" if group else head for group, head in zip(spread, table.heads, strict=True)]
        rows = [[head, *(cell.text or "–" for cell in cells)] for head, cells in table.rows]
        if len(rows) == 1 and table.groups:
            parts.append(_by_queue(table, rows[0][1:]))
            continue
        caption = f"**{table.caption}**\n\n" if table.caption else ""
        parts.append(caption + markdown_table([table.corner, *heads], rows))
    return "\n\n".join(parts)


def _by_queue(table: HeatTable, texts: Sequence[str]) -> str:
    """Return the only row of a heat map as a table with a row for every queue."""
    contenders = list(dict.fromkeys(table.heads))
    cells, rows = iter(zip(table.heads, texts, strict=True)), []
    for group, width in table.groups:
        of_queue = dict(islice(cells, width))
        rows.append([group, *(of_queue.get(name, "–") for name in contenders)])
    return markdown_table([f"queue ({table.rows[0][0]})", *contenders], rows)


def shares_table(runs: Sequence[LoadedRun]) -> str:
    """Return the rates of two flows, and what the first has of the second, as a Markdown table: rate by queue.

    Rates are means over the rigs, Mbit/s; the ratio is the geometric mean with its 95 % interval.
    """
    found: dict[tuple[int, str], list[list[float]]] = {}
    for run in runs:
        if isinstance(run, CellRun):
            down = run.options["cell"]["hops"][0]["down"]
            rates = [flow["d_ss_mbps"] for flow in run.scores["flows"]]
            found.setdefault((int(down["rate_bps"]), down["qdisc"]), []).append(rates)
    queues = sorted({queue for _rate, queue in found})
    rows = []
    for rate in sorted({rate for rate, _queue in found}):
        shares = (_share(found.get((rate, queue), [])) for queue in queues)
        rows.append([f"{rate / 1e6:g} Mbit/s", *shares])
    return markdown_table(["rate", *(f"`{queue}`" for queue in queues)], rows)


def _share(pairs: Sequence[Sequence[float]]) -> str:
    if not pairs:
        return "–"
    means = " : ".join(f"{fmean(flow):.2f}" for flow in zip(*pairs, strict=True))
    if not all(min(flow) > 0 for flow in pairs):  # one of the flows got nothing
        return means
    ratio = estimate([log(first / second) for first, second in pairs])
    bounds = "" if ratio.low is None or ratio.high is None else f" ({exp(ratio.low):.2f} to {exp(ratio.high):.2f})"
    return f"{means}<br>× {exp(ratio.value):.2f}{bounds}"


def overview_table(groups: Sequence[Experiment]) -> str:
    """Return what each contender does to the victim in each queue as a Markdown table, the worst first."""
    heads = ["queue", "contender", "severity", "harm (95 % interval)", "picture"]
    heads += ["P99 of the round-trip times, ms", "stalls per run"]
    rows = []
    for row in overview(HarmField(groups), CHECKOUT):
        cells = (" ".join([it.text, *(f"({note})" for note in it.notes)]) for it in (row.harm, row.delay, row.stalls))
        harm, delay, stalls = cells
        rows.append([f"`{row.queue}`", row.contender, row.badge.word, harm, row.seen, delay, stalls])
    return markdown_table(heads, rows)


def rigs_table(runs: Sequence[LoadedRun]) -> str:
    """Return how much rigs differ in log(rate of the first flow / second) and what intervals cover, by rate.

    `runs` are of the matrix `rigs`, exact and not. Raises PaperError without both at a rate.
    """
    exact, drawn = _log_ratios(runs, drawn=False), _log_ratios(runs, drawn=True)
    lengths = [f"{length} rigs" for length in SERIES]
    heads = ["rate", "SD between RTTs", "SD within an RTT (exact seeds)", "SD over rigs", "exact seeds", *lengths]
    heads.append(f"{SERIES[0]} rigs, of the exact paths' mean")
    rows = []
    for rate in sorted(exact.keys() | drawn.keys()):
        rigs = [value for _rtt, _seed, value in sorted(drawn.get(rate, []))]
        by_rtt: dict[int, list[float]] = {}
        for rtt, _seed, value in sorted(exact.get(rate, [])):
            by_rtt.setdefault(rtt, []).append(value)
        try:
            found = rig_spread(list(by_rtt.values()), rigs)
        except ValueError as few:
            raise PaperError(f"{rate / 1e6:g} Mbit/s: {few}", code="missing") from few
        spreads = [f"{value:.3f}" for value in (found.between_paths, found.within_path, found.over_rigs)]
        covers = [found.paths_cover, *found.rigs_cover.values(), found.rigs_cover_paths]
        rows.append([f"{rate / 1e6:g} Mbit/s", *spreads, *(f"{share:.2f}" for share in covers)])
    return markdown_table(heads, rows)


def _log_ratios(runs: Sequence[LoadedRun], *, drawn: bool) -> dict[int, list[tuple[int, int, float]]]:
    """Return, by rate in bit/s, (RTT in µs, seed, log(D_SS of flow 0 / flow 1)) of the cells' runs of one kind.

    Raises PaperError for a flow without a rate.
    """
    found: dict[int, list[tuple[int, int, float]]] = {}
    for run in runs:
        if isinstance(run, CellRun) and bool(run.manifest.drawn) == drawn and run.seed is not None:
            cell = run.options["cell"]
            rates = [flow["d_ss_mbps"] for flow in run.scores["flows"]]
            rate = int(cell["hops"][0]["down"]["rate_bps"])
            if min(rates) <= 0:
                raise PaperError(f"{run.path}: a flow got nothing, so no ratio", code="invalid-run")
            found.setdefault(rate, []).append((int(cell["flows"][0]["rtt_us"]), run.seed, log(rates[0] / rates[1])))
    return found


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
    made = [(table, parts, folder, _runs(table, folder)) for table in tables for parts, folder in [_at(table, results)]]
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


def _at(table: PaperTable, results: Path) -> tuple[dict[str, str], Path]:
    """Return the digests of what decides a table, and the folder of its runs."""
    parts = digests(table)
    deciding = ((name, digest.encode()) for name, digest in parts.items() if name not in _OF_TABLES)
    return parts, results / f"{table.name}-{cache.digest(deciding)[:8]}"


def _runs(table: PaperTable, folder: Path) -> list[LoadedRun]:
    of_matrices = table.table in _OF_MATRICES
    if not (folder / _DONE).exists():
        if table.table not in _RESUMING and RunStore(folder).runs():
            raise PaperError(f"{table.name}: {folder} has runs of an interrupted series; remove it", code="conflict")
        for command in table.commands:
            words = [
                sys.executable,
                "-m",
                "sojourn.harness.cli",
                *shlex.split(command),
                f"--results={folder.absolute()}",
            ]
            # A matrix that misses its expectations has its figures all the same.
            if (ended := _ended(words)) not in (0, of_matrices):
                raise PaperError(f"{table.name}: `sojourn {command}` ended with {ended}; no page was changed")
        (folder / _DONE).touch()
    places = [path for path in sorted(folder.iterdir()) if path.is_dir()] if of_matrices else [folder]
    return find_runs(places)


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
    groups = [] if table.table in _OF_MATRICES else experiments(runs)
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
        "media": lambda: media_table(runs),
        "calls": lambda: call_table.call_table(groups),
        "dips": lambda: call_table.dip_table(groups),
        "live": lambda: live_table.live_table(groups),
        "rigs": lambda: rigs_table(runs),
        "shares": lambda: shares_table(runs),
    }
    text = f"{forms[table.table]()}\n\n" if table.table in forms else ""
    return f"{text}{Stamp.of_runs(runs, parts).markdown(table, len(runs))}\n"


def figures_of_runs(table: PaperTable, runs: Sequence[LoadedRun]) -> str:
    """Return the figures of a table's runs as CSV, in the columns of the long table, with a digest of a run's scores.

    A victim's run has its primary metric, the harm in it and most of what its table shows, a cell's has the rate of
    each flow. `scores` has the first 16 digits of the SHA-256 of `scores.json`: a repetition in simulated time has
    the same.
    """
    of_flows = rf"flows\.\d+\.{_RATE_OF_FORM.get(table.table, _RATE)}"
    wanted = re.compile(_OF_DIPS if table.table == "dips" else of_flows)
    shown = _FIGURES_OF_FORM.get(table.table, ())

    def figures(run: LoadedRun) -> Iterator[LongRow]:
        primary = run.scores.primary if isinstance(run, VictimRun) else None
        for row in run.figures:
            judges = row.metric in (primary, f"{HARM}{primary}", *shown) and (row.contender or row.phase == ALONE)
            if judges or wanted.fullmatch(row.metric):
                yield row

    every = ((group.title, run) for group in grouped(runs) for run in group.runs)
    rows = frame((title, run.manifest.files[SCORES].sha256[:16], run.seed, figures(run)) for title, run in every)
    ordered = rows.rename({"run": "scores"}).sort("experiment", "seed", maintain_order=True)
    return ordered.write_csv()


def _kernel(run: LoadedRun) -> str:
    versions = run.manifest.versions
    source, build = (versions.get(f"kernel {name}", versions.get(cell, "unknown")) for name, cell in _KERNEL.items())
    *_, package = source.split(" sha256:")[0].split()
    guest = versions.get("guest")
    return f"kernel {package.split('-')[0]} build {build[:8]}" + (f", guest {guest[:8]}" if guest else "")
