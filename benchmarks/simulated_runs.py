# SPDX-License-Identifier: Apache-2.0
"""Seconds a simulated second takes: the main job and a call with all instruments, one machine and two at once.

    python -m benchmarks.simulated_runs [--timeline=short] [youtube] [call]

Each machine has one processor. "recording" is the timeline alone; "whole" has boot, set-up and warm-up in it. Processor
seconds are those of the whole, user and system, of all processes of the machines: the host's load meets them little.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sojourn.apps import SERVICES
from sojourn.harness.experiment import simulated
from sojourn.harness.experiment.guest_news import SimulatedClock
from sojourn.harness.experiment.progress import ExperimentProgress
from sojourn.harness.lab.machine import Machine
from sojourn.harness.options.model import Options
from sojourn.harness.options.rules import parse_options
from sojourn.harness.store.runs import RunStore
from sojourn.harness.terminal import steps


@dataclass
class Timed:
    """When a machine's recording began and how far it came: wall s and simulated s."""

    began_wall: float = 0.0
    began_simulated: float = 0.0


class Watch(ExperimentProgress):
    """A display that shows nothing and notes when the first phase began."""

    def __init__(self, options: Options, clock: SimulatedClock, timed: Timed) -> None:
        super().__init__(options.cell, options.phases, clock=clock)
        self._timed, self._simulated = timed, clock

    def say(self, text: str) -> None:
        pass

    def phase(self, index: int) -> None:
        if index == 0:
            self._timed.began_wall, self._timed.began_simulated = time.monotonic(), self._simulated.now
        super().phase(index)


def processor_s() -> float:
    """Processor seconds of all machines that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(options: Options, machine: Machine) -> tuple[float, float, float]:
    """Wall seconds for each simulated second, of the recording and of the whole; simulated seconds."""
    service = SERVICES[options.service].from_options(options)
    service.encoder = simulated.encoder(machine.desktop)
    service.prepare()
    clock, timed, begun = SimulatedClock(), Timed(), time.monotonic()
    with RunStore(options.results).create("bench", options.cell, seed=options.seed, command_line=[]) as made:
        simulated.record(options, service, made, Watch(options, clock, timed), clock, machine)
        ended = time.monotonic()
        made.commit()
    return (
        (ended - timed.began_wall) / (clock.now - timed.began_simulated),
        (ended - begun) / clock.now,
        clock.now,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("services", nargs="*", default=["youtube", "call"])
    parser.add_argument("--timeline", default="short")
    args = parser.parse_args()
    print(
        "| service | machines at once | recording, wall s a simulated s | whole | processor s |\n|---|---|---|---|---|"
    )
    for name in args.services or ["youtube", "call"]:
        with tempfile.TemporaryDirectory() as folder:
            given: dict[str, Any] = {"service": name, "timeline": args.timeline, "results": folder}
            options = parse_options(given)
            with steps() as step:
                machine = simulated.prepare(options, SERVICES[name].from_options(options), step)
            for together in (1, 2):
                before = processor_s()
                with ThreadPoolExecutor() as pool:
                    *rates, simulated_s = zip(*pool.map(run, [options] * together, [machine] * together), strict=True)
                columns = [sum(rate) / together**2 for rate in rates]
                columns.append((processor_s() - before) / sum(simulated_s))
                print(f"| {name} | {together} | " + " | ".join(f"{it:.2f}" for it in columns) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
