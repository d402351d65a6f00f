# SPDX-License-Identifier: Apache-2.0
"""The ECN counters of a SCReAM call: what its browser reports, phase by phase."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.scoring.call_marks import COUNTERS, marks_log, marks_within


def lines(*counts: tuple[float, int]) -> list[dict[str, Any]]:
    """Return a second of statistics for every (time, count), with other events in between."""
    told = [{"t": t, "event": "call", "detail": {"marks": dict.fromkeys(COUNTERS.values(), n)}} for t, n in counts]
    return [{"t": 0, "height": 720}, *told, {"t": 9, "event": "camera", "detail": []}]


@pytest.mark.parametrize(
    ("windows", "grown"),
    [
        ([(2.0, 4.0)], 30),
        ([(2.5, 3.5)], 10),  # by the reports of 2 and 3 s
        ([(2.0, 3.0), (4.0, 5.0)], 10 + 40),
        ([(0.0, 5.0)], 70),  # what was sent before the first report is not of the window
        ([(4.0, 99.0)], 40),
        ([(50.0, 60.0)], 0),
    ],
)
def test_a_counter_grows_by_what_was_counted_in_the_windows(windows: list[tuple[float, float]], grown: int) -> None:
    log = marks_log(lines((1, 100), (2, 100), (3, 110), (4, 130), (5, 170)))
    assert log is not None and marks_within(log, windows) == dict.fromkeys(COUNTERS, grown)


def test_consecutive_phases_count_every_packet_once() -> None:
    log = marks_log(lines(*((0.4 + n, n * n) for n in range(12))))
    assert log is not None
    parts = [marks_within(log, [(a, a + 2.5)])["media_sent_ect1"] or 0 for a in (1.0, 3.5, 6.0)]
    assert sum(parts) == marks_within(log, [(1.0, 8.5)])["media_sent_ect1"] == 64 - 0


def test_a_counter_that_was_never_reported_is_unknown() -> None:
    told = [
        {"t": t, "event": "call", "detail": {"marks": {"packetsSentWithEct1": t, "ccfbMessagesReceived": None}}}
        for t in (1, 2)
    ]
    log = marks_log(told)
    assert log is not None
    assert marks_within(log, [(1, 2)]) == dict.fromkeys(COUNTERS, None) | {"media_sent_ect1": 1}


def test_a_call_without_feedback_has_no_log() -> None:
    assert (
        marks_log([{"t": 1, "event": "call", "detail": {"path": None}}, {"t": 2, "event": "camera", "detail": []}])
        is None
    )
