# SPDX-License-Identifier: Apache-2.0
"""A load is scored in the phase in which it began, by what it reached until that phase's end."""

from __future__ import annotations

from math import inf
from typing import Any

from sojourn.scoring.page_loads import compared, load_fields, page_loads

PHASES = {"solo": (100.0, 110.0), "cubic": (110.5, 120.0)}


def line(t: float, load_s: float | None, lcp_s: float | None = 0.5, until: float | None = None, **more: Any) -> Any:
    """Return what a run records of a load that began at `t` and loaded after `load_s`."""
    times = {
        "ttfb_ms": 60,
        "fcp_ms": 250.04,
        "lcp_ms": lcp_s and 1e3 * lcp_s,
        "dcl_ms": 240,
        "load_ms": load_s and 1e3 * load_s,
    }
    detail = {
        "page": 1,
        "url": "https://www.site1.test/p1/0.html",
        "requests": 7,
        "bytes": 900,
        "errors": 0,
        "failed": None,
    }
    return {"t": t, "event": "load", "detail": detail | times | {"until": until or t + (load_s or 20) + 0.3} | more}


def test_a_load_belongs_to_the_phase_in_which_it_began() -> None:
    lines = [{"t": 101.0, "event": "playing"}, line(99, 1), line(101, 1.25), line(110.2, 1), line(112, 2)]
    loads = page_loads(lines, PHASES, 100.0)
    assert [(it.t, it.phase) for it in loads] == [(-1, None), (1, "solo"), (10.2, None), (12, "cubic")]
    assert loads[1].load_ms == 1250 and loads[1].fcp_ms == 250.04 and loads[1].finished and loads[1].had_ms == 1550
    assert loads[1].requests == 7 and loads[1].bytes == 900 and loads[1].url.startswith("https://")


def test_the_phases_end_cuts_a_load_off() -> None:
    """It has loaded, but after the phase: what it reached in time stays, its largest paint included."""
    (load,) = page_loads([line(109.7, 0.9, 0.2)], PHASES, 100.0)
    assert not load.finished and load.load_ms is None and load.lcp_ms == 200
    assert load.fcp_ms == 250.04 and load.had_ms == 300
    (load,) = page_loads([line(109.9, 0.9)], PHASES, 100.0)
    assert load.fcp_ms is None and load.ttfb_ms == 60 and load.had_ms == 100


def test_a_page_that_the_user_left_had_the_time_until_then() -> None:
    (load,) = page_loads([line(101, None, 0.5, until=104)], PHASES, 100.0)
    assert not load.finished and load.had_ms == 3000 and load.load_ms is None


def test_the_fields_of_a_window() -> None:
    lines = [line(101, 1, 0.4), line(103, 3, 0.6), line(109, 9), line(111, 2, 1.5), line(113, 4, 2.5)]
    loads = page_loads(lines, PHASES, 100.0)
    alone, contended = load_fields(loads, [(0, 10)], 9), load_fields(loads, [(10.5, 20)], 9)
    assert (alone["page_loads"], alone["page_loads_unfinished"]) == (3, 1)
    assert (alone["lcp_p50_ms"], alone["load_p50_ms"]) == (500, 3000)
    assert (
        contended["page_loads_unfinished"] == 0
        and contended["lcp_p50_ms"] == 1500
        and contended["fcp_p50_ms"] == 250.04
    )
    assert load_fields(loads, [(0, 10), (10.5, 20)], 9)["page_loads"] == 5
    assert load_fields(loads, [(50, 60)], 9)["load_p50_ms"] is None


def test_a_p95_needs_20_loads() -> None:
    """Of fewer it is the slowest, and one load that the phase's end cuts off would make it infinite."""
    lines = [line(101 + n / 10, 1 + n / 100) for n in range(20)]
    few, enough = (load_fields(page_loads(lines[:count], PHASES, 100.0), [(0, 10)], 99) for count in (19, 20))
    assert (few["load_p50_ms"], few["load_p95_ms"]) == (1090, None)
    assert (enough["load_p50_ms"], enough["load_p95_ms"]) == (1090, 1180)
    (one,) = page_loads(lines[:1], PHASES, 100.0)
    assert load_fields([one], [(0, 10)], 9)["lcp_p50_ms"] == 500


def test_phases_are_compared_by_the_same_pages() -> None:
    # Alone, a third page, a light one, is opened; with the contender there is no time for it.
    lines = [line(101, 1.4, 1.3), line(104, 1.1, 0.9), line(107, 0.3, 0.2), line(111, 2.0, 1.9), line(115, 1.6, 1.5)]
    loads = page_loads(lines, PHASES, 100.0)
    first = compared(loads, [name for name, (begin, _) in PHASES.items() if begin > 105])
    assert first == 2
    alone, contended = load_fields(loads, [(0, 10)], first), load_fields(loads, [(10.5, 20)], first)
    assert (alone["page_loads"], alone["lcp_p50_ms"], contended["lcp_p50_ms"]) == (3, 900, 1500)
    assert compared(loads, ["no such phase"]) == 0


def test_a_page_that_failed_is_never_reached() -> None:
    loads = page_loads([line(101, 1), line(103, None, None, 103.1, fcp_ms=None, failed="no answer")], PHASES, 100.0)
    assert load_fields(loads, [(0, 10)], 9)["load_p50_ms"] == 1000
    fields = load_fields(loads, [(2, 10)], 9)
    assert fields["load_p50_ms"] == fields["fcp_p50_ms"] == inf


def test_a_baseline_that_begins_within_a_phase_has_the_same_pages_too() -> None:
    # After a contender, the first seconds of a solo phase are no baseline, and its first pages are not either.
    lines = [line(101, 1, 0.5), line(104, 1, 0.7), line(107, 1, 0.2), line(111, 2, 1.5), line(115, 2, 1.6)]
    loads = page_loads(lines, PHASES, 100.0)
    fields = load_fields(loads, [(3, 10)], 2)
    assert fields["page_loads"] == 2 and fields["lcp_p50_ms"] == 700


def test_a_paint_while_the_user_reads_counts() -> None:
    (load,) = page_loads([line(101, 1, 1.8, until=102.3)], PHASES, 100.0)
    assert load.lcp_ms == 1800 and load.had_ms == 1300
