# SPDX-License-Identifier: Apache-2.0
"""Sweeps: an experiment for every combination of options' values, in one resumable series of simulated runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

from rich.console import Console

from sojourn.apps import SERVICES
from sojourn.apps.options import PLAYERS, SCREENING
from sojourn.hardware import simulation
from sojourn.hardware.machine.files import lock, opened
from sojourn.hardware.machine.messages import did_you_mean
from sojourn.hardware.machine.signals import ended_by_signals
from sojourn.harness.engine.job import Engine
from sojourn.harness.engine.local import LocalEngine, capacity
from sojourn.harness.experiment import simulated
from sojourn.harness.experiment.concurrent_runs import SimulatedRun, cluster, side_by_side
from sojourn.harness.experiment.run import Result, name_of_test, new_run, require_ready, require_space
from sojourn.harness.experiment.series import PlannedRun, SeriesOfRuns
from sojourn.harness.lab.machine import Machine
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import BY_NAME, FLAGS, Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.options.rules import WITH_COMMAS, WITH_STEPS, parse_options
from sojourn.harness.options.sources import (
    EVERY_PLAYER,
    IN_SCENARIOS,
    WHY,
    Defaults,
    combined,
    lists_of,
    user_defaults,
    with_scenarios,
    without_overridden,
)
from sojourn.harness.store.loaded import WITHOUT_EFFECT, VictimRun, load_run, stored_object
from sojourn.harness.store.manifest import StoreError
from sojourn.harness.store.runs import RunDirectory, RunStore
from sojourn.harness.terminal import console_of, steps
from sojourn.scoring.schema.files import OPTIONS

RESULTS = "results"
"""A sweep's runs are by default in a folder of it: `map`, or the scenario's name."""
#: In a manifest's versions: runs of other builds are other measurements.
_BUILD = ("kernel source", "kernel build", "guest", "sources")


@dataclass(frozen=True)
class Sweep:
    """The experiments of a sweep, by the values that distinguish them, such as `rtt 10ms, qdisc pie`."""

    experiments: Mapping[str, Options]
    defaults: Sequence[str] = ()
    """A line per source of the user's own defaults."""
    sample: int | None = None
    """Of all runs, how many are made; None: all."""

    @classmethod
    def from_command_line(
        cls,
        words: Sequence[str],
        given: Mapping[str, Any],
        folder: Path,
        environment: Mapping[str, str],
        recorder: str = SCREENING,
        sample: int | None = None,
    ) -> Self:
        """Return the sweep of NAME=VALUE,VALUE,… and the scenario's lists over `given` (option name → text, bool or
        None) and the defaults.

        The folder of the call is where `sojourn.toml` is and what paths are relative to. `recorder` is the default of
        stand-in videos. Raises OptionsError.
        """
        axes = _axes(words)
        if twice := next((name for name in axes if given.get(name) is not None), None):
            raise OptionsError(
                f"{twice}={','.join(axes[twice])}: --{twice} sets it too; omit one of them",
                code="conflict",
                option=twice,
            )
        given, defaults = with_scenarios(given, folder), user_defaults(environment, folder)
        lists = {**lists_of(given), **axes}
        table = without_overridden({**lists, **given, **lists})  # the lists first, in the order of experiments' names
        swept = lists_of(table)
        if not swept:
            raise OptionsError(
                "a map needs an option with its values, without --, such as rtt=10ms,40ms, or a scenario with lists",
                code="missing",
            )
        experiments = {}
        for chosen, single in combined(table):
            name = ", ".join(f"{option} {value}" for option, value in zip(swept, chosen, strict=True))
            experiments[name] = _options(without_overridden(single), defaults, recorder)
        _refuse_equal(experiments)
        services = dict.fromkeys(options.service for options in experiments.values())
        lines = list(dict.fromkeys(line for name in services for line in defaults.lines(name)))
        sweep = cls(experiments, lines, sample)
        sweep.planned()
        return sweep

    @property
    def first(self) -> Options:
        """The options of the first experiment, with everything that all have in common."""
        return next(iter(self.experiments.values()))

    def planned(self) -> SeriesOfRuns:
        """Return its runs, none of which is made. Raises OptionsError for a sample of more runs than there are."""
        return SeriesOfRuns(self.experiments, self.sample)

    def require_ready(self) -> None:
        """Check what can be checked before anything starts. Raises RuntimeError or OSError, with the fix."""
        for options in self.experiments.values():
            SERVICES[options.service].from_options(options)
        require_ready(self.first)

    def run(
        self, command_line: Sequence[str], terminal: TextIO, begun: Callable[[SeriesOfRuns], None]
    ) -> Generator[Result]:
        """Make the runs that are not in the results folder yet, and yield them as they end.

        `begun` gets the series before anything is recorded. Leaving the iteration ends what still runs. Raises
        OptionsError if the folder has runs of another build or another sweep is writing there, and as
        `sojourn.harness.experiment.concurrent_runs.side_by_side`.
        """
        console, series = console_of(terminal), self.planned()
        with ended_by_signals(), only_sweep_in(self.first.results):
            with steps(console) as step:
                prepared = {}
                for options in self.experiments.values():
                    service = SERVICES[options.service].from_options(options)
                    prepared[id(options)] = service, simulated.prepare(options, service, step)
            machine = prepared[id(self.first)][1]
            series.keep(kept_runs(self.first.results, machine))
            begun(series)
            if not series.waiting:
                return
            require_space([run.options for run in series.waiting], self.first.results, console)

            def job(planned: PlannedRun) -> SimulatedRun:
                options = self.experiments[planned.experiment]
                known = prepared[id(options)] if options.engine == LOCAL else None
                return SimulatedRun(SERVICES[options.service], planned.options, known)

            def create(options: Options) -> RunDirectory:
                return new_run(name_of_test(options), options, command_line)

            yield from side_by_side(series, self._engine(machine, len(series.waiting), console), job, create, console,
                                    sweep=True)  # fmt: skip

    def _engine(self, machine: Machine, runs: int, console: Console) -> Engine:
        if self.first.engine != LOCAL:
            return cluster([(SERVICES[it.service], it) for it in self.experiments.values()], console)
        processors = len(os.sched_getaffinity(0))
        return LocalEngine(machine.bytes, capacity(min(runs, processors), simulation.fitting(machine.memory)))


