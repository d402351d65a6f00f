# SPDX-License-Identifier: Apache-2.0
"""The progress of a batch, from its files alone: for terminal, page and summary."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from sojourn.hardware.machine.messages import printable
from sojourn.harness.soak.plan import PlanError, PlanFile, read_file, read_plan
from sojourn.harness.soak.rounds import expected_s, quarantined
from sojourn.harness.soak.state import PLAN, Attempt, BatchDirectory, is_held
from sojourn.harness.store.reasons import joined
from sojourn.harness.terminal import plain_table

_LAST = 10
#: The name of an exception before its message.
_ERROR = re.compile(r"^\w+Error: ")
#: The soak's memory is reported once it exceeds its first value by this share.
_GROWN = 0.10


@dataclass(frozen=True)
class CellStatus:
    """The results of a cell's runs."""

    name: str
    valid: int
    void: int
    failed: int
    quarantine: tuple[str, ...]
    """Why it is quarantined; empty if it is not."""
    last: str
    """The outcome of its last run, in words."""


@dataclass(frozen=True)
class Status:
    """The present state of a batch; times are Unix seconds."""

    folder: Path
    now: float
    phase: str
    begun: float
    until: float
    left_s: float
    round: int
    cells: tuple[CellStatus, ...]
    last: tuple[Attempt, ...]
    reasons: tuple[tuple[str, int], ...]
    """Why runs are invalid or failed, most frequent first; without measured values."""
    leaks: tuple[str, ...]
    memory: str
    pruned: int
    code: int | None

    def record(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return asdict(self) | {"folder": str(self.folder), "last": [attempt.model_dump() for attempt in self.last]}


def saved_plan(folder: BatchDirectory) -> PlanFile:
    """Return the plan of a batch, without checking that it still works. Raises PlanError."""
    return read_file(folder.path / PLAN)[1]


def status(folder: BatchDirectory) -> Status:
    """Return the state of a batch. Raises StateError, PlanError."""
    batch, attempts = folder.batch, folder.attempts()
    plan = saved_plan(folder)
    now = time.time()
    ended = [attempt for attempt in attempts if attempt.outcome != "running"]
    over = batch.ended is not None
    return Status(
        folder=folder.path,
        now=now,
        phase=_phase(folder, attempts, now),
        begun=batch.begun,
        until=batch.until,
        left_s=0.0 if over else max(0.0, batch.until - now),
        round=max((attempt.round for attempt in attempts), default=0),
        cells=tuple(_cell(plan, name, attempts) for name in plan.names),
        last=tuple(reversed(ended[-_LAST:])),
        reasons=tuple(counted_reasons(attempts).most_common()),
        leaks=tuple(f"run {attempt.number}: {leak}" for attempt in attempts for leak in attempt.leaks),
        memory=memory(attempts),
        pruned=len(batch.pruned),
        code=batch.code,
    )


def _phase(folder: BatchDirectory, attempts: Sequence[Attempt], now: float) -> str:
    batch = folder.batch
    if batch.ended is not None:
        return f"ended: {batch.cause}" if batch.cause else "ended"
    if not is_held(folder.path.parent):
        return "no soak is running here; it was killed" + ("" if now > batch.until else ", and can be resumed")
    if running := [attempt for attempt in attempts if attempt.outcome == "running"]:
        about = _expected(folder, attempts)
        return "; ".join(f"run {it.number}: {it.cell}, {now - it.begun:.0f} s{about(it.cell)}" for it in running)
    return "checking the lab"


def _expected(folder: BatchDirectory, attempts: Sequence[Attempt]) -> Callable[[str], str]:
    """Return a function that describes the expected time of a cell's runs."""
    try:
        plan = read_plan(folder.path / PLAN, folder=Path(folder.batch.plan_path).parent)
    except PlanError:  # a file that it names no longer exists
        return lambda _: ""
    return lambda cell: f" of about {expected_s(plan, plan.cell(cell), attempts):.0f} s"


def _cell(plan: PlanFile, name: str, attempts: Sequence[Attempt]) -> CellStatus:
    mine = [attempt for attempt in attempts if attempt.cell == name and attempt.outcome != "running"]
    counts = Counter(attempt.outcome for attempt in mine)
    last = joined(mine[-1].reasons) or mine[-1].headline or mine[-1].words if mine else ""
    return CellStatus(
        name,
        counts["valid"],
        counts["void"],
        counts["failed"] + counts["killed"],
        quarantined(plan, name, attempts),
        last,
    )


def counted_reasons(attempts: Sequence[Attempt]) -> Counter[str]:
    """Count why runs are invalid or failed, by the text before the first colon: the gate, or the error."""
    return Counter(
        kind
        for attempt in attempts
        if attempt.outcome in ("void", "failed", "killed")
        for kind in {_ERROR.sub("", reason.text).split(":")[0] for reason in attempt.reasons}
    )


def memory(attempts: Sequence[Attempt]) -> str:
    """Return the soak's memory, and whether it grows."""
    known = [attempt.memory_mb for attempt in attempts if attempt.memory_mb]
    if not known:
        return "unknown"
    grown = known[-1] / known[0] - 1
    return f"{known[-1]:.0f} MB" + (f", {grown:+.0%} since its first run: it grows" if grown > _GROWN else "")


def print_status(state: Status, console: Console) -> None:
    """Print a batch."""
    cells = plain_table("cell", "valid", "invalid", "failed", "last run")
    for cell in state.cells:
        last = Text(f"quarantined: {'; '.join(cell.quarantine)}", "red") if cell.quarantine else Text(cell.last)
        cells.add_row(Text(printable(cell.name)), *(str(count) for count in (cell.valid, cell.void, cell.failed)), last)
    console.print(Group(*(Text(printable(line)) for line in lines(state)), cells))
    for attempt in state.last[:3]:
        text = f"run {attempt.number}: {attempt.cell}: {attempt.words}: {attempt.run or 'no run'}"
        console.print(Text(printable(text)))


def lines(state: Status) -> list[str]:
    """Return the state of a batch other than its cells, one line each."""
    text_lines = [
        f"{state.folder}: {state.phase}",
        f"round {state.round}; until {clock(state.until)} UTC"
        + (f", {state.left_s / 3600:.1f} h left" if state.left_s else ""),
    ]
    if state.reasons:
        text_lines.append("invalid or failed: " + ", ".join(f"{reason} {count}×" for reason, count in state.reasons))
    text_lines += [f"left behind: {leak}" for leak in state.leaks]
    text_lines.append(
        f"memory of the soak: {state.memory}" + (f"; {state.pruned} files pruned" if state.pruned else "")
    )
    if free := next((attempt.free_gb for attempt in state.last if attempt.free_gb is not None), None):
        text_lines.append(f"disk of the results: {free:.1f} GB free after the last run")
    return text_lines


def clock(t: float) -> str:
    """Return a time as text."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(t))
