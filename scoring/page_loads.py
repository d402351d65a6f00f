# SPDX-License-Identifier: Apache-2.0
"""Loads of web pages: in which phase each began, whether it ended in it, and how long pages took to load.

A load that its phase's end cuts off is neither dropped nor counted as endless: it is a censored observation, which
lasted at least as long as it had (`sojourn.scoring.statistics.censored`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Any

from sojourn.scoring.schema.scores import PageLoad
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.censored import percentile

MILESTONES = "ttfb", "fcp", "lcp", "dcl", "load"
"""First byte, first and largest contentful paint, DOMContentLoaded, load; from the start of the navigation."""
#: The percentiles, and the fewest loads for them: the P95 of fewer than 20 is the slowest load.
_PERCENTS = {50: 1, 95: 20}
_SCORED = "fcp", "lcp", "load"


def page_loads(lines: Iterable[Mapping[str, Any]], phases: Mapping[str, Window], t0: float) -> list[PageLoad]:
    """Return every load of a run, in order of time; `phases` are Unix s by name, `t0` is the zero of the scores' times.

    A load belongs to the phase in which it began, and has the milestones that it reached by that phase's end. The
    largest paint of a page that has not loaded is the last one that is known, as in CrUX and HTTP Archive.
    """
    loads = []
    for line in lines:
        if line.get("event") != "load":
            continue
        start, detail = line["t"], line["detail"]
        name = next((name for name, (a, b) in phases.items() if a <= start < b), None)
        left = (phases[name][1] if name else inf) - start
        had = min(left, detail["until"] - start)
        times = {f"{it}_ms": ms for it in MILESTONES if (ms := detail[f"{it}_ms"]) is not None and ms <= 1e3 * left}
        loads.append(
            PageLoad(
                t=round(start - t0, 6),
                phase=name,
                page=detail["page"],
                url=detail["url"],
                bytes=detail["bytes"],
                requests=detail["requests"],
                errors=detail["errors"],
                failed=detail["failed"],
                had_ms=round(1e3 * had, 3),
                finished="load_ms" in times,
                **times,
            )
        )
    return loads


def compared(loads: Iterable[PageLoad], contended: Collection[str]) -> int:
    """Return how many loads of every phase are compared; `contended` are the names of the phases with a contender.

    All phases have the same pages in the same order, and where pages load slower a phase opens fewer: times over all
    of its loads would be those of other pages.
    """
    begun = Counter(load.phase for load in loads if load.phase)
    alone = max((count for phase, count in begun.items() if phase not in contended), default=0)
    return min([alone, *(begun[phase] for phase in contended)])


def load_fields(loads: Sequence[PageLoad], windows: Sequence[Window], first: int) -> dict[str, Any]:
    """Return the fields of `Metrics` over the loads that began within these windows, both by the scores' zero (s).

    Only the `first` loads of every phase count for times, see `compared`.
    """
    inside, timed, opened = [], [], Counter[str | None]()
    for load in loads:
        opened[load.phase] += 1  # also outside the windows: those of a baseline may begin within a phase
        if any(a <= load.t < b for a, b in windows):
            inside.append(load)
            if opened[load.phase] <= first:
                timed.append(load)
    values: dict[str, Any] = {
        "page_loads": len(inside),
        "page_loads_unfinished": sum(not load.finished for load in inside),
    }
    for name in _SCORED:
        seen = [observed(load, name) for load in timed]
        values |= {
            f"{name}_p{percent}_ms": percentile(seen, percent) if len(seen) >= fewest else None
            for percent, fewest in _PERCENTS.items()
        }
    return values


def observed(load: PageLoad, milestone: str) -> tuple[float, bool]:
    """Return the time in ms until a load reached a milestone, and True; or the time that it had for it, and False.

    A page that could not be loaded never reaches it.
    """
    reached: float | None = getattr(load, f"{milestone}_ms")
    if reached is not None:
        return reached, True
    return (inf if load.failed else load.had_ms), False
