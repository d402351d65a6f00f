# SPDX-License-Identifier: Apache-2.0
"""A cell's traffic at the bottleneck: outer headers, queues in use, and packets dropped by a replay window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import polars as pl

from sojourn.scoring.schema.cell_scores import ProbeScores, ReplayScores, WireScores

REPLAY_PACKET_BYTES = 1500
"""Packet size in the sizing law of a replay window."""
ECN_FIELDS = ("not_ect", "ect0", "ect1", "ce")
"""Columns of WIRE: packets with data, by the ECN field of their IP header."""


def wire_scores(wire: pl.DataFrame) -> WireScores:
    """Return the downlink data as the bottleneck's queue sees it: outer headers, if there is a tunnel.

    `wire` has one row of `sojourn.scoring.packets.per_flow.flow_table` per flow, by outer headers.
    """
    total = {name: sum(wire[name].to_list()) for name in ("data_packets", "bytes", *ECN_FIELDS)}
    shares = {name: round(total[name] / total["data_packets"], 4) for name in ECN_FIELDS if total["data_packets"]}
    flows = wire.filter(pl.col("bytes") * 100 >= total["bytes"]).height
    return WireScores(flows=flows, largest_bytes=max(wire["largest"].drop_nulls().to_list(), default=None), **shares)


def replay_window_needed(rate_mbps: float, sojourn_ms: float) -> float:
    """Return the replay window (packets) at which packets with `sojourn_ms` are not late among others without delay.

    Source: "L4S Tests", window >= rate / 8 / packet size * peak sojourn in C: 166 at 20 Mbit/s, 100 ms and 1500 bytes.
    """
    return rate_mbps * 1e6 / 8 / REPLAY_PACKET_BYTES * sojourn_ms / 1e3


def replay_scores(replay: pl.DataFrame, probes: Sequence[ProbeScores], rate: float | None) -> ReplayScores:
    """Return a tunnel's replay drops (columns of REPLAY), and the window that `rate` (Mbit/s) would have required.

    `needed` is `replay_window_needed` for the longest queue delay of the Not-ECT probe.
    """
    ways = {row["way"]: row for row in replay.iter_rows(named=True)}
    down = ways["down"]
    further: dict[str, float] = {}
    for name, ecn in (("c_peak_ms", "not-ect"), ("l_peak_ms", "ect1")):
        peaks = [max(probe.ccdf.ms) for probe in probes if probe.ecn == ecn and probe.ccdf and probe.ccdf.ms]
        if peaks:
            further[name] = max(peaks)
    if rate and "c_peak_ms" in further:
        further["needed"] = round(replay_window_needed(rate, further["c_peak_ms"]), 1)
    late_share = round(down["late"] / max(down["packets"] + down["late"], 1), 5)
    return ReplayScores(late=down["late"], late_up=ways["up"]["late"], late_share=late_share, **further)


def active_queues(samples: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the number of flow queues in use, down: the median over queues.jsonl; None for a single queue."""
    lengths = ("new_flows_len", "old_flows_len")
    counts = [
        sum(qdisc[name] for name in lengths)
        for sample in samples
        if sample["dev"] == "lan"
        for qdisc in sample["qdiscs"]
        if lengths[0] in qdisc and qdisc.get("packets")
    ]
    return median(counts) if counts else None
