# SPDX-License-Identifier: Apache-2.0
"""A night of stand-in runs, in a moment; see soak_child.py for what its cells can be."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest

from sojourn.harness.soak import loop, state
from sojourn.harness.soak.loop import Soak, begin
from sojourn.harness.soak.plan import read_plan
from sojourn.harness.soak.state import Batch, BatchDirectory
from sojourn.harness.soak.supervise import Ended
from sojourn.harness.store.reasons import Reason
from tests.programs.harness.soak import soak_child

CHILD = (sys.executable, "-m", "tests.programs.harness.soak.soak_child")
HEAD = '[options]\ntimeline = "solo:10,prague:10,solo:10"\n'


def soak(
    place: Path, cells: str, top: str = "rounds = 1\n", most: int = 1, tell: Callable[[str], None] = print,
    *, processes: bool = False,
) -> tuple[BatchDirectory, Batch]:  # fmt: skip
    """Run or resume the night of a plan in `place`, `most` runs at once, and return it and how it ended.

    Runs are calls in this process, or `processes` of their own: those that hang, leak or go side by side.
    """
    (place / "plan.toml").write_text(top + HEAD + cells)
    plan = read_plan(place / "plan.toml")
    with state.held(plan.results), in_this_process(not processes):
        folder = begin(plan, 1)
        assert folder
        return folder, Soak(plan, folder, tell, child=CHILD, most=lambda _: most).run()


@contextmanager
def in_this_process(here: bool = True) -> Iterator[None]:
    """Have stand-in runs be calls and no processes, which take a second each to begin."""
    with pytest.MonkeyPatch.context() as patch:
        if here:
            patch.setattr(loop, "supervise", _call)
        yield


def _call(command: Sequence[str], log: Path, **_: object) -> Ended:
    """Return what `supervise` does of a stand-in that ends by itself."""
    what, task_text = command[len(CHILD) :]
    error, said = "", io.StringIO()
    try:
        with redirect_stdout(said):
            soak_child.main(what, task_text)
    except SystemExit as ended:
        error = str(ended.code)
    with log.open("a") as file:
        file.write(error)
    return Ended(Reason.of("failed", error) if error else None, said.getvalue().strip())
