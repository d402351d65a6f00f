# SPDX-License-Identifier: Apache-2.0
"""Delays of a cell's probes and of its call's packets; lost packets are infinitely late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from sojourn.scoring.packets.latency import ccdf
from sojourn.scoring.packets.sojourn import LEAST_NEGATIVE_MS
from sojourn.scoring.schema.cell_scores import CallScores, Ccdf, DelayScores
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.numbers import rank


def probe_scores(probes: pl.DataFrame, base_ms: float) -> DelayScores:
    """Return the delays of one probe's packets, from a frame with the columns of PROBES.

    `base_ms` is the path's delay, one-way or round-trip like the probe's. The CCDF's ms are the delay that the queues
    add, its percent the share above. A lost probe is infinitely late in both; if all are lost, the curve has no point
    and is 100 % everywhere.
    """
    delays = probes["delay_us"].drop_nulls().to_numpy() / 1e3
    lost = probes.height - delays.size
    if not probes.height:
        return DelayScores(sent=0, loss=None)
    ms, percent = ccdf(probes.select(rtt_ms=pl.col("delay_us") / 1e3 - base_ms))
    received: dict[str, Any] = {}
    if delays.size:
        negative = int((delays - base_ms < -LEAST_NEGATIVE_MS).sum())
        received = {"max_ms": round(float(delays.max()), 3), "negative": negative}
    return DelayScores(
        sent=probes.height,
        loss=round(lost / probes.height, 6),
        **{f"p{p}_ms": rank(delays, p, lost) for p in (50, 90, 95, 99)},  # type: ignore[arg-type]
        p999_ms=rank(delays, 99.9, lost),
        **received,
        ccdf=Ccdf(ms=[round(x, 3) for x in ms.tolist()], percent=[round(x, 4) for x in percent.tolist()]),
    )


def pooled_ccdf(probes: Sequence[DelayScores]) -> Ccdf:
    """Return one CCDF over the runs whose probes have one, weighted by packets sent."""
    curves = [
        (np.array(probe.ccdf.ms), np.array([100.0, *probe.ccdf.percent]), probe.sent) for probe in probes if probe.ccdf
    ]
    ms = np.unique(np.concatenate([x for x, *_ in curves]))
    above = [percent[np.searchsorted(x, ms, side="right")] for x, percent, _ in curves]
    share = np.average(above, axis=0, weights=[sent for *_, sent in curves])
    return Ccdf(ms=ms.tolist(), percent=[round(x, 4) for x in share.tolist()])


def talk_scores(talk: pl.DataFrame, seconds: float) -> CallScores:
    """Return one direction of a call over a cell of `seconds`.

    `talk` has the columns of TALKS; without `delay_us` (delays were not recorded), its rows are the packets that
    arrived.
    """
    recorded = "delay_us" in talk.columns
    arrived = talk.drop_nulls("delay_us") if recorded else talk
    mbps = round(sum(arrived["bytes"].to_list()) * 8 / seconds / 1e6, 4)
    if not recorded or not talk.height:
        return CallScores(mbps=mbps)
    delays = arrived["delay_us"].to_numpy() / 1e3
    lost = talk.height - arrived.height
    return CallScores(
        mbps=mbps,
        loss=round(lost / talk.height, 6),
        p50_ms=rank(delays, 50, lost),
        p99_ms=rank(delays, 99, lost),
        **({"max_ms": round(float(delays.max()), 3)} if delays.size else {}),
    )


def browser_call_scores(talk: pl.DataFrame, estimates: pl.DataFrame, seconds: float, window: Window) -> CallScores:
    """Return one direction of a call between browsers, whose packets arrived as `talk` (TALKS) says.

    `estimates` has the columns of ESTIMATES of the end that sends in this direction.
    """
    (start, end), scores = window, talk_scores(talk, seconds)
    if end <= start:  # flows that have no common window
        return scores
    inside = talk.filter(pl.col("t_s").is_between(start, end))
    allowed = estimates.filter(pl.col("t_s").is_between(start, end))["available_bps"].drop_nulls().to_numpy() / 1e6
    means = inside.select("bytes", "ce").mean().row(0) if inside.height else (None, None)
    return scores.model_copy(
        update={
            "window_mbps": round(float(inside["bytes"].sum()) * 8 / (end - start) / 1e6, 4),
            "packet_bytes": None if means[0] is None else round(means[0], 1),
            "ce_share": None if means[1] is None else round(means[1], 6),
            "available_min_mbps": round(float(allowed.min()), 4) if allowed.size else None,
            "available_max_mbps": round(float(allowed.max()), 4) if allowed.size else None,
        }
    )
