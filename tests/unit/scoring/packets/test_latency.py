# SPDX-License-Identifier: Apache-2.0
"""irtt's JSON and the curves made from it."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sojourn.scoring.packets import latency

# Two round trips as irtt 0.9.0 wrote them: one lost on its way up, one answered.
ROUND_TRIPS = """
[{"seqno": 184, "lost": "true_up", "timestamps": {"client": {"receive": {}, "send":
{"wall": 1795273899663777355, "monotonic": 2014238579}}, "server": {"receive": {},
"send": {}}}, "delay": {}, "ipdv": {}},
{"seqno": 2, "lost": "false", "timestamps": {"client": {"receive": {"wall": 1795273897684364515, "monotonic":
34825759}, "send": {"wall": 1795273897684191477, "monotonic": 34652701}}, "server": {"receive": {"wall":
1795273897684300990, "monotonic": 829990683}, "send": {"wall": 1795273897684309814, "monotonic": 829999487}}},
"delay": {"receive": 54701, "rtt": 164254, "send": 109513},
"ipdv": {"receive": 4116, "rtt": 7060, "send": 2944}}]
"""


@pytest.mark.parametrize("name", ["irtt.json", "irtt.json.gz"])
def test_reads_answered_and_lost_probes(tmp_path: Path, name: str) -> None:
    raw = json.dumps({"round_trips": json.loads(ROUND_TRIPS)}).encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    probes = latency.read_irtt(tmp_path / name)
    assert probes["rtt_ms"].to_list() == [None, pytest.approx(0.164254)]
    assert probes["t"][1] == pytest.approx(1795273897.684191, abs=1e-6)
    assert latency.loss(probes) == 0.5


def test_the_way_down_alone(tmp_path: Path) -> None:
    """What was lost on its way up was never sent down; a reply counts from when the server sent it."""
    trips = json.loads(ROUND_TRIPS)
    lost = json.loads(json.dumps(trips[1])) | {"lost": "true_down", "delay": {}}
    (tmp_path / "irtt.json").write_text(json.dumps({"round_trips": [*trips, lost]}))
    down = latency.read_irtt_down(tmp_path / "irtt.json")
    assert down["delay_us"].to_list() == [pytest.approx(54.701), None]
    assert down["t"][0] == pytest.approx(1795273897.68430981, abs=1e-6)


@pytest.mark.parametrize("ahead_s", [0.03, -0.03, 300.0])
def test_the_way_down_by_the_clients_clock(tmp_path: Path, ahead_s: float) -> None:
    """A lost reply without the server's time is at the client's already."""
    trips = json.loads(ROUND_TRIPS)
    lost = json.loads(json.dumps(trips[0])) | {"lost": "true"}
    (tmp_path / "irtt.json").write_text(json.dumps({"round_trips": [trips[1], lost]}))
    same = latency.read_irtt_down(tmp_path / "irtt.json")
    stamps, delay = trips[1]["timestamps"]["server"], trips[1]["delay"]
    stamps["send"]["wall"] += round(ahead_s * 1e9)
    delay["receive"] -= round(ahead_s * 1e9)
    (tmp_path / "irtt.json").write_text(json.dumps({"round_trips": [trips[1], lost]}))
    assert latency.read_irtt_down(tmp_path / "irtt.json", ahead_s).equals(same)
    (delay_us,) = latency.read_irtt_down(tmp_path / "irtt.json")["delay_us"].drop_nulls()
    assert delay_us == pytest.approx(54.701 - 1e6 * ahead_s)


CUT_SHORT = gzip.compress(b"{}" * 99, mtime=0)[:20]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"round_trips": [{"seqno": 1}]}', CUT_SHORT])
def test_a_broken_log_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / ("irtt.json.gz" if content[:2] == b"\x1f\x8b" else "irtt.json")
    file.write_bytes(content)
    with pytest.raises(latency.ProbeError, match=r"irtt\.json"):
        latency.read_irtt(file)


def probes(rtt: list[float | None]) -> pl.DataFrame:
    return pl.DataFrame(
        {"t": [i / 100 for i in range(len(rtt))], "rtt_ms": rtt}, schema_overrides={"rtt_ms": pl.Float64}
    )


def test_two_percent_at_x_means_98_percent_lie_below() -> None:
    x, above = latency.ccdf(probes([float(i) for i in range(1, 1001)]))
    assert above[np.searchsorted(x, 980.0)] == pytest.approx(2.0)
    assert (x[-1], above[-1]) == (1000.0, 0.0)
    assert np.all(np.diff(x) > 0) and np.all(np.diff(above) < 0)


def test_every_point_of_the_curve_is_exact_and_it_stays_small() -> None:
    rtt = np.random.default_rng(1).gamma(2, 10, 42_000).round(3)
    x, above = latency.ccdf(probes(rtt.tolist()))
    assert len(x) <= len(latency._TAILS) < 250
    assert all(p == pytest.approx((rtt > v).mean() * 100) for v, p in zip(x, above, strict=True))


def test_percentiles_are_samples_and_windows_are_cut() -> None:
    table = probes([10.0, 20.0, None, 30.0])
    assert [latency.percentile(table, percent) for percent in (25, 50, 75)] == [10, 20, 30]
    assert latency.largest(table) == 30
    assert latency.within(table, [(0.0, 0.01), (0.03, 1.0)])["rtt_ms"].to_list() == [10, 30]
    assert latency.percentile(probes([]), 50) is None and latency.loss(probes([])) is None


def test_what_is_lost_is_infinitely_late() -> None:
    """A queue that loses 2 % has no 99th percentile, however soon the others came."""
    table = probes([*(float(n) for n in range(98)), None, None])
    assert [latency.percentile(table, percent) for percent in (50, 98, 99, 99.9)] == [49, 97, math.inf, math.inf]
    x, above = latency.ccdf(table)
    assert (x[-1], above[-1]) == (97, 2) and above[np.searchsorted(x, 47.0)] == 52
    assert latency.percentile(probes([None]), 50) == math.inf
    assert latency.largest(probes([None])) is None and not latency.ccdf(probes([None]))[0].size


def test_a_probe_under_way_at_the_end_is_not_lost() -> None:
    probes = pl.DataFrame({"t": [1.0, 1.05, 1.1, 1.15], "rtt_ms": [20.0, None, 20.0, None]})
    assert latency.loss(probes) == 0.5
    assert latency.answerable(probes, 0.04)["t"].to_list() == [1.0, 1.05, 1.1]
    assert latency.answerable(probes, 0.2)["t"].to_list() == [1.0, 1.1]
