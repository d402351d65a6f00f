# SPDX-License-Identifier: Apache-2.0
"""Runs for the tests of repetitions side by side: processes of their own that do as their seed and folder say."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from sojourn.apps import SERVICES
from sojourn.harness.experiment.run import Result, ended_by_sigterm
from sojourn.harness.experiment.seeds import SeedSeries, Tell, side_by_side
from sojourn.harness.options.model import Options
from sojourn.harness.options.rules import parse_options
from sojourn.scoring.schema.scores import Scores


@dataclass(frozen=True)
class Runs:
    """A job: files `begun-SEED` and `undone-SEED` in the folder tell what became of each run."""

    folder: Path
    scores: Scores
    void: tuple[int, ...] = ()
    failing: tuple[int, ...] = ()
    dying: tuple[int, ...] = ()
    cut_off: tuple[int, ...] = ()
    """They are killed in the middle of what they tell."""
    endless: bool = False
    slow: tuple[int, ...] = ()
    """They wait until another run is over."""

    def __call__(self, asked: Options, tell: Tell) -> Result:
        (self.folder / f"begun-{asked.seed}").write_text(str(os.getpid()))
        try:
            tell("line", "a phase is over")
            tell("done", asked.phases[0].seconds)
            while asked.seed in self.slow and not any(self.folder.glob("undone-*")):
                time.sleep(0.3)
            if asked.seed in self.failing:
                raise RuntimeError("no route")
            if asked.seed in self.cut_off:
                with patch.object(Connection, "_send", _half_of_a_message):
                    tell("line", "a phase is over")
            if asked.seed in self.dying:
                os.kill(os.getpid(), signal.SIGKILL)
            while self.endless:
                time.sleep(0.05)
        finally:
            (self.folder / f"undone-{asked.seed}").touch()
        void = ("too late",) if asked.seed in self.void else ()
        return Result(self.folder / f"run-{asked.seed}", self.scores, void)


def _half_of_a_message(connection: Connection, message: bytes) -> None:
    os.write(connection.fileno(), message[: len(message) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def asked(results: Path, repeat: int, seed: int = 1) -> Options:
    """What a user asks who wants so many repetitions."""
    given = {"repeat": str(repeat), "seed": str(seed), "results": str(results), "timeline": "solo:2,cubic:2,prague:2"}
    return parse_options(given, SERVICES)


def main() -> None:
    """Make two endless runs in the folder that the command line names."""
    folder = Path(sys.argv[1])
    job = Runs(folder, Scores.model_validate_json((folder / "scores.json").read_bytes()), endless=True)
    with ended_by_sigterm():
        list(side_by_side(SeedSeries(asked(folder, 2)), job, lambda running: running < 2, Console(file=sys.stderr)))


if __name__ == "__main__":
    main()
