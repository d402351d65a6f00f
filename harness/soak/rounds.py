# SPDX-License-Identifier: Apache-2.0
"""The next run: cells in a random order per round, retries of invalid runs, no quarantined cells."""

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
    """The next run: its cell, its round and its attempt in that round (both from 1)."""

    cell: PlannedCell
    round: int
    attempt: int


def order(plan: SoakPlan, seed: int, round: int) -> list[PlannedCell]:
    """Return the cells in the order of a round."""
    return random.Random(f"{seed} {round}").sample(plan.cells, len(plan.cells))


def next_run(plan: SoakPlan, seed: int, attempts: Sequence[Attempt]) -> ScheduledRun | None:
    """Return the next run after `attempts`; None if all rounds are over or every cell is quarantined."""
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


def next_runs(
    plan: SoakPlan, seed: int, attempts: Sequence[Attempt], most: Callable[[PlannedCell], int]
) -> list[ScheduledRun]:
    """Return the next concurrent runs: as many as `next_run` would give in a row if all were valid.

    They use one engine, in simulated time, and are at most `most` of the first; empty if nothing is left.
    """
    first = next_run(plan, seed, attempts)
    if first is None:
        return []
    runs, made, width = [first], list(attempts), most(first.cell)
    while len(runs) < width:
        due = runs[-1]
        made.append(
            Attempt(number=0, round=due.round, cell=due.cell.name, seed=seed + due.round - 1, begun=0, outcome="valid")
        )
        following = next_run(plan, seed, made)
        if following is None or not _can_be_concurrent(first.cell, following.cell):
            break
        runs.append(following)
    return runs


def _can_be_concurrent(first: PlannedCell, other: PlannedCell) -> bool:
    """Whether runs of two cells can be concurrent."""
    return first.options.lab == other.options.lab == "sim" and first.options.engine == other.options.engine


def quarantined(plan: PlanFile, cell: str, attempts: Iterable[Attempt]) -> tuple[str, ...]:
    """Return why a cell is quarantined: the reasons of its last runs, none of them valid; empty if it is not."""
    mine = [attempt for attempt in attempts if attempt.cell == cell and attempt.outcome not in ("stopped", "running")]
    last = mine[-plan.quarantine :]
    if len(last) < plan.quarantine or any(attempt.outcome == "valid" for attempt in last):
        return ()
    texts = dict.fromkeys(reason.text for attempt in last for reason in attempt.reasons)
    return tuple(texts) or ("no reason is known",)


def expected_s(plan: SoakPlan, cell: PlannedCell, attempts: Iterable[Attempt]) -> float:
    """Return the expected time of the next run of `cell` from its valid runs, s; a guess before the first.

    Not less than its phases nor more than its limit: a clock that was set, or a suspended host, is in those times too.
    """
    known = [
        attempt.ended - attempt.begun
        for attempt in attempts
        if attempt.cell == cell.name and attempt.ended and attempt.outcome == "valid"
    ]
    return min(max(median(known) if known else cell.expected_s, cell.phases_s), plan.limit_s(cell))
