# SPDX-License-Identifier: Apache-2.0
"""The list of the tables and pictures of README and docs that runs decide, and their stamps.

A stamp names commit, kernel build and scores version, and has a digest of each part of the code that decides a table.
A table whose stamp differs from the code is out of date.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sojourn.apps import SERVICES
from sojourn.hardware.machine import cache, toml_file
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.messages import count_of, first_wrong
from sojourn.hardware.machine.programs import FLAGS
from sojourn.hardware.simulation import HOSTS_PROCESSOR
from sojourn.harness.lab.machine import SHOWN_PROCESSOR
from sojourn.harness.options.model import BY_NAME, OPTIONS, omitted_from_records
from sojourn.harness.options.sources import scenario_file
from sojourn.harness.store.loaded import LoadedRun
from sojourn.scoring.schema.scores import SCORER, last_change
from sojourn.traffic import rust
from sojourn.traffic.contender import OURS
from sojourn.traffic.program import rust_package
from sojourn.traffic.user_program import OPTION

FILE = "docs/paper.toml"
"""The list of the tables, in a checkout."""
RUNS = "docs/runs"
"""The folder of a checkout with a file per table: its runs' figures, and digests of their scores."""
Form = Literal[
    "harm", "map", "overview", "calls", "quality", "dips", "live", "picture", "film",
    "published", "rigs", "shares", "cells", "media",
]  # fmt: skip
#: Files of the code, by the part that they belong to; patterns as of Path.glob.
PARTS: Mapping[str, Sequence[str]] = {
    "kernel": ("hardware/kernel/*.c", "hardware/kernel/*.h", "hardware/kernel/*.config", "hardware/kernel/patches/*"),
    "path": ("bottleneck/rig.py", "bottleneck/shaper.py", "bottleneck/impairment.py", "bottleneck/spec.py"),
    "player": (
        *("apps/standins/*.py", "apps/standins/*.json", "apps/standins/youtube/*.*", "apps/standins/iptv/*.*"),
        *("apps/browsed.py", "apps/page_service.py", "captures/player.js", "captures/frames.js"),
    ),
    "players": (
        *("apps/players/*.py", "apps/standins/players/*", "apps/standins/broadcast/*.py"),
        "apps/standins/http1/*.py",
    ),
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
    "quality": (*_RUN, "statistics"),
    "dips": _RUN,
    "live": (*_RUN, "statistics"),
    "picture": (*_RUN, "drawing"),
    "film": (*_RUN, "drawing", "film"),
    "media": ("kernel", "path", "call", "senders", "cells", "media"),
    "rigs": ("kernel", "path", "cells", "rigs"),
    "shares": ("kernel", "path", "cells", "intervals"),
    "cells": ("kernel", "path", "cells", "media"),
}
#: Tables whose commands run matrices, each in a folder of its own.
OF_MATRICES = frozenset({"published", "rigs", "shares", "cells", "media"})
_STAMP = re.compile(r"<!-- stamp of (?P<name>[\w-]+): (?P<parts>[^>]*) -->")
#: What a stamp is in a page: of the table's runs, of a sample that was repeated later, and the digests.
_LINES = r"\*(?P<made>.* repeats it at its commit\.)(?P<repeated> .*)?\*\n<!-- stamp of {name}: [^>]* -->"
#: The services of a command or of a scenario; a list is in brackets there.
_SERVICE = re.compile(r"\bservice *= *([\w,-]+|\"[^\"]*\"|\[[^]]*\])")
_DIGITS = 12
#: A run's names of versions without "kernel", and a cell's.
_KERNEL = {"source": "source", "build": "kernel"}


class PaperError(CodedError):
    """The list of tables, or a page of it, is wrong; one line that says what."""


