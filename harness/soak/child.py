# SPDX-License-Identifier: Apache-2.0
"""One run of a soak, or the check of its lab, as a process of its own: ``python -m harness.soak.child run|check JSON``.

What it cannot do it tells by one last line on standard error and exit code 1. A run that was committed ends with 0,
void or not, its outcome in a sentence on standard output.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel

from apps import SERVICES
from apps.two_ends import TwoEnds
from harness.options import Options, parse_options
from harness.soak.plan import of_round


class Task(BaseModel):
    """What the process shall do; ``folder`` takes the run, or the logs of the check."""

    given: dict[str, str | bool]
    folder: Path
    seed: int = 1
    round: int = 1


def run(task: Task, options: Options) -> None:
    """Make the run and tell its outcome."""
    from harness.report import headline
    from harness.run import perform

    test, file = ("call-harm", "test_call_harm") if issubclass(SERVICES[options.service], TwoEnds) else (
        "video-harm", "test_video_harm"
    )  # fmt: skip
    words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in task.given.items() if value]
    asked = of_round(options, task.seed, task.round, task.folder)
    again = ["pytest", f"tests/{file}.py", *words, f"--seed={asked.seed}"]
    result = perform(test, asked, services=SERVICES, command_line=again, terminal=sys.stderr)
    result.print(sys.stderr)
    print(headline(result.scores) if not result.void else "")


def check(task: Task, options: Options) -> None:
    """Ask the doctor, and bring the lab up once."""
    from harness.cache import root
    from harness.doctor import examine
    from harness.run import check_lab

    # Room for results is looked after by the soak, and may be found by pruning.
    missing = [it for it in examine(root(), root()) if it.verdict == "missing"]
    if missing:
        raise RuntimeError("; ".join(f"{it.subject}: {it.found} ({it.fix})" for it in missing))
    task.folder.mkdir(parents=True, exist_ok=True)
    check_lab(options, task.folder, sys.stderr)


def main() -> None:
    what, told = sys.argv[1:]
    task = Task.model_validate_json(told)
    options = parse_options(task.given, {name: service.defaults for name, service in SERVICES.items()})
    try:
        {"run": run, "check": check}[what](task, options)
    except (Exception, KeyboardInterrupt) as error:
        print(" ".join(f"{type(error).__name__}: {error}".split()), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
