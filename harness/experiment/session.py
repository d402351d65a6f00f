# SPDX-License-Identifier: Apache-2.0
"""The runs of a command line, from its options to the tables at the end: `sojourn harm` and pytest share it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.console import Console
from rich.text import Text

from sojourn.apps import SERVICES
from sojourn.hardware.lab.lab_file import BOX_LAB
from sojourn.hardware.machine.messages import printable
from sojourn.harness.experiment.concurrent_runs import one_by_one, repeat_side_by_side
from sojourn.harness.experiment.run import Result, name_of_test, perform, require_ready, require_space
from sojourn.harness.experiment.series import SeriesOfRuns
from sojourn.harness.experiment.stopped import kept_lines
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import ALL, BY_NAME, DEFAULT_QUEUE, Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.options.rules import notes, parse_options
from sojourn.harness.options.sources import user_defaults
from sojourn.harness.report.published_tables import published_services
from sojourn.harness.report.terminal import print_scores, print_services, print_summary
from sojourn.harness.store.loaded import load_victim_run
from sojourn.harness.terminal import console_of

if TYPE_CHECKING:
    from sojourn.harness.report.experiments import Experiment
    from sojourn.harness.store.runs import RunDirectory

_LOGS = ("sojourn.cache", "sojourn.archive")


class TooFewValidError(RuntimeError):
    """An experiment has fewer valid runs than requested; a line per invalid run."""


class _Lines(logging.Handler):
    """Appends what is logged to a list, every line once: several builds read the same archive."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        if (line := printable(record.getMessage())) not in self._lines:
            self._lines.append(line)