class PaperTable(BaseModel):
    """A table: its page, the commands that make its runs, in shell words without `sojourn`, and its form.

    The published tables, those of `cells` and a `picture` (a file) are outside the marks, which then hold the stamp
    alone: who writes the page takes the figures of `cells` from the file of the table's runs. A film is a
    GIF of the runs of both commands, from `part[0]` to `part[1]` s of the run. The runs of `quality` are judged by
    `sojourn quality`.
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
    processors: tuple[str, ...] = ()
    """What programs saw of the hosts' processors: runs on another one have other bytes, if it is not hidden."""

    @classmethod
    def of_runs(cls, runs: Sequence[LoadedRun], parts: Mapping[str, str]) -> Stamp:
        """Return the stamp of a table of these runs, made by code with these digests.

        Raises PaperError if they are of several commits or kernels, or of code that was not committed. A checkout with
        changes elsewhere has the commit's code if its digest is that of a run of the same commit without changes.
        """
        clean = {_code(run) for run in runs if run.manifest.git and not run.manifest.git.dirty}
        if any(run.manifest.git is None or _code(run) not in clean for run in runs):
            raise PaperError("the runs of a table are of code that was not committed; commit it, then repeat them")
        made = {(run.manifest.git.commit[:8], _kernel(run)) for run in runs if run.manifest.git}
        of_tests = {(run.manifest.test, _guest(run)) for run in runs}
        if len(made) != 1 or len(of_tests) != len({test for test, _ in of_tests}):
            versions = made if len(made) != 1 else of_tests
            raise PaperError(f"the runs of a table are of {len(versions)} versions: {versions}; remove the older ones")
        ((commit, kernel),) = made
        # A matrix with calls has another guest than one without.
        guests = sorted({guest for _, guest in of_tests} - {""})
        kernel += f", guest{'s' * (len(guests) > 1)} {' and '.join(guests)}" if guests else ""
        return cls(commit, kernel, parts, tuple(sorted({_processor(run) for run in runs} - {""})))

    def markdown(self, table: PaperTable, runs: int) -> str:
        """Return the lines under a table."""
        file = os.path.relpath(table.runs_file, Path(table.page).parent)
        made = f"[{count_of(runs, 'run')}]({file}); commit {self.commit}, {self.kernel}"
        made += "".join(f", processor {it}" for it in self.processors) + f", scores {SCORER}"
        return _lines(table, f"{made}; `sojourn paper {table.name}` repeats it at its commit.", self.parts)

    def renewed(self, table: PaperTable, page: str, runs: int, what: str) -> str:
        """Return a page in which the table's stamp has the digests of this one, of `runs` runs that were repeated.

        `what` of them is the same as in the table's runs. Raises PaperError if the page has no stamp of the table.
        """
        if (old := _found(table, page)) is None:
            raise PaperError(f"{table.page}: has no stamp of {table.name}; make it: `sojourn paper {table.name}`")
        text = f"{old['made']} Repeated at commit {self.commit}, {runs} of its runs {have(runs)} the same {what}."
        return page[: old.start()] + _lines(table, text, self.parts) + page[old.end() :]

    def differs_in_processor(self, table: PaperTable, page: str) -> bool:
        """Return whether a table's runs saw another processor, if it says which: then they may have other bytes."""
        made = old["made"] if (old := _found(table, page)) else ""
        return "processor " in made and not all(f"processor {it}" in made for it in self.processors)


def _found(table: PaperTable, page: str) -> re.Match[str] | None:
    return re.search(_LINES.format(name=re.escape(table.name)), page)


def _lines(table: PaperTable, text: str, parts: Mapping[str, str]) -> str:
    known = " ".join(f"{part}={digest}" for part, digest in parts.items())
    return f"*{text}*\n<!-- stamp of {table.name}: {known} -->"


def have(count: int) -> str:
    """Return the verb for a number of runs."""
    return "has" if count == 1 else "have"


def _kernel(run: LoadedRun) -> str:
    versions = run.manifest.versions
    source, build = (versions.get(f"kernel {name}", versions.get(cell, "unknown")) for name, cell in _KERNEL.items())
    *_, package = source.split(" sha256:")[0].split()
    return f"kernel {package.split('-')[0]} build {build[:8]}"


def _guest(run: LoadedRun) -> str:
    return run.manifest.versions.get("guest", "")[:8]


def _code(run: LoadedRun) -> tuple[str, str | bool]:
    """Return commit and digest of a run's code; of a run that has no digest, whether there were changes."""
    git = run.manifest.git
    assert git is not None
    return git.commit, run.manifest.versions.get("sources", git.dirty)


def _processor(run: LoadedRun) -> str:
    """Return the processor that a run's programs saw; empty for a cell without one, which has the same bytes on all."""
    versions = run.manifest.versions
    shown = versions.get(SHOWN_PROCESSOR, "")
    if shown != HOSTS_PROCESSOR:
        return shown
    flags = cache.digest([(FLAGS, versions.get(FLAGS, "").encode())])[:8]
    return f"{versions.get('processor', 'unknown')} with flags {flags}"


def paper_tables() -> list[PaperTable]:
    """Return the tables of README and docs. Raises PaperError."""
    try:
        return _Paper.model_validate(toml_file.read_toml(CHECKOUT / FILE)).result
    except OSError as missing:
        raise PaperError(
            f"{CHECKOUT / FILE}: {missing.strerror}; it is in a checkout", code="unreadable-file"
        ) from missing
    except (toml_file.TomlError, ValidationError) as wrong:
        why = first_wrong(wrong) if isinstance(wrong, ValidationError) else wrong
        raise PaperError(f"{CHECKOUT / FILE}: {why}", code="damaged") from wrong


def digests(table: PaperTable, checkout: Path = CHECKOUT) -> dict[str, str]:
    """Return a digest of each part of the code that decides a table.

    Its commands, the scenarios, kernel files and built-in programs that these name, the defaults of options and of its
    services, and the last scorer that changed the scores of such services are parts too. A default that no record of a
    run has, because earlier versions had no such option, does not count. The code that carries the parts out
    (`harness/`, the router's set-up) does not count either: the tests hold it to the same bytes.
    """
    defaults = {it.name: it.default for it in OPTIONS if it.subject == "what" and not omitted_from_records(it)}
    command, named = [("command", "\n".join(table.commands).encode())], _named_files(table, checkout)
    services = _services([*command, *named])
    known = {
        "scores": last_change(services),
        "command": _digest(command),
        **({"files": _digest(named)} if named else {}),
        "defaults": _digest([("defaults", json.dumps(defaults, sort_keys=True).encode())]),
    }
    if table.table not in OF_MATRICES:
        defaults_of = {name: dict(SERVICES[name].defaults) for name in services}
        known["services"] = _digest([("services", json.dumps(defaults_of, sort_keys=True).encode())])
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
