# SPDX-License-Identifier: Apache-2.0
"""A home, the victim and at least two applications next to it: what bulk flows, its update, do to every one of them.

Every member has its own phases: without bulk flows, with the update, and with the update and all other members. The
victim plays in all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from sojourn.scoring.schema.scores import METRICS, HomeFigure, Metrics, PhaseScores
from sojourn.scoring.statistics.harm import Better, harm
from sojourn.traffic.load import APPLICATIONS, CALL, GAME, VIDEO, WEB, LoadFlow, parse_load

VICTIM = "victim"
#: The figures of an application, and their better direction.
_FIGURES: Mapping[str, Mapping[str, Better]] = {
    WEB: {"web_fct_p50_s": "less", "web_fct_p95_s": "less"},
    CALL: {"call_down_p99_ms": "less", "call_up_p99_ms": "less"},
    GAME: {"game_in_16ms": "more", "game_in_50ms": "more"},
    VIDEO: {"second_height": "more"},
}
_LEAST_APPLICATIONS = 2


@dataclass(frozen=True)
class _HomePhase:
    """The scores of a phase, its update (`cubic*8`; empty without bulk flows) and its applications."""

    row: PhaseScores
    update: str
    applications: frozenset[str]


def home_figures(rows: Sequence[PhaseScores], baseline: Metrics, primary: str) -> list[HomeFigure]:
    """Return the figures of every member with every update; none without a home.

    `baseline` are the victim's figures alone, `primary` is its primary metric.
    """
    loads = [_load_of(row) for row in rows]
    members = [it for it in APPLICATIONS if any(it in load.applications for load in loads)]
    if len(members) < _LEAST_APPLICATIONS:
        return []
    found: list[HomeFigure] = []
    for update in dict.fromkeys(load.update for load in loads if load.update):
        with_update = [load for load in loads if load.update == update]
        better = METRICS[primary].better
        if better and (alone := getattr(baseline, primary)) is not None:
            found += _figure(VICTIM, primary, better, update, alone, "solo", _chosen(with_update, frozenset()))
        for member in members:
            without = [load for load in loads if not load.update and member in load.applications]
            if not (least := min(without, key=lambda load: len(load.applications), default=None)):
                continue
            chosen = _chosen([it for it in with_update if member in it.applications], frozenset({member}))
            for metric, direction in _FIGURES[member].items():
                value = getattr(least.row, metric)
                if value is not None:
                    found += _figure(member, metric, direction, update, value, least.row.name, chosen)
    return found


def _load_of(row: PhaseScores) -> _HomePhase:
    parts = parse_load(row.contender) if row.contender else ()
    bulk = Counter(map(_words, (part for part in parts if part.bulk)))
    update = "+".join(name if count == 1 else f"{name}*{count}" for name, count in bulk.items())
    return _HomePhase(row, update, frozenset(part.contender for part in parts if part.contender in APPLICATIONS))


def _words(flow: LoadFlow) -> str:
    return flow.contender + ("@up" if flow.up else "")


def _chosen(loads: Iterable[_HomePhase], own: frozenset[str]) -> tuple[PhaseScores | None, PhaseScores | None]:
    """Return the phase in which only `own` applications compete, and the one with most applications, if others do."""
    known = list(loads)
    only = next((load.row for load in known if load.applications == own), None)
    most = max(known, key=lambda load: len(load.applications), default=None)
    return only, most.row if most and most.applications > own else None


def _named(row: PhaseScores | None, metric: str) -> tuple[str | None, float | None]:
    """Return a phase's name and its value of a metric, None without."""
    value = None if row is None else getattr(row, metric)
    return (None, None) if row is None or value is None else (row.name, value)


def _figure(
    member: str, metric: str, better: Better, update: str, alone: float, phase: str,
    chosen: tuple[PhaseScores | None, PhaseScores | None],
) -> Iterator[HomeFigure]:  # fmt: skip
    (update_phase, only), (all_phase, every) = (_named(row, metric) for row in chosen)
    if only is None and every is None:
        return

    def harmed(value: float | None) -> float | None:
        return None if value is None or not isfinite(alone) else harm(alone, value, better)

    yield HomeFigure(
        member=member, metric=metric, better=better, update=update, alone_phase=phase, alone=alone,
        update_phase=update_phase, with_update=only, update_harm=harmed(only),
        all_phase=all_phase, with_all=every, all_harm=harmed(every),
    )  # fmt: skip
