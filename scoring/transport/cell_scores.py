# SPDX-License-Identifier: Apache-2.0
"""Scores of a transport cell from its run's records.

All functions are pure: equal frames give equal scores, so that the scores of a run repeat with its seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.units import FRAME_BYTES
from sojourn.scoring.schema.cell_scores import CellScores, FlowScores, Period, ProbeScores, WhileFlow
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.transport.bottleneck_seen import active_queues, replay_scores, wire_scores
from sojourn.scoring.transport.completion import completion
from sojourn.scoring.transport.delays import browser_call_scores, probe_scores, talk_scores
from sojourn.scoring.transport.frames import CellFrames
from sojourn.scoring.transport.geometry import flow_windows, rate_in, rate_periods, steady_window, stop_s
from sojourn.scoring.transport.rates import (
    PAYLOAD_BYTES,
    Progress,
    convergence_s,
    delivery_rate_mbps,
    jain,
    progress,
    rate_mbps,
    steady_state,
)
from sojourn.scoring.transport.single_packets import packet_scores
from sojourn.scoring.transport.spikes import spike
from sojourn.traffic.spec import Flow

Samples = Mapping[int, pl.DataFrame]
"""The rows of FLOWS per flow, by its number."""


def score(cell: Cell, frames: CellFrames, *, window_s: float = 60.0, tail_s: float = 2.0) -> CellScores:
    """Score one run of `cell`.

    The steady-state window is `window_s` long and ends `tail_s` before the first flow does. Flows that do not all run
    at the same time have no such window, and each has its own (`flow_windows`): flows of a direction with different
    windows are not compared.
    """
    window = steady_window(cell.flows, cell.seconds, window_s, tail_s)
    windows = flow_windows(cell.flows, cell.seconds, window_s, tail_s)
    parts = frames.flows.partition_by("flow", as_dict=True, maintain_order=True)
    samples: Samples = {int(number): part for (number,), part in parts.items()}
    curves = [progress(samples.get(n), flow.start_s) for n, flow in enumerate(cell.flows)]
    flows = [
        _flow_scores(n, flow, samples.get(n), curves[n], windows[n], cell.seconds) for n, flow in enumerate(cell.flows)
    ]
    if any(of_flow != window for of_flow in windows):
        flows = [one.model_copy(update={"window_s": windows[one.flow]}) for one in flows]
    together: dict[str, Any] = {}
    for up in (False, True):
        ours = [n for n, flow in enumerate(cell.flows) if flow.up is up]
        for n, one in zip(ours, _comparable([flows[n] for n in ours]), strict=True):
            flows[n] = one
        common = {windows[n] for n in ours}
        if len(ours) > 1 and len(common) == 1 and all(begin < end for begin, end in common):
            requested = [cell.flows[n] for n in ours]
            overlap = max(flow.start_s for flow in requested), min(stop_s(flow, cell.seconds) for flow in requested)
            shared = _together([flows[n] for n in ours], [curves[n] for n in ours], overlap)
            together |= {f"up_{name}" if up else name: value for name, value in shared.items()}
    rates = rate_periods(cell)
    if rate := rate_in(rates, window):
        together["utilisation"], flows = _normalised(flows, rate, PAYLOAD_BYTES[cell.ip_version])
    if probes := [] if frames.probes is None or not frames.probes.height else _probes(cell, frames.probes):
        together["probes"] = probes
    return CellScores(
        window_s=window,
        flows=flows,
        periods=_periods(cell, rates, samples, curves),
        last=flows[-1] if flows else None,
        **together,
        **_further(cell, frames, probes, rate, window),
    )


def _further(
    cell: Cell, frames: CellFrames, probes: Sequence[ProbeScores], rate: float | None, window: Window
) -> dict[str, Any]:
    """Return the scores that only some cells have."""
    scores: dict[str, Any] = {}
    if (talks := frames.talks) is not None and talks.height:
        ways = [talks.filter(pl.col("talk") == n) for n in range(2)]
        if (allowed := frames.estimates) is None:
            scores["call"] = [talk_scores(way, cell.seconds) for way in ways]
        else:
            ends = (allowed.filter(pl.col("talk") == n) for n in range(2))
            pairs = zip(ways, ends, strict=True)
            scores["call"] = [browser_call_scores(way, end, cell.seconds, window) for way, end in pairs]
    if frames.packets is not None and frames.packets.height:
        scores["packets"] = packet_scores(frames.packets, len(cell.flows), cell.seconds)
    if frames.short is not None and cell.short_flows:
        scores["short"] = completion(frames.short)
    if frames.wire is not None and frames.wire.height:
        scores["wire"] = wire_scores(frames.wire)
    if frames.replay is not None and frames.replay.height:
        scores["replay"] = replay_scores(frames.replay, probes, rate)
    if (active := active_queues(frames.queues)) is not None:
        scores["active_queues"] = active
    return scores


def _flow_scores(
    n: int, flow: Flow, part: pl.DataFrame | None, curve: Progress, window: Window, seconds: float
) -> FlowScores:
    delivered = None if part is None else delivery_rate_mbps(part, *window)
    steady_start_s, steady_mbps = steady_state(curve, flow.start_s, stop_s(flow, seconds))
    return FlowScores(
        flow=n,
        contender=flow.contender,
        rtt_ms=flow.rtt_us / 1e3,
        up=flow.up,
        d_ss_mbps=None if delivered is None else round(delivered, 4),
        window_goodput_mbps=round(rate_mbps(*curve, *window), 4) if window[0] < window[1] else None,
        goodput_mbps=round(rate_mbps(*curve, flow.start_s, stop_s(flow, seconds)), 4),
        steady_start_s=steady_start_s,
        steady_mbps=steady_mbps,
        **({} if part is None or not part.height else _sender(part, window)),
    )


def _sender(part: pl.DataFrame, window: Window) -> dict[str, Any]:
    """Return the figures from a flow's sender samples."""
    scores: dict[str, Any] = {}
    rtt = part.filter(pl.col("srtt_us") > 0)["srtt_us"].to_numpy() / 1e3
    if rtt.size:
        scores |= {"rtt_mean_ms": round(float(rtt.mean()), 3), "rtt_max_ms": round(float(rtt.max()), 3)}
    cwnd = part.filter(pl.col("t_s").is_between(*window))["cwnd"].drop_nulls().to_numpy()
    if cwnd.size:
        scores["cwnd_mean"] = round(float(cwnd.mean()), 3)
    last = part.row(-1, named=True)
    delivered, retrans, ce = last["delivered"], last["retrans"], last["delivered_ce"]
    scores["retrans"] = retrans
    # iperf3 as sender does not report deliveries.
    if delivered:
        scores["retrans_share"] = round(retrans / (delivered + retrans), 6)
        scores["ce_share"] = None if ce is None else round(ce / delivered, 6)
    return scores