@contextmanager
def only_sweep_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a results folder. Raises OptionsError if another sweep has it."""
    with opened(folder) as descriptor:
        if not lock(descriptor):
            text = f"--results: another map is being made in {folder}; wait for it, or give another folder"
            raise OptionsError(text, code="in-use", option="results")
        yield


def _key(record: Mapping[str, Any]) -> str:
    """Return what a run's options are, whatever the order of its contenders: an experiment has one run per seed."""
    kept = {name: value for name, value in record.items() if name not in WITHOUT_EFFECT}
    phases = [{name: value for name, value in phase.items() if name != "name"} for phase in kept.get("phases", [])]
    kept["phases"] = sorted(json.dumps(phase, sort_keys=True) for phase in phases)
    return json.dumps(kept, sort_keys=True)


def _refuse_equal(experiments: Mapping[str, Options]) -> None:
    """Raise OptionsError if two experiments are the same, or have different folders or engines."""
    known: dict[str, str] = {}
    first = next(iter(experiments.values()))
    for name, options in experiments.items():
        if (other := known.setdefault(_key(options.record()), name)) != name:
            raise OptionsError(f"{other} and {name} are the same experiment; give each value once", code="duplicate")
        if (options.results, options.engine) != (first.results, first.engine):
            text = f"{name}: --results and --engine must be the same for all experiments of a map; set them once"
            raise OptionsError(text, code="conflict", option="results")


def kept_runs(folder: Path, machine: Machine) -> Callable[[Options], Result | None]:
    """Return what has the finished run in a folder with given options, by the machine's build; None without one.

    Raises OptionsError if the folder has runs of another build.
    """
    runs = {}
    for path in RunStore(folder).runs():
        try:
            run = load_run(path)
        except StoreError:  # the page lists it as excluded
            continue
        if not isinstance(run, VictimRun):
            continue
        if any(run.manifest.versions.get(name) != machine.versions[name] for name in _BUILD):
            raise OptionsError(
                f"--results: {folder} has runs of another build of kernel, guest or Sojourn ({path.name}); figures of "
                "two builds do not belong on one map: give another folder",
                code="other-version",
                option="results",
            )
        runs[_key(stored_object(path / OPTIONS))] = Result(path, run.scores, tuple(run.reasons))
    return lambda options: runs.get(_key(options.record()))


def _options(table: Mapping[str, Any], defaults: Defaults, recorder: str) -> Options:
    """Return the options of one experiment of a sweep. Raises OptionsError."""
    service = table["service"] or defaults.service or str(BY_NAME["service"].default)
    folder = Path(str(table.get("scenario") or "map")).stem
    own = {"results": f"{RESULTS}/{folder}", "repeat": "1", **defaults.of(service)}
    if (lab := table["lab"] or own.get("lab") or "sim") != "sim":
        raise OptionsError(
            f"--lab={lab}: a map is made in simulated time; for a lab in real time write a plan for `sojourn soak` "
            "(docs/soak.md)",
            code="unsupported",
            option="lab",
        )
    if service in SERVICES and "clip" in SERVICES[service].takes:
        own = {"recorder": recorder, **own}
    return parse_options({**table, "service": service}, own)


def _axes(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each swept option. Raises OptionsError."""
    axes: dict[str, list[str]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.removeprefix("--")
        if not equals:
            raise OptionsError(f"{word}: give an option with its values, such as rtt=10ms,40ms", code="invalid-value")
        if name not in IN_SCENARIOS:
            if option := BY_NAME.get(name):
                raise OptionsError(
                    f"{word}: cannot be swept: {WHY.get(option.subject, '')}; give --{name}", code="unsupported",
                    option=name,
                )  # fmt: skip
            hint = did_you_mean(name, IN_SCENARIOS) or f"known: {', '.join(IN_SCENARIOS)}"
            raise OptionsError(f"{word}: no such option; {hint}", code="unknown-option", option=name)
        if name in FLAGS:
            raise OptionsError(f"{word}: a flag cannot be swept; make a map with --{name} and one without it",
                               code="unsupported", option=name)  # fmt: skip
        if name in WITH_STEPS and ":" in text and ";" not in text:
            why = f"separate schedules by ;, and end a single one with ;, as in '{name}={text};'"
            raise OptionsError(f"{word}: {why}", code="invalid-value", option=name)
        several = ";" in text or name in WITH_COMMAS
        values = [value.strip() for value in text.removesuffix(";").split(";" if several else ",")]
        if "" in values or len(set(values)) < len(values) or name in axes:
            why = "is given twice" if name in axes else "has an empty value or one that is given twice"
            raise OptionsError(f"{word}: {name} {why}; give each value once", code="invalid-value", option=name)
        axes[name] = list(PLAYERS) if (name, values) == ("player", [EVERY_PLAYER]) else values
    return axes
