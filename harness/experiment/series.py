# SPDX-License-Identifier: Apache-2.0
"""The runs of one or several experiments: which are still to start, and which replace invalid ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sojourn.harness.engine.sample import sampled
from sojourn.harness.experiment.run import Result
from sojourn.harness.options.model import Options

SPARE = 2
"""Attempts that repetitions may take beyond the requested number of valid runs."""


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run of a series: its experiment, empty if there is only one; its number in it, from 1; its options."""

    experiment: str
    number: int
    options: Options

    @property
    def label(self) -> str:
        """A short name, unique in the series."""
        return ", ".join(filter(None, (self.experiment, f"seed {self.options.seed}")))


class SeriesOfRuns:
    """The runs still to start: the first seed of every experiment, then the second, …; see `instead_of` for others."""

    def __init__(self, experiments: Mapping[str, Options], sample: int | None = None) -> None:
        """`experiments` are by name; empty for the only one. Each has the number of runs that it requires.

        A `sample` is of that many of all runs, and none replaces an invalid one. Raises OptionsError if it is larger.
        """
        self._experiments, self._replacing = experiments, sample is None
        most = max((options.repeat or 1) for options in experiments.values())
        self.runs = [
            PlannedRun(name, number, options.repetition(number))
            for number in range(1, most + 1)
            for name, options in experiments.items()
            if number <= (options.repeat or 1)
        ]
        """All runs: those that have begun, and those that are waiting."""
        if sample is not None:
            names = {f"{run.options.cell}: {run.label}": run for run in self.runs}
            chosen = sampled(names, sample)
            self.runs = [run for name, run in names.items() if name in chosen]
        self.wanted = len(self.runs)
        """The number of valid runs that the series requires."""
        self.waiting = deque(self.runs)
        self.kept: dict[PlannedRun, Result] = {}
        """Runs that were finished before."""

    def keep(self, finished: Callable[[Options], Result | None]) -> None:
        """Keep the runs that `finished` has, and wait for the others only; an invalid one is replaced."""
        todo = deque[PlannedRun]()
        while self.waiting:
            planned = self.waiting.popleft()
            if (result := finished(planned.options)) is None:
                todo.append(planned)
                continue
            self.kept[planned] = result
            if result.void:
                self.instead_of(planned)
        self.waiting = todo

    def instead_of(self, void: PlannedRun) -> PlannedRun | None:
        """Add and return a run with the order of an invalid run; None after `SPARE` more than the experiment requires.

        In simulated time its seed would make it invalid again: the other run gets the next seed, and comes last. In
        real time chance made it invalid: the other run has its seed, and comes next.
        """
        options = self._experiments[void.experiment]
        made = sum(run.experiment == void.experiment for run in self.runs)
        if not (self._replacing and options.repeat) or made == options.repeat + SPARE:
            return None
        if options.lab == "sim":
            other = PlannedRun(void.experiment, made + 1, void.options.replace(seed=options.seed + made))
            self.waiting.append(other)
        else:
            other = PlannedRun(void.experiment, void.number, void.options)
            self.waiting.appendleft(other)
        self.runs.append(other)
        return other

    def title(self, planned: PlannedRun) -> str:
        """Return a short description of a run."""
        options = planned.options
        order = ", ".join(phase.name for phase in options.phases if phase.contender)
        wanted = self._experiments[planned.experiment].repeat or 1
        place = f"run {planned.number} of {wanted}" if planned.number <= wanted else "a further run"
        return f"{place}: {order or 'no contender'}"

    def verdict(self, planned: PlannedRun, result: Result) -> str:
        """Return how a run ended; an invalid one adds a replacement."""
        if not result.void:
            return "valid"
        why = "; ".join(result.void)
        if (other := self.instead_of(planned)) is None:
            return f"invalid: {why}"
        again = other.options.seed == planned.options.seed
        return f"invalid: {why}; {'repeated' if again else f'replaced by seed {other.options.seed}'}"
