# SPDX-License-Identifier: Apache-2.0
"""A run of web pages is valid if pages were opened in every phase, and were late rather than wrong."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.scoring.gates.baseline import pages_alone
from sojourn.scoring.gates.pages import loads_begun, loads_whole
from sojourn.scoring.schema.scores import PageLoad


def load(phase: str | None, **more: Any) -> PageLoad:
    known = {"t": 1, "page": 1, "url": "https://a.test/", "requests": 9, "bytes": 100, "had_ms": 900, "finished": True}
    return PageLoad.model_validate(known | {"phase": phase} | more)


def test_every_phase_needs_a_load() -> None:
    loads = [load("solo"), load(None), load("cubic", finished=False)]
    assert loads_begun(loads, ["solo", "cubic"]).ok
    judged = loads_begun(loads, ["solo", "cubic", "solo-2"])
    assert not judged.ok and "none in solo-2" in judged.reason


def test_a_page_that_is_late_is_valid_and_one_that_fails_is_not() -> None:
    assert loads_whole([load("solo"), load("cubic", finished=False)]).ok
    failed = loads_whole([load("solo"), load("cubic", failed="the browser shows an error page")])
    assert not failed.ok and "1 of 2" in failed.reason and "error page" in failed.reason
    assert not loads_whole([load("solo", errors=1)]).ok


@pytest.mark.parametrize(
    ("begun", "unfinished", "ok"), [(0, 0, False), (1, 0, True), (1, 1, False), (4, 2, True), (5, 3, False)]
)
def test_alone_half_of_the_pages_must_load(begun: int, unfinished: int, ok: bool) -> None:
    judged = pages_alone("solo-baseline", {"page_loads": begun, "page_loads_unfinished": unfinished})
    assert judged.ok is ok and (ok or "baseline is disturbed" in judged.reason)
    assert not pages_alone("first-solo-phase", {}).ok