def _comparable(flows: Sequence[FlowScores]) -> list[FlowScores]:
    """Return the flows of a direction; D_SS is goodput for all if one sender reports no delivery rate."""
    if all(flow.d_ss_mbps is not None for flow in flows if flow.window_goodput_mbps is not None):
        return list(flows)
    return [flow.model_copy(update={"d_ss_mbps": flow.window_goodput_mbps}) for flow in flows]


def _together(flows: Sequence[FlowScores], curves: Sequence[Progress], overlap: Window) -> dict[str, float | None]:
    steady = [flow.d_ss_mbps or 0.0 for flow in flows]
    scores: dict[str, float | None] = {
        "jain": round(jain(steady), 4),
        "jain_whole": round(jain([flow.goodput_mbps for flow in flows]), 4),
    }
    if len(flows) == 2:
        scores["ratio"] = round(steady[0] / steady[1], 3) if steady[1] else None
        scores["inverse_ratio"] = round(steady[1] / steady[0], 3) if steady[0] else None
    return scores | {"convergence_s": convergence_s(curves, *overlap)}


def _normalised(flows: Sequence[FlowScores], rate: float, payload: int) -> tuple[float, list[FlowScores]]:
    """Return the downlink flows' share of the bottleneck's `rate` (Mbit/s), and all flows with their fair shares.

    A full frame has `payload` bytes for the receiver.
    """
    capacity, down = rate * payload / FRAME_BYTES, [flow for flow in flows if not flow.up]
    scores = []
    for flow in flows:
        shares = {}
        if not flow.up:
            shares["normalised"] = round((flow.window_goodput_mbps or 0.0) / (capacity / len(down)), 4)
            if flow.cwnd_mean and flow.rtt_ms:
                fair = capacity * flow.rtt_ms * 1e3 / 8 / payload / len(down)
                shares["normalised_window"] = round(flow.cwnd_mean / fair, 4)
        scores.append(flow.model_copy(update=shares))
    return round(sum(flow.window_goodput_mbps or 0.0 for flow in down) / capacity, 4), scores


def _periods(
    cell: Cell, rates: Sequence[tuple[float, float | None]], samples: Samples, curves: Sequence[Progress]
) -> list[Period]:
    """Return every period of a constant bottleneck rate: goodput of the downlink flows since the first began,
    utilisation, and the first flow's spike.
    """
    down, periods = [n for n, flow in enumerate(cell.flows) if not flow.up], []
    first_start = min((cell.flows[n].start_s for n in down), default=0.0)
    for (start, rate), (end, _) in pairwise([*rates, (cell.seconds, None)]):
        got = sum(rate_mbps(*curves[n], max(start, first_start), end) for n in down)
        further: dict[str, Any] = {}
        if rate:
            further["utilisation"] = round(got / (rate * PAYLOAD_BYTES[cell.ip_version] / FRAME_BYTES), 4)
        if len(rates) > 1 and rate and down and down[0] in samples:
            part = samples[down[0]].filter(pl.col("srtt_us") > 0)
            base_ms = cell.flows[down[0]].rtt_us / 1e3
            rtt_ms = part["srtt_us"].to_numpy() / 1e3
            further |= spike(part["t_s"].to_numpy(), rtt_ms, start, end, base_ms, rate)._asdict()
        periods.append(Period(start_s=start, end_s=end, rate_mbps=rate, goodput_mbps=round(got, 4), **further))
    return periods


def _probes(cell: Cell, probes: pl.DataFrame) -> list[ProbeScores]:
    """Return every probe over the whole cell, and its P95 and loss while a flow runs (by number of the flow)."""
    scores = []
    for n, requested in enumerate(cell.probes):
        mine = probes.filter(pl.col("probe") == n)
        base_ms = requested.rtt_us / (1e3 if requested.round_trip else 2e3)
        while_flow = []
        for flow in cell.flows:
            running = pl.col("t_s").is_between(flow.start_s, stop_s(flow, cell.seconds))
            scored = probe_scores(mine.filter(running), 0.0)
            while_flow.append(WhileFlow(p95_ms=scored.p95_ms, loss=scored.loss))
        whole = probe_scores(mine, base_ms)
        of_all = {name: getattr(whole, name) for name in whole.model_fields_set}
        scores.append(ProbeScores(probe=n, ecn=requested.ecn, while_flow=while_flow, **of_all))
    return scores
