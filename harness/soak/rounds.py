# SPDX-License-Identifier: Apache-2.0
"""What to run next: cells in a random order each round, void runs again, cells that keep failing not at all."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from sojourn.harness.soak.plan import PlanFile, PlannedCell, SoakPlan
from sojourn.harness.soak.state import Attempt


@dataclass(frozen=True)
class ScheduledRun:
    """The next run: its cell, its round and which try of it in that round it is (both from 1 on)."""

    cell: PlannedCell
    round: int
    attempt: int


def order(plan: SoakPlan, seed: int, round: int) -> list[PlannedCell]:
    """Return the cells in the order of a round."""
    return random.Random(f"{seed} {round}").sample(plan.cells, len(plan.cells))


def next_run(plan: SoakPlan, seed: int, attempts: Sequence[Attempt]) -> ScheduledRun | None:
    """Return what is to be run after `attempts`; None when all rounds are over or every cell is in quarantine."""
    counted = [attempt for attempt in attempts if attempt.outcome != "stopped"]
    left_out = {cell.name for cell in plan.cells if quarantined(plan.file, cell.name, counted)}
    if len(left_out) == len(plan.cells):
        return None
    for round in itertools.count(1):
        if plan.file.rounds and round > plan.file.rounds:
            return None
        for cell in order(plan, seed, round):
            mine = (it for it in counted if (it.cell, it.round) == (cell.name, round))
            tried = [it.outcome for it in mine if it.outcome != "killed"]
            if cell.name not in left_out and "valid" not in tried and len(tried) <= plan.file.retries:
                return ScheduledRun(cell, round, len(tried) + 1)
    return None


def next_batch(
    plan: SoakPlan, seed: int, attempts: Sequence[Attempt], most: Callable[[PlannedCell], int]
) -> list[ScheduledRun]:
    """Return what is to be run next, side by side: as many runs as `next_run` gives in a row if each is valid.

    They are for one engine, in simulated time, and no more than `most` says of the first; empty when nothing is left.
    """
    first = next_run(plan, seed, attempts)
    if first is None:
        return []
    batch, made, width = [first], list(attempts), most(first.cell)
    while len(batch) < width:
        due = batch[-1]
        made.append(
            Attempt(number=0, round=due.round, cell=due.cell.name, seed=seed + due.round - 1, begun=0, outcome="valid")
        )
        following = next_run(plan, seed, made)
        if following is None or not _beside(first.cell, following.cell):
            break
        batch.append(following)
    return batch


def _beside(first: PlannedCell, other: PlannedCell) -> bool:
    """Tell whether runs of two cells do not mind each other."""
    return first.options.lab == other.options.lab == "sim" and first.options.engine == other.options.engine


def quarantined(plan: PlanFile, cell: str, attempts: Iterable[Attempt]) -> tuple[str, ...]:
    """Return why a cell is left out: the reasons of its last runs, none of them valid; empty when it is not."""
    mine = [attempt for attempt in attempts if attempt.cell == cell and attempt.outcome not in ("stopped", "running")]
    last = mine[-plan.quarantine :]
    if len(last) < plan.quarantine or any(attempt.outcome == "valid" for attempt in last):
        return ()
    return tuple(dict.fromkeys(reason for attempt in last for reason in attempt.reasons)) or ("no reason is known",)


def expected_s(plan: SoakPlan, cell: PlannedCell, attempts: Iterable[Attempt]) -> float:
    """Return how long the next run of `cell` takes by its valid ones, s; a guess before the first.

    Not less than its phases nor more than its limit: a clock that was set, or a suspended host, is in those times too.
    """
    known = [
        attempt.ended - attempt.begun
        for attempt in attempts
        if attempt.cell == cell.name and attempt.ended and attempt.outcome == "valid"
    ]
    return min(max(median(known) if known else cell.expected_s, cell.phases_s), plan.limit_s(cell))
