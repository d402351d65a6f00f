# SPDX-License-Identifier: Apache-2.0
"""Sojourn times found in two captures against what the queues themselves tell, sample by sample."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sojourn.scoring.packets import pcapng, per_flow, queue_delay, sojourn

pytestmark = pytest.mark.lab

#: A packet's time on the wire into the queue; dualpi2's clock has steps of about a microsecond, too.
AGREE_MS = 0.01


def waits(run: Path) -> pl.DataFrame:
    """By its packets, when what went through the bottleneck came into its queue and left it, Unix s."""
    lab = json.loads((run / "lab.json").read_text())
    before, behind = (pcapng.read(run / f"{side}.pcapng.zst").packets for side in ("server", "client"))
    here = [per_flow.address(lab["addresses"][name]) for name in ("client", "receiver")]
    shaped = (pl.col("sport") != lab["ports"]["irtt_unshaped"]) & pl.col("dst").is_in(here)
    found = sojourn.crossings(before.filter(shaped), behind, lab["delay_down_ms"])
    assert found["sojourn_ms"].null_count() / found.height < 0.1
    entered = pl.col("t") + lab["delay_down_ms"] / 1e3
    return found.drop_nulls("sojourn_ms").with_columns(entered=entered, left=entered + pl.col("sojourn_ms") / 1e3)


def told(run: Path, contender: str, until: object) -> pl.DataFrame:
    """What the queues told while a contender was there, up to the last packet that is known on both sides."""
    samples = [said for said in map(json.loads, (run / "qdisc.jsonl").open()) if said["dev"] == "lan"]
    phases = json.loads((run / "timeline.json").read_text())["phases"]
    (phase,) = (phase for phase in phases if phase["contender"] == contender)
    during = pl.col("t").is_between(phase["start"] + 1, phase["end"]) & (pl.col("t") < until)
    return queue_delay.delays(samples).filter(during).sort("t")


def check(found: pl.DataFrame) -> None:
    """Where there was a queue most samples agree: a packet may be lost, or stand between the queue and the capture."""
    busy = found.filter(pl.max_horizontal("sojourn_ms", "by_packets_ms") > 0)
    apart = (busy["sojourn_ms"] - busy["by_packets_ms"]).abs()
    assert busy.height >= 8 and apart.quantile(0.75) < AGREE_MS, busy


@pytest.mark.parametrize("contender", ["cubic", "prague"])
def test_fq_codel_tells_of_the_packet_that_left_last(harm_run: Path, contender: str) -> None:
    left = waits(harm_run).select("left", by_packets_ms="sojourn_ms").sort("left")
    check(told(harm_run, contender, left["left"].max()).join_asof(left, left_on="t", right_on="left"))


@pytest.mark.parametrize("fixture", ["l4s_run", pytest.param("ipv6_run", marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("contender", "queue"), [("cubic", "C"), ("prague", "L")])
def test_dualpi2_tells_of_the_packet_that_leaves_next(
    request: pytest.FixtureRequest, fixture: str, contender: str, queue: str
) -> None:
    run: Path = request.getfixturevalue(fixture)
    inside = waits(run).filter(queue=queue)
    said = told(run, contender, inside["entered"].max()).filter(queue=queue)
    heads = [inside.filter(pl.col("entered") <= t, pl.col("left") > t)["entered"].min() for t in said["t"]]
    by_packets = [0.0 if head is None else (t - head) * 1e3 for t, head in zip(said["t"], heads, strict=True)]
    check(said.with_columns(by_packets_ms=pl.Series(by_packets)))
