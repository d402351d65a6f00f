# SPDX-License-Identifier: Apache-2.0
"""Time series and complementary distributions (CCDF) of a run, and the sojourn times of its packets."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import polars as pl

from sojourn.scoring.metrics import Observations
from sojourn.scoring.packets import latency, per_flow, sojourn
from sojourn.scoring.picture import freezes, rendition
from sojourn.scoring.schema.scores import OWN, Curve, Sojourn, TimeSeries
from sojourn.scoring.schema.windows import Window, edges
from sojourn.traffic.probes import PROBES

_PERCENTS = (("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99))


def sojourn_times(
    before: pl.DataFrame,
    behind: pl.DataFrame,
    own: pl.DataFrame,
    lab: Mapping[str, Any],
    phases: Mapping[str, Window],
    solo: list[Window],
) -> tuple[list[Sojourn], list[Curve]]:
    """Return rows and curves of every sender's downlink sojourn times, per phase and queue; curves of the baseline too.

    `own` are the queue's own delays (sojourn.scoring.packets.queue_delay), which get rows and curves too.
    """
    table, alike = crossings_down(before, behind, lab)
    rows, curves = [], []
    for name, windows in ({phase: [window] for phase, window in phases.items()} | {"solo": solo}).items():
        inside, own_samples, same = (latency.within(part, windows) for part in (table, own, alike))
        for suffix, source in (("", inside), (OWN, own_samples)):
            for (queue,), part in source.sort("queue").group_by("queue", maintain_order=True):
                x, above = latency.ccdf(part, "sojourn_ms")
                label = f"{name} {queue}{suffix}"
                curves.append(Curve(name=label, ms=x.tolist(), percent=above.tolist(), probes=part.height))
        if name not in phases:
            continue
        own_samples = own_samples.with_columns(of=pl.lit("qdisc"))
        for (of, queue), part in [
            *inside.sort("of", "queue").group_by("of", "queue", maintain_order=True),
            *own_samples.sort("queue").group_by("of", "queue", maintain_order=True),
        ]:
            row: dict[str, Any] = {"phase": name, "of": of, "queue": queue, "packets": part.height}
            row |= {field: latency.percentile(part, percent, "sojourn_ms") for field, percent in _PERCENTS}
            row |= {"max_ms": latency.largest(part, "sojourn_ms"), "least_ms": part["sojourn_ms"].min()}
            if of != "qdisc":
                row["negative"] = (part["sojourn_ms"] < -sojourn.LEAST_NEGATIVE_MS).sum()
                row |= {"lost": part["sojourn_ms"].null_count(), "marked": part["marked"].sum()}
                row |= {"late": part["late"].sum(), "alike": same.filter(of=of, queue=queue).height}
            rows.append(Sojourn.model_validate(row))
    return rows, curves


def crossings_down(
    before: pl.DataFrame, behind: pl.DataFrame, lab: Mapping[str, Any]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the downlink packets of victim, contender and probes (`sojourn.crossings`), and the ambiguous ones.

    Both have a further column `of`, the sender. If the bottleneck is not dualpi2, every packet is in queue C. A black
    box may have two queues, so its packets are split by codepoint; only the minimum time of its path is known.
    """
    here, ports = lab["addresses"], lab["ports"]
    to_client = per_flow.is_at("dst", here["client"])
    senders: dict[str, pl.Expr] = {
        "contender": per_flow.contending(here)[0],  # first: a real service may use one of their ports
        "victim": to_client & (pl.col("sport") == ports["origin"]),
        **{f"{it.prefix}probe": to_client & (pl.col("sport") == ports.get(it.key, 0)) for it in PROBES},
    }
    named = pl.coalesce(*(pl.when(is_it).then(pl.lit(name)) for name, is_it in senders.items()))
    down = before.filter(pl.any_horizontal(*senders.values()))
    path_ms = None if lab["rtt_ms"] is None else lab.get("delay_down_ms", lab["rtt_ms"] / 2)
    table = sojourn.crossings(down, behind, path_ms).with_columns(of=named)
    alike = sojourn.alike(down).with_columns(of=named)
    if lab["qdisc_down"] is not None and lab["qdisc_down"].split()[0] != "dualpi2":
        table, alike = (part.with_columns(queue=pl.lit("C")) for part in (table, alike))
    return table, alike


def goodput(evidence: Observations, span: Window, step: float) -> TimeSeries:
    """Return the goodput of victim and contender over time, in bins of `step` s."""

    def mbps(table: pl.DataFrame | None) -> list[float] | None:
        return None if table is None else (per_flow.goodput_series(table, *span, step) / 1e6).tolist()

    t = [edge - span[0] for edge in edges(*span, step)[:-1]]
    return TimeSeries(step_s=step, t=t, victim_mbps=mbps(evidence.victim), contender_mbps=mbps(evidence.contender))


def over_time(evidence: Observations, span: Window, step: float) -> TimeSeries:
    """Return all time series, in bins of `step` s."""
    bounds = edges(*span, step)
    series = goodput(evidence, span, step)
    if evidence.picture.segments is not None:
        series.height = [
            rendition.mean_height(rendition.shares(evidence.picture.segments, [bin_])) for bin_ in pairwise(bounds)
        ]
    if evidence.picture.changes is not None:
        series.fps = [fps / evidence.picture.tiles for fps in freezes.fps_series(evidence.picture.changes, bounds)]
    if evidence.picture.stalls is not None:
        series.stalled_s = [freezes.frozen_s(evidence.picture.stalls, a, b) for a, b in pairwise(bounds)]
    if evidence.sound is not None:
        bins = list(pairwise(bounds))
        tones, ear = ([latency.within(table, [bin_]) for bin_ in bins] for table in evidence.sound)
        series.ear_ms = [_median(part["delay_ms"]) for part in tones]
        series.ear_gap_s = [int(part["gap"].sum()) / 1e3 for part in ear]
    if evidence.game is not None:
        bins = list(pairwise(bounds))
        ticks, inputs = ([latency.within(way, [bin_])["late_ms"] for bin_ in bins] for way in evidence.game)
        series.tick_late_ms = [_median(late) for late in ticks]
        series.tick_latest_ms, series.input_latest_ms = ([_most(late) for late in way] for way in (ticks, inputs))
    return TimeSeries(**series.model_dump())


def _median(values: pl.Series) -> float | None:
    return values.median()  # type: ignore[return-value]


def _most(values: pl.Series) -> float | None:
    return values.max()  # type: ignore[return-value]


def ccdfs(
    phases: Mapping[str, Window],
    solo: list[Window],
    probes: pl.DataFrame | None,
    calm: pl.DataFrame | None,
    column: str = "rtt_ms",
) -> list[Curve]:
    """Return one curve per phase and one of the baseline, of the values in `column`; then that of the `calm` path."""
    parts = [] if probes is None else [(name, latency.within(probes, [window])) for name, window in phases.items()]
    parts += [("solo", latency.within(probes, solo))] if probes is not None else []
    parts += [("unshaped", calm)] if calm is not None else []
    curves = []
    for name, part in parts:
        x, above = latency.ccdf(part, column)
        curves.append(Curve(name=name, ms=x.tolist(), percent=above.tolist(), probes=part.height))
    return curves
