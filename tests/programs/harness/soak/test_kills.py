# SPDX-License-Identifier: Apache-2.0
"""A soak that is ended at any of its steps and resumed: nothing is lost, nothing counts twice, nothing is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.hardware.machine.files import CHECKOUT, FRESH
from sojourn.harness.bundle.archive import verify
from sojourn.harness.cli import app
from sojourn.harness.soak import leaks, state
from sojourn.harness.soak.loop import SoakExit
from sojourn.harness.store.manifest import PARTIAL
from tests.processes import outliving
from tests.programs.harness.soak.soaks import CHILD, HEAD

CELLS = "[cells.a]\nbuffer = 2\n[cells.b]\nbuffer = 2\nrate = '5mbit'\n"
#: A soak and its summary; before its step of a number, if any, it gets a signal. Prints its steps, and then its code.
SOAK = """
import os, sys
from pathlib import Path
from sojourn.harness.soak import leaks, loop, state, summary
from sojourn.harness.soak.plan import read_plan

at, number, steps = int(sys.argv[2]), int(sys.argv[3]), 0

def step(name):
    global steps
    steps += 1
    print(name, flush=True)
    if steps == at:
        os.kill(os.getpid(), number)

def stepwise(module, name):
    function = getattr(module, name)
    def called(*given, **more):
        step(f"before {name}")
        result = function(*given, **more)
        step(f"after {name}")
        return result
    setattr(module, name, called)

for module, name in (
    (state, "replace_file"), (state, "flush"), (state, "sync_folder"), (loop, "supervise"), (loop, "verify_run"),
    (loop, "sweep"), (leaks, "clean"), (summary, "status"), (summary, "junit"),
):
    stepwise(module, name)
plan = read_plan(Path(sys.argv[1]))
with state.held(plan.results):
    stop = loop.Stop()
    stop.listen()
    folder = loop.begin(plan, 1)
    code = loop.Soak(plan, folder, lambda _: None, stop, sys.argv[4:], lambda _: 1).run().code
summary.write_summary(folder)
print(code)
"""


def soaked(place: Path, at: int = 0, number: int = 0) -> tuple[int, list[str]]:
    """Run or resume a soak until it ends, or the step with the signal; its exit code and what it printed."""
    command = [sys.executable, "-c", SOAK, str(place / "plan.toml"), str(at), str(int(number)), *CHILD]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout.splitlines() + done.stderr.splitlines()[-1:]


def whole(place: Path) -> None:
    """Assert that the only night is over, with one valid run of each cell, and that nothing else is left of it."""
    (folder,) = state.batches(place / "soak")
    assert (folder.batch.code, folder.batch.cause) == (SoakExit.ALL_VALID, "")
    attempts = folder.attempts()
    assert [it.number for it in attempts] == [*range(1, len(attempts) + 1)]
    valid = [it for it in attempts if it.outcome == "valid"]
    assert Counter(it.cell for it in valid) == {"a": 1, "b": 1}, attempts
    assert {it.outcome for it in attempts} <= {"valid", "killed", "stopped"}, attempts
    assert {it.run for it in valid} == {
        run.name for run in folder.path.iterdir() if run.is_dir() and run.name != "attempts" and run.suffix != PARTIAL
    }
    assert all(verify(folder.path / str(it.run)).seed == it.seed for it in valid)
    assert {"report.html", "junit.xml"} <= {file.name for file in folder.path.iterdir()}
    assert not outliving(leaks.marked(str(folder.path.resolve())))
    assert not state.is_held(place / "soak")
    assert not [*place.rglob(f"*{FRESH}")], "half a file"


def made(place: Path) -> Path:
    place.mkdir()
    (place / "plan.toml").write_text("rounds = 1\n" + HEAD + CELLS)
    return place


#: A nightly test ends a soak at every twelfth of its steps: all of them in one test would take longer than a test may.
EVERY = 12


def ended_from(first: int, number: signal.Signals, where: Path, every: int = EVERY) -> None:
    """End a soak with a signal at a step and at every so many after it, each in a folder of its own, and resume it."""
    code, steps = soaked(made(where / "undisturbed"))
    assert (code, steps.pop()) == (0, "0"), steps
    whole(where / "undisturbed")
    kinds = Counter(step.split()[1] for step in steps)
    assert kinds["supervise"] >= 2 * 3 and kinds["clean"] >= 4 and kinds["status"] and kinds["replace_file"] > 10, kinds
    for at in range(first, len(steps) + 1, every):
        place, told = made(where / f"{at}"), (number.name, at, steps[at - 1])
        code, printed = soaked(place, at, number)
        # A night that had ended well before the signal was seen has only its summary to come.
        assert code == -number if number == signal.SIGKILL else code == 0, (told, printed)
        for _ in range(2):
            folder = next(reversed(state.batches(place / "soak")), None)
            if folder and folder.batch.code == SoakExit.ALL_VALID:
                break
            code, printed = soaked(place)
            assert code == 0, (told, printed)
        summary = CliRunner().invoke(app, ["soak", "summary", str(place / "soak")])
        assert summary.exit_code == 0, (told, summary.output)
        whole(place)


def test_a_soak_that_is_killed_at_some_of_its_steps_is_resumed(soak_place: Path) -> None:
    ended_from(10, signal.SIGKILL, soak_place, every=20)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(1, 1 + EVERY))
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda it: it.name)
def test_a_soak_that_is_ended_at_any_step_is_resumed(soak_place: Path, number: signal.Signals, first: int) -> None:
    ended_from(first, number, soak_place)
