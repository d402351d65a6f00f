# SPDX-License-Identifier: Apache-2.0
"""One run of a soak, or the check of its lab, as a process: `python -m sojourn.harness.soak.child run|check JSON`.

It writes the name of the run's directory to a file as soon as that exists. An error is one last line on
standard error and exit code 1. A committed run ends with 0, valid or invalid, with its outcome in a sentence on
standard output.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from sojourn.apps import SERVICES
from sojourn.hardware.machine.files import replace_file
from sojourn.hardware.machine.signals import ended_by_signals
from sojourn.harness.options.model import Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.options.rules import parse_options
from sojourn.harness.soak.plan import of_round
from sojourn.harness.terminal import console_of

if TYPE_CHECKING:
    from sojourn.harness.store.runs import RunDirectory


class Task(BaseModel):
    """The task of the process; `folder` receives the run, or the logs of the check."""

    given: dict[str, str | bool]
    folder: Path
    seed: int = 1
    round: int = 1
    command_line: list[str] = []
    """What the run's manifest records."""
    report: Path = Path()
    """Takes the name of the run's directory as soon as that exists."""


def run(task: Task, options: Options) -> None:
    """Execute the run and print its outcome."""
    from sojourn.harness.experiment.concurrent_runs import repeat_side_by_side
    from sojourn.harness.experiment.run import name_of_test, perform
    from sojourn.harness.report.headline import headline
    from sojourn.harness.report.terminal import print_scores

    def begun(run: RunDirectory) -> None:
        replace_file(task.report, run.manifest.run.encode())

    requested = of_round(options, task.seed, task.round, task.folder)
    if options.engine == LOCAL:
        result = perform(name_of_test(options), requested, task.command_line, sys.stderr, begun)
    else:
        (result,) = repeat_side_by_side(name_of_test(options), requested, task.command_line, sys.stderr, begun)
    print_scores(result.scores, result.path, console_of(sys.stderr))
    print(headline(result.scores, options.service) if not result.void else "")


def check(task: Task, options: Options) -> None:
    """Check this machine for the lab, and start the lab once, or query the cluster's workers."""
    from sojourn.hardware.machine.cache import root
    from sojourn.harness.experiment.concurrent_runs import cluster
    from sojourn.harness.experiment.run import check_lab
    from sojourn.harness.lab.doctor import examine
    from sojourn.harness.lab.needs import needed_by

    if options.engine != LOCAL:
        with cluster([(SERVICES[options.service], options)], console_of(sys.stderr)):
            return
    # The soak manages space for results, and may prune.
    _, verdicts = examine(root(), root(), {options.lab: needed_by(options)})
    if (verdict := verdicts[options.lab]).verdict != "ok":
        raise RuntimeError(verdict.found)
    task.folder.mkdir(parents=True, exist_ok=True)
    check_lab(options, task.folder, sys.stderr)


def main() -> None:
    what, task_text = sys.argv[1:]
    task = Task.model_validate_json(task_text)
    try:
        with ended_by_signals():
            {"run": run, "check": check}[what](task, parse_options({}, task.given))
    except (Exception, KeyboardInterrupt) as error:
        print(" ".join(f"{type(error).__name__}: {error}".split()), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
