# SPDX-License-Identifier: Apache-2.0
"""The responsiveness of new connections in a window, from what a run recorded, and a competing test's result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.scoring.packets import latency
from sojourn.scoring.responsiveness import foreign_fields, frame, result_fields
from sojourn.scoring.schema import records
from sojourn.scoring.schema.records import RecordError


def line(t: float, *times: float | None, probe: str = "foreign") -> dict[str, Any]:
    tcp, tls, http = (*times, None, None, None)[:3]
    return {"probe": probe, "t": t, "port": 40_000, "tcp_ms": tcp, "tls_t": t, "tls_ms": tls, "http_t": t,
            "http_ms": http}  # fmt: skip


def test_a_window_has_the_probes_that_began_in_it() -> None:
    probes = frame([line(2, 20, 20, 20), line(1, 20, 20.5, 19.5), line(9, 400, 400, 400)])
    assert probes["t"].to_list() == [1, 2, 9]
    alone = foreign_fields(latency.within(probes, [(0, 5)]))
    assert alone == {
        "foreign_rpm": pytest.approx(3000), "foreign_tcp_ms": 20, "foreign_tls_ms": 20.25, "foreign_http_ms": 19.75,
        "foreign_answered_share": 1,
    }  # fmt: skip
    assert foreign_fields(latency.within(probes, [(5, 10)]))["foreign_rpm"] == 150


def test_unanswered_probes_count_in_their_share_alone() -> None:
    fields = foreign_fields(frame([line(1, 20, 20, 20), line(2, 20, 20), line(3), line(4, 20), line(5, 20, 20, 20)]))
    assert fields["foreign_rpm"] == 3000 and fields["foreign_answered_share"] == 0.4


def test_probes_under_way_at_the_end_are_not_unanswered() -> None:
    """The slowest answered one took 1.5 s: those of the last 1.5 s could still have been answered."""
    slow = line(1, 500, 500, 500)
    fields = foreign_fields(frame([slow, line(2, 20, 20, 20), line(8), line(9, 20), line(10)]))
    assert fields["foreign_answered_share"] == pytest.approx(2 / 3)
    assert foreign_fields(latency.within(frame([slow, *map(line, range(5, 11))]), [(5, 11)]))["foreign_rpm"] == 0


def test_nothing_answered_is_no_responsiveness_and_nothing_sent_is_no_figure() -> None:
    assert foreign_fields(frame([line(1), line(2)])) == {
        "foreign_rpm": 0, "foreign_tcp_ms": None, "foreign_tls_ms": None, "foreign_http_ms": None,
        "foreign_answered_share": 0,
    }  # fmt: skip
    assert set(foreign_fields(frame([])).values()) == {None}


def test_self_probes_are_not_foreign() -> None:
    assert frame([line(1, probe="self")]).height == 0


def test_a_test_reports_both_kinds_apart() -> None:
    result = {"Responsiveness": 800.0, "Foreign_Responsiveness": 1500.0, "Loaded_Responsiveness": 100.0}
    records = [{"contender": "cubic"}, {"contender": "rpm", "responsiveness": result}]
    assert result_fields(records) == {"test_rpm": 800, "test_foreign_rpm": 1500, "test_self_rpm": 100}
    assert result_fields([{"contender": "rpm", "responsiveness": None}]) == {} == result_fields([])


@pytest.mark.parametrize("wrong", [{"tcp_ms": -1}, {"t": "now"}, {"probe": "other"}, {"http_ms": float("nan")}])
def test_a_damaged_line_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (file := tmp_path / "rpm.jsonl").write_text(json.dumps(line(1, 20, 20, 20) | wrong) + "\n")
    with pytest.raises(RecordError, match=r"rpm\.jsonl"):
        records.read_lines(file, records.RPM)
