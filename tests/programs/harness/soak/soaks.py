# SPDX-License-Identifier: Apache-2.0
"""A night of stand-in runs, in a moment; see soak_child.py for what its cells can be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from apps import SERVICES
from harness.soak import state
from harness.soak.loop import Soak, begin
from harness.soak.plan import read_plan
from harness.soak.state import Folder, Night

CHILD = (sys.executable, "-m", "tests.programs.harness.soak.soak_child")
HEAD = '[options]\ntimeline = "solo:10,prague:10,solo:10"\n'


def soak(
    place: Path, cells: str, top: str = "rounds = 1\n", most: int = 1, tell: Callable[[str], None] = print
) -> tuple[Folder, Night]:
    """Run or resume the night of a plan in `place`, `most` runs at once, and return it and how it ended."""
    (place / "plan.toml").write_text(top + HEAD + cells)
    plan = read_plan(place / "plan.toml", SERVICES)
    with state.held(plan.results):
        folder = begin(plan, 1)
        assert folder
        return folder, Soak(plan, folder, tell, child=CHILD, most=lambda _: most).run()
