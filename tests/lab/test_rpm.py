# SPDX-License-Identifier: Apache-2.0
"""RPM of new connections through bottlenecks of known delay, in simulated time, against arithmetic and irtt."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sojourn.scoring.packets import latency
from sojourn.scoring.responsiveness import foreign_fields, frame
from sojourn.scoring.schema import records
from sojourn.traffic.responsiveness import trimmed_mean
from sojourn.traffic.rpm_programs import PROBES_FILE
from tests.lab import rpm_inside
from tests.lab.inside import run_inside
from tests.lab.rpm_inside import EVERY_S, PACKETS, QUEUES, RATE_BPS, RTT_MS

pytestmark = pytest.mark.lab
PARTS = ("foreign_tcp_ms", "foreign_tls_ms", "foreign_http_ms")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rpm")
    run_inside(Path(rpm_inside.__file__), folder)
    return folder


def window(folder: Path, queue: str, load: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The foreign probes, and those of irtt, in one window."""
    span = [tuple(json.loads((folder / "told.json").read_text())[queue][load])]
    probes = frame(records.read_lines(folder / PROBES_FILE, records.RPM))
    return latency.within(probes, span), latency.within(latency.read_irtt(folder / "irtt.json.gz"), span)


@pytest.mark.parametrize("queue", QUEUES)
def test_an_idle_path_has_a_round_trip_per_part(measured: Path, queue: str) -> None:
    probes, _ = window(measured, queue, "alone")
    assert probes.height == pytest.approx((rpm_inside.ALONE_S - 0.5) / EVERY_S, abs=1)
    fields = foreign_fields(probes)
    # Computing takes no time, and the shaper sends a few packets at once.
    assert all(fields[part] == pytest.approx(RTT_MS, rel=0.002) for part in PARTS)
    assert fields["foreign_rpm"] == pytest.approx(60_000 / RTT_MS, rel=0.002) and fields["foreign_answered_share"] == 1


def test_a_deep_queue_costs_each_part_its_delay(measured: Path) -> None:
    probes, echoes = window(measured, "deep", "loaded")
    fields, wait_ms = foreign_fields(probes), trimmed_mean(echoes["rtt_ms"].drop_nulls())
    full_ms = PACKETS * 1514 * 8 / RATE_BPS * 1e3
    assert wait_ms and full_ms / 2 < wait_ms - RTT_MS < full_ms
    assert all(fields[part] == pytest.approx(wait_ms, rel=0.1) for part in PARTS)
    assert fields["foreign_rpm"] == pytest.approx(60_000 / wait_ms, rel=0.1)


def test_dualpi2_keeps_new_connections_fast(measured: Path) -> None:
    deep, l4s = (foreign_fields(window(measured, queue, "loaded")[0])["foreign_rpm"] or 0 for queue in QUEUES)
    # RFC 9332's target for C is 15 ms: 35 ms a round trip, 1700 RPM.
    assert l4s > 1000 and l4s > 5 * deep


def test_the_drafts_test_finds_both_kinds_as_slow_in_a_shared_queue(measured: Path) -> None:
    record = json.loads((measured / "told.json").read_text())["test"]
    records.BULK.validate_python({"flows": [record]})
    result = record["responsiveness"]
    # One connection more every 5 s, until the goodput and then the responsiveness are stable.
    assert [it["connections"] for it in result["intervals"]][:8] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert result["confidence"]["goodput"] == "High" and result["confidence"]["responsiveness"] != "Low"
    assert 0.75 * RATE_BPS < result["goodput_bps"] < RATE_BPS
    full_ms = PACKETS * 1514 * 8 / RATE_BPS * 1e3
    assert all(full_ms / 2 < result[part] - RTT_MS < 1.2 * full_ms for part in ("TM(tcp_f)", "TM(tls_f)", "TM(http_f)"))
    # A self probe also waits for what its sender has not sent yet, 5 ms at its rate, and for what was lost before it.
    assert full_ms / 2 < result["TM(http_l)"] - RTT_MS < 3 * full_ms
    assert result["Responsiveness"] == pytest.approx(
        (result["Foreign_Responsiveness"] + result["Loaded_Responsiveness"]) / 2, abs=0.01
    )
    kinds = [it["probe"] for it in record["probes"]]
    assert kinds.count("self") == pytest.approx(kinds.count("foreign"), abs=50)