@dataclass
class ExperimentSession:
    """The experiments of one command line. As a context it keeps the log lines of cache and archive for `finish`."""

    requested: tuple[Options, ...]
    """Options of the runs: of one service, or of every published one."""
    command_line: Sequence[str]
    """As typed; the manifest of each run records it."""
    defaults: Sequence[str] = ()
    """A line per source of the user's own defaults."""
    unnamed_queue: str = ""
    """The line about the default queue where nobody named one; printed once."""
    begun: list[RunDirectory] = field(default_factory=list)
    """The directories of all runs."""
    results: list[Result] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    """Pages that `finish` names."""
    lines: list[str] = field(default_factory=list)
    """Lines that `finish` prints."""

    @classmethod
    def from_command_line(
        cls, given: Mapping[str, Any], command_line: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> Self:
        """Return the session for `given` (option name → text, bool or None) and the user's defaults.

        `given` is completed from its scenario. The folder of the call is where `sojourn.toml` is and what paths are
        relative to. Raises OptionsError.
        """
        defaults = user_defaults(environment, folder)
        service = given["service"] or defaults.service or str(BY_NAME["service"].default)
        if service == ALL:
            requested = [_as_published(given, defaults.of(name), name) for name in published_services()]
        else:
            requested = [parse_options({**given, "service": service}, defaults.of(service))]
        queue = requested[0].qdisc_down
        unnamed = queue is not None and given["qdisc"] is None and "qdisc" not in defaults.of(service)
        others = f"queue: {queue} (default), {DEFAULT_QUEUE}; others: --qdisc=dualpi2, cake, fq_codel, pfifo"
        return cls(tuple(requested), command_line, defaults.lines(service), others if unnamed else "")

    def __enter__(self) -> Self:
        self._handler = _Lines(self.lines)
        for name in _LOGS:
            logging.getLogger(name).addHandler(self._handler)
        return self

    def __exit__(self, *_: object) -> None:
        for name in _LOGS:
            logging.getLogger(name).removeHandler(self._handler)

    def require_ready(self) -> None:
        """Check everything that can be checked before anything starts. Raises RuntimeError or OSError, with the fix."""
        for options in self.requested:
            require_ready(options)
            SERVICES[options.service].from_options(options)

    @property
    def opening(self) -> list[str]:
        """Lines to print before anything starts: the user's own defaults, and what may not be meant."""
        return [*self.defaults, *dict.fromkeys(note for options in self.requested for note in notes(options))]

    def take_unnamed_queue(self) -> str:
        """Return the line about the default queue, once; empty afterwards, and where the user named a queue."""
        line, self.unnamed_queue = self.unnamed_queue, ""
        return line

    def run(self, options: Options, terminal: TextIO, test: str = "") -> None:
        """Make the runs that `options` require, under the name `test` (`name_of_test`); progress goes to `terminal`.

        Raises TooFewValidError, OptionsError where the engine cannot take the runs, and what stops a run (RuntimeError,
        OSError, KeyboardInterrupt). Finished runs are in `results` in every case.
        """
        if options.engine != LOCAL and not options.repeat:
            raise OptionsError(
                "--engine: a single run is executed on this machine; add --repeat=N, or omit --engine",
                code="conflict", option="engine",
            )  # fmt: skip
        test = test or name_of_test(options)
        if options.lab == "sim" and options.repeat:
            runs = repeat_side_by_side(test, options, self.command_line, terminal, self.begun.append)
        else:
            once = partial(perform, test, command_line=self.command_line, terminal=terminal, begun=self.begun.append)
            series, console = SeriesOfRuns({"": options}), console_of(terminal)
            if series.wanted > 1:  # a single run checks this itself, after its options
                require_space([run.options for run in series.waiting], options.results, console)
            runs = one_by_one(series, once, console)
        invalid, made = list[str](), 0
        with closing(runs):  # what still runs ends now, not when the failure's traceback is dropped
            for result in runs:
                self.results.append(result)
                made += 1
                if result.void:
                    invalid.append(f"{result.path.name} is invalid: {'; '.join(result.void)}")
        if made - len(invalid) < (options.repeat or 1):
            raise TooFewValidError("\n".join(invalid))

    def kept(self) -> list[str]:
        """Return what a stopped command has left, one line per kind of run."""
        return list(kept_lines(self.begun, sum(options.repeat or 1 for options in self.requested)))

    def finish(self, console: Console) -> None:
        """Write summary and index, print the tables of every run, or of all repetitions together, and where pages are.

        The pages come first: what reads the tables through a pipe may end early.
        """
        from sojourn.harness.report.index import write_index

        repeated, groups = bool(self.requested[0].repeat), list["Experiment"]()
        if self.results and repeated:
            self._write(partial(self._summarise, groups), "summary of the runs", "sojourn summary")
        for folder in {result.path.parent for result in self.results}:
            self._write(partial(write_index, folder), "index", f"sojourn report {folder}")
        for result in self.results if not repeated else ():
            console.print(Text(result.path.name, "bold"), soft_wrap=True)
            print_scores(result.scores, result.path, console)
        if groups:
            print_summary(groups, console)
        if len(self.results) > 1:
            loaded = [load_victim_run(result.path, "harm") for result in self.results]
            print_services([(run.service, run.scores) for run in loaded], console)
        for line in [*self.lines, *(f"report: {report}" for report in self.reports)]:
            console.print(Text(line), soft_wrap=True)

    def _summarise(self, groups: list[Experiment]) -> Path:
        """Write the summary of all runs, add its experiments to `groups`, and return its page."""
        from sojourn.harness.report.experiments import experiments, find_runs
        from sojourn.harness.report.repetitions import write_summary

        groups += experiments(find_runs([result.path for result in self.results]))
        first = self.results[0].path
        return write_summary(groups, first.with_name(f"{first.name}-summary"))

    def _write(self, write: Callable[[], Path], what: str, command: str) -> None:
        try:
            self.reports.append(write())
        except (RuntimeError, OSError) as error:
            self.lines.append(f"no {what}: {printable(str(error))}; `{command}` writes it")


def _as_published(given: Mapping[str, Any], defaults: Mapping[str, str | bool], name: str) -> Options:
    """Return the options of a service's published run, where the command line does not override them."""
    victim = SERVICES[name]
    published = {"timeline": "published", **victim.defaults, **victim.published}
    if BOX_LAB in (given["lab"], defaults.get("lab")):
        del published["rate"]  # which a box has by itself
    return parse_options({**given, "service": name}, {**defaults, **published})
