# SPDX-License-Identifier: Apache-2.0
"""Runs for the tests of repetitions side by side: processes of their own that do as their seed and folder say."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console

from sojourn.hardware.machine.signals import ended_by_signals
from sojourn.harness.engine.job import Channel
from sojourn.harness.engine.local import LocalEngine
from sojourn.harness.experiment.concurrent_runs import side_by_side
from sojourn.harness.experiment.run import new_run
from sojourn.harness.experiment.series import PlannedRun, SeriesOfRuns
from sojourn.harness.options.model import Options
from sojourn.harness.options.rules import parse_options
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.validity import Gate, Validity


@dataclass(frozen=True)
class Filled:
    """A job that fills its run's directory; files `begun-SEED` and `undone-SEED` in `notes` show what became of it."""

    notes: Path
    scores: Scores
    options: Options
    void: tuple[int, ...] = ()
    failing: tuple[int, ...] = ()
    dying: tuple[int, ...] = ()
    cut_off: tuple[int, ...] = ()
    """They are killed in the middle of what they report."""
    endless: tuple[int, ...] = ()
    slow: Mapping[int, str] = field(default_factory=dict)
    """The file of another run that each of them waits for."""

    def __call__(self, folder: Path, channel: Channel) -> None:
        seed = self.options.seed
        try:
            (self.notes / f"begun-{seed}").write_text(str(os.getpid()))
            self._fill(folder)
            channel.versions({"kernel build": "theirs"})
            channel.line("a phase is over")
            channel.done(self.options.phases[0].seconds)
            while seed in self.slow and not any(self.notes.glob(self.slow[seed])):
                time.sleep(0.1)
            if seed in self.failing:
                raise RuntimeError("no route")
            if seed in self.cut_off:
                with patch.object(Connection, "_send", _half_of_a_message):
                    channel.line("a phase is over")
            if seed in self.dying:
                os.kill(os.getpid(), signal.SIGKILL)
            while seed in self.endless:
                channel.check()
                time.sleep(0.05)
        finally:
            (self.notes / f"undone-{seed}").touch()

    def _fill(self, folder: Path) -> None:
        (folder / "deep").mkdir()
        (folder / "deep" / "evidence").write_text("recorded")
        phase = {"name": "solo", "contender": None, "start": 100.0, "end": 120.0}
        lab = {"rtt_ms": 20, "rate_down_bps": 1e7, "qdisc_down": "fq_codel", "qdisc_up": "fq_codel", "clip": {}}
        (folder / "timeline.json").write_text(json.dumps({"phases": [phase]}))
        (folder / "lab.json").write_text(json.dumps(lab))
        late = Gate(name="late", ok=False, measured="too late", limit="in time", reason="too late")
        void = {"validity": Validity.of([late])} if self.options.seed in self.void else {}
        scores = self.scores.model_copy(update=void)
        (folder / SCORES).write_text(scores.model_dump_json())


def _half_of_a_message(connection: Connection, message: bytes) -> None:
    os.write(connection.fileno(), message[: len(message) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def asked(results: Path, repeat: int, seed: int = 1) -> Options:
    """What a user asks who wants so many repetitions."""
    given = {"repeat": str(repeat), "seed": str(seed), "results": str(results), "timeline": "solo:5,cubic:2,prague:2"}
    return parse_options(given)


def jobs(notes: Path, scores: Scores, **does: Any) -> Callable[[PlannedRun], Filled]:
    """Return what makes the jobs of a series, see `Filled`."""
    return lambda planned: Filled(notes, scores, planned.options, **does)


def main() -> None:
    """Make two endless runs in the folder that the command line names."""
    folder = Path(sys.argv[1])
    job = jobs(folder, Scores.model_validate_json((folder / "scores.json").read_bytes()), endless=(1, 2))
    create = partial(new_run, "t", command_line=())
    with ended_by_signals():
        series = SeriesOfRuns({"": asked(folder / "results", 2)})
        list(side_by_side(series, LocalEngine(1, 2), job, create, Console(file=sys.stderr)))


if __name__ == "__main__":
    main()
