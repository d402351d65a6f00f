# SPDX-License-Identifier: Apache-2.0
"""One run of a soak, or the check of its lab, as a process: `python -m sojourn.harness.soak.child run|check JSON`.

What it cannot do it tells by one last line on standard error and exit code 1. A run that was committed ends with 0,
void or not, its outcome in a sentence on standard output.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console

from sojourn.apps import SERVICES
from sojourn.apps.two_party import TwoParty
from sojourn.hardware.machine.signals import ended_by_sigterm
from sojourn.harness.options.model import Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.options.rules import parse_options
from sojourn.harness.soak.plan import PlannedCell, of_round


class Task(BaseModel):
    """What the process shall do; `folder` takes the run, or the logs of the check."""

    given: dict[str, str | bool]
    folder: Path
    seed: int = 1
    round: int = 1
    command_line: list[str] = []


def command_line(cell: PlannedCell, seed: int, round: int) -> list[str]:
    """Return what makes a cell's run of a round (`seed`: the night's) again on this machine."""
    asked = of_round(cell.options, seed, round, cell.options.results)
    phases = (f"{phase.contender or 'solo'}:{phase.seconds:g}" for phase in asked.phases)
    given = {**cell.given, "timeline": ",".join(phases), "seed": str(asked.seed)}
    given.pop("engine", None)
    words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items() if value]
    return ["pytest", f"tests/test_{_test(cell.options).replace('-', '_')}.py", *words]


def _test(options: Options) -> str:
    return "call-harm" if issubclass(SERVICES[options.service], TwoParty) else "video-harm"


def run(task: Task, options: Options) -> None:
    """Make the run and tell its outcome."""
    from sojourn.harness.experiment.run import perform
    from sojourn.harness.experiment.seeds import repeat_side_by_side
    from sojourn.harness.report.headline import headline

    asked = of_round(options, task.seed, task.round, task.folder)
    test = _test(options)
    if options.engine == LOCAL:
        result = perform(test, asked, services=SERVICES, command_line=task.command_line, terminal=sys.stderr)
    else:
        (result,) = repeat_side_by_side(test, asked, SERVICES, task.command_line, sys.stderr)
    result.print(sys.stderr)
    print(headline(result.scores, options.service) if not result.void else "")


def check(task: Task, options: Options) -> None:
    """Examine this machine for the options' lab, and bring the lab up once, or ask the cluster's workers."""
    from sojourn.hardware.machine.cache import root
    from sojourn.harness.experiment.run import check_lab
    from sojourn.harness.experiment.seeds import cluster
    from sojourn.harness.lab.doctor import examine
    from sojourn.harness.lab.needs import needed_by

    if options.engine != LOCAL:
        with cluster(options, SERVICES[options.service], Console(stderr=True)):
            return
    # Room for results is looked after by the soak, and may be found by pruning.
    _, verdicts = examine(root(), root(), {options.lab: needed_by(options)})
    if (verdict := verdicts[options.lab]).verdict != "ok":
        raise RuntimeError(verdict.found)
    task.folder.mkdir(parents=True, exist_ok=True)
    check_lab(options, task.folder, sys.stderr)


def main() -> None:
    what, task_text = sys.argv[1:]
    task = Task.model_validate_json(task_text)
    options = parse_options({}, SERVICES, task.given)
    try:
        with ended_by_sigterm():
            {"run": run, "check": check}[what](task, options)
    except (Exception, KeyboardInterrupt) as error:
        print(" ".join(f"{type(error).__name__}: {error}".split()), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
