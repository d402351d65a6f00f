# SPDX-License-Identifier: Apache-2.0
"""Scores of a transport cell from its samples: rates, fairness, delays, convergence, spikes, completion times.

Times are s of the cell, rates Mbit/s (decimal, payload), delays ms. All functions are pure: equal frames give equal
scores, so that the scores of a run repeat with its seed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf, isfinite
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.bottleneck.units import parse_rate
from sojourn.scoring.packets.latency import ccdf
from sojourn.scoring.packets.per_packet import packet_scores
from sojourn.scoring.packets.sojourn import LEAST_NEGATIVE_MS
from sojourn.scoring.statistics.harm import harm
from sojourn.scoring.statistics.numbers import in_json, nearest_rank
from sojourn.scoring.transport.steady import truncation

Floats = npt.NDArray[np.float64]
Json = dict[str, Any]

FRAME_BYTES = 1514
"""What the shaper counts for a full segment; PAYLOAD_BYTES of it is what the receiver gets."""
PAYLOAD_BYTES = 1448

REPLAY_PACKET_BYTES = 1500
"""Of the packets that the sizing law of a replay window counts."""
ECN_FIELDS = ("not_ect", "ect0", "ect1", "ce")
"""Columns of WIRE: packets with data, by the ECN field of their IP header."""
CONVERGED_JAIN = 0.95
CONVERGED_OVER_S = 5.0
SPIKE_SLACK_MS = 25.0
SPIKE_FRAMES = 4
SPIKE_HOLD_S = 1.0


def jain(rates: Sequence[float]) -> float:
    """Jain's fairness index (sum x)^2 / (n sum x^2): 1/n one flow has all, 1 all have the same; 0 without traffic.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC-TR-301, 1984.
    """
    squares = sum(x * x for x in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0.0


def rate_mbps(t: Floats, received: Floats, start: float, end: float) -> float:
    """Mean goodput in Mbit/s from `start` to `end` s, of cumulative bytes sampled at `t`, linear in between."""
    if end <= start:
        return 0.0
    got = np.interp([start, end], t, received)
    return float((got[1] - got[0]) * 8 / (end - start) / 1e6)


def delivery_rate_mbps(samples: pl.DataFrame, start: float, end: float) -> float | None:
    """Mean in Mbit/s of the delivery rates other than 0 of `samples` (FLOWS) between `start` and `end` s; None: none.

    So D_SS of "L4S Tests" is made: the sender's own estimate over its last round trip (draft-cheng-iccrg-delivery-rate-
    estimation), as ss tells it, sampled each 50 ms; not bytes over time.
    """
    inside = (pl.col("t_s") > start) & (pl.col("t_s") < end) & (pl.col("delivery_rate_bps") > 0)
    rates = samples.filter(inside)["delivery_rate_bps"].to_numpy()
    return float(rates.mean() / 1e6) if rates.size else None


def steady_window(flows: Sequence[Mapping[str, Any]], seconds: float, window_s: float, tail_s: float) -> list[float]:
    """The window of D_SS as [start, end] in s: `window_s` long, ending `tail_s` before the first flow stops.

    It never begins before the last flow has started.
    """
    end = min((_stop(flow, seconds) for flow in flows), default=seconds) - tail_s
    return [max(end - window_s, max((float(flow["start_s"]) for flow in flows), default=0.0)), end]


def convergence_s(curves: Sequence[tuple[Floats, Floats]], start: float, end: float) -> float | None:
    """Time in s from `start`, when the last flow starts, until the flows share alike; infinite if not before `end`.

    None of one flow, or where the rule fits in nowhere. A pair that crosses on its way to unlike shares has been alike.

    The rule: the first moment (in steps of 0.1 s) from which the goodputs over the next 5 s have a Jain's index of at
    least 0.95, which is 1.6 : 1 for two flows. 5 s are more than a sawtooth of CUBIC at the rates and RTTs of the
    experiments. `curves` are (t, cumulative bytes) per flow.
    """
    if len(curves) < 2:
        return None
    moments = np.arange(start, end - CONVERGED_OVER_S + 1e-9, 0.1)
    if not moments.size:
        return None
    got = np.array([np.interp(moments + CONVERGED_OVER_S, *c) - np.interp(moments, *c) for c in curves])
    squares = len(curves) * (got**2).sum(axis=0)
    index = np.divide(got.sum(axis=0) ** 2, squares, out=np.zeros_like(squares), where=squares > 0)
    alike = np.flatnonzero(index >= CONVERGED_JAIN)
    return round(float(moments[alike[0]] - start), 1) if alike.size else inf


def spike(t: Floats, srtt_ms: Floats, start: float, end: float, base_ms: float, rate_mbps: float) -> Json:
    """The spike of TCP RTT after the rate changed to `rate_mbps` at `start` s, looked at until `end` s.

    The rule: it is over at the first moment from which the RTT stays for 1 s at or below the level of the new rate:
    the path's `base_ms` + 25 ms of queue (above the target of every AQM here) + the time of four full frames.
    Keys: height_ms (largest RTT above `base_ms`), spike_s (0: the level was never left), spike_over (False: it lasts
    longer than could be seen).
    """
    seen = (t >= start) & (t < end)
    at, rtt = t[seen], srtt_ms[seen]
    if not at.size:
        return {"height_ms": None, "spike_s": None, "spike_over": None}
    level = base_ms + SPIKE_SLACK_MS + SPIKE_FRAMES * FRAME_BYTES * 8 / (rate_mbps * 1e3)
    above = at[rtt > level]
    # The last sample above, before the first pause of 1 s in being above.
    edges = np.concatenate([[start], above, [end]])
    gaps = np.flatnonzero(np.diff(edges) >= SPIKE_HOLD_S)
    return {
        "height_ms": _r(float(rtt.max()) - base_ms),
        "spike_s": _r(float(edges[gaps[0]] if gaps.size else end) - start),
        "spike_over": bool(gaps.size),
    }


def completion(short: pl.DataFrame) -> Json:
    """Flow completion times in s: count, unfinished, geometric_mean_s, median_s, p95_s (nearest rank).

    An unfinished flow is infinitely late: it counts in the percentiles, and one makes the geometric mean infinite.
    """
    times = short["fct_s"].drop_nulls().to_numpy()
    unfinished = short.height - times.size
    scores: Json = {"count": short.height, "unfinished": unfinished}
    if short.height:
        mean = inf if unfinished else float(np.exp(np.log(times).mean()))
        scores |= {"geometric_mean_s": in_json(_r(mean, 6))}
        scores |= {name: _rank(times, percent, unfinished, 6) for name, percent in (("median_s", 50), ("p95_s", 95))}
    return scores


def completion_harm(solo: Mapping[str, Any], beside: Mapping[str, Any]) -> Json:
    """Harm to completion times, (beside - solo) / beside, of each statistic of `completion` that both have.

    None of one that is infinite alone: there is nothing to set it against.
    """
    names = ("geometric_mean_s", "median_s", "p95_s")
    both = {name: (float(solo[name]), float(beside[name])) for name in names if name in solo and name in beside}
    return {
        name.removesuffix("_s"): _r(harm(alone, value, "less"), 4)
        for name, (alone, value) in both.items()
        if isfinite(alone)
    }


def probe_scores(probes: pl.DataFrame, base_ms: float) -> Json:
    """Delay of one probe's packets: sent, loss (share), p50/p90/p95/p99/p99.9/max in ms, and the queue's CCDF.

    `base_ms` is the path's delay, one way or there and back as the probe's; the CCDF's ms are what the queues add to
    it, its percent the share above. A lost probe is infinitely late in both: where all are, the curve has no point and
    is 100 % everywhere; max is that of those that came. `negative`
    counts those that took less than the path, which no packet can: clocks or path are not as they are held to be.
    """
    delays = probes["delay_us"].drop_nulls().to_numpy() / 1e3
    lost = probes.height - delays.size
    scores: Json = {"sent": probes.height, "loss": _r(lost / probes.height, 6) if probes.height else None}
    if not probes.height:
        return scores
    scores |= {f"p{p}_ms": _rank(delays, p, lost) for p in (50, 90, 95, 99)} | {"p999_ms": _rank(delays, 99.9, lost)}
    if delays.size:
        scores |= {"max_ms": _r(float(delays.max())), "negative": int((delays - base_ms < -LEAST_NEGATIVE_MS).sum())}
    ms, percent = ccdf(probes.select(rtt_ms=pl.col("delay_us") / 1e3 - base_ms))
    scores["ccdf"] = {"ms": [_r(x) for x in ms.tolist()], "percent": [_r(x, 4) for x in percent.tolist()]}
    return scores


def pooled_ccdf(probes: Sequence[Mapping[str, Any]]) -> Json:
    """One CCDF of several runs' probes, each as `probe_scores` tells it: by the packets that were sent."""
    curves = [(np.array(probe["ccdf"]["ms"]), np.array([100.0, *probe["ccdf"]["percent"]])) for probe in probes]
    ms = np.unique(np.concatenate([x for x, _ in curves]))
    above = [percent[np.searchsorted(x, ms, side="right")] for x, percent in curves]
    share = np.average(above, axis=0, weights=[probe["sent"] for probe in probes])
    return {"ms": ms.tolist(), "percent": [_r(x, 4) for x in share.tolist()]}


def talk_scores(talk: pl.DataFrame, seconds: float) -> Json:
    """One way of a call over a cell of `seconds`: mbps (payload that arrived), and where delays are known the share
    lost and the one-way delay of its packets, p50/p99/max in ms: a lost one is infinitely late, max of those that came.

    `talk` has the columns of TALKS; without `delay_us`, where delays were not recorded, its rows are the packets that
    arrived.
    """
    recorded = "delay_us" in talk.columns
    arrived = talk.drop_nulls("delay_us") if recorded else talk
    scores: Json = {"mbps": _r(sum(arrived["bytes"].to_list()) * 8 / seconds / 1e6, 4)}
    if not recorded or not talk.height:
        return scores
    delays = arrived["delay_us"].to_numpy() / 1e3
    lost = talk.height - arrived.height
    scores |= {"loss": _r(lost / talk.height, 6), "p50_ms": _rank(delays, 50, lost), "p99_ms": _rank(delays, 99, lost)}
    return scores | ({"max_ms": _r(float(delays.max()))} if delays.size else {})


def each_second(curve: tuple[Floats, Floats], start: float, stop: float) -> Floats:
    """Goodput in Mbit/s in each whole second from `start` to `stop` s, of (t, cumulative bytes)."""
    moments = start + np.arange(int(stop - start) + 1)
    received: Floats = np.interp(moments, *curve)
    return np.diff(received) * 8e-6


def goodput_series(flows: pl.DataFrame, n: int, start: float, stop: float) -> list[tuple[float, float]]:
    """Goodput of flow `n` in a frame with the columns of FLOWS: (middle of each second in s, Mbit/s)."""
    curve = _curve(flows.filter(pl.col("flow") == n), start)
    return [(start + at + 0.5, _r(mbps)) for at, mbps in enumerate(each_second(curve, start, stop).tolist())]


def steady_state(curve: tuple[Floats, Floats], start: float, stop: float) -> Json:
    """Goodput of a flow without its warm-up: steady_start_s (s of the cell) and steady_mbps from there to `stop`.

    The warm-up is found by `sojourn.scoring.transport.steady.truncation` in the goodput of each whole second from
    `start` on.
    """
    begins = start + truncation(each_second(curve, start, stop).tolist())
    return {"steady_start_s": _r(begins), "steady_mbps": _r(rate_mbps(*curve, begins, stop), 4)}


def wire_scores(wire: pl.DataFrame) -> Json:
    """What the bottleneck's queue saw of the data down: the outer headers, where there is a tunnel.

    `wire` has a row of `sojourn.scoring.packets.per_flow.flow_table` for each flow by its outer headers. Keys: flows
    (those with 1 % of all bytes or more), largest_bytes (IP packet), and the share of the packets with data by ECN
    field.
    """
    total = {name: sum(wire[name].to_list()) for name in ("data_packets", "bytes", *ECN_FIELDS)}
    shares = {name: _r(total[name] / total["data_packets"], 4) for name in ECN_FIELDS if total["data_packets"]}
    flows = wire.filter(pl.col("bytes") * 100 >= total["bytes"]).height
    return {"flows": flows, "largest_bytes": wire["largest"].max(), **shares}


def replay_window_needed(rate_mbps: float, sojourn_ms: float) -> float:
    """Packets that a replay window must hold for none to be late that queues `sojourn_ms` beside others that do not.

    Source: "L4S Tests", window >= rate / 8 / packet size * peak sojourn in C: 166 at 20 Mbit/s, 100 ms and 1500 bytes.
    """
    return rate_mbps * 1e6 / 8 / REPLAY_PACKET_BYTES * sojourn_ms / 1e3


def replay_scores(replay: pl.DataFrame, probes: Sequence[Mapping[str, Any]], rate: float | None) -> Json:
    """What a tunnel's replay window dropped, and the window that it would have needed.

    Of the way down: late and late_share (packets too old for the window, and their share of all that arrived); late_up;
    of the probes, by their codepoint: c_peak_ms and l_peak_ms, the longest sojourn in the queue of each (ms; late ones
    are lost, so that a narrow window hides the longest), and needed, see `replay_window_needed`, at `rate` (Mbit/s).
    """
    ways = {row["way"]: row for row in replay.iter_rows(named=True)}
    down = ways["down"]
    scores: Json = {"late": down["late"], "late_up": ways["up"]["late"]}
    scores["late_share"] = _r(down["late"] / max(down["packets"] + down["late"], 1), 5)
    for name, ecn in (("c_peak_ms", "not-ect"), ("l_peak_ms", "ect1")):
        peaks = [max(ms) for probe in probes if probe["ecn"] == ecn and (ms := probe.get("ccdf", {}).get("ms"))]
        if peaks:
            scores[name] = max(peaks)
    if rate and "c_peak_ms" in scores:
        scores["needed"] = _r(replay_window_needed(rate, scores["c_peak_ms"]), 1)
    return scores


def active_queues(samples: Iterable[Mapping[str, Any]]) -> float | None:
    """How many flows' queues were in use at once, down: the median over queues.jsonl; None where there is one queue."""
    lengths = ("new_flows_len", "old_flows_len")
    counts = [
        sum(qdisc[name] for name in lengths)
        for sample in samples
        if sample["dev"] == "lan"
        for qdisc in sample["qdiscs"]
        if lengths[0] in qdisc and qdisc.get("packets")
    ]
    return median(counts) if counts else None


def score(
    cell: Mapping[str, Any],
    flows: pl.DataFrame,
    probes: pl.DataFrame | None = None,
    short: pl.DataFrame | None = None,
    *,
    wire: pl.DataFrame | None = None,
    talks: pl.DataFrame | None = None,
    packets: pl.DataFrame | None = None,
    replay: pl.DataFrame | None = None,
    queues: Iterable[Mapping[str, Any]] = (),
    window_s: float = 60.0,
    tail_s: float = 2.0,
) -> Json:
    """Every score of one run of a cell (the JSON dump of a `sojourn.bottleneck.cell.Cell`), ready for JSON.

    `flows`, `probes`, `short` and `talks` have the columns of FLOWS, PROBES, SHORT and TALKS (see `talk_scores`). Per
    flow: d_ss_mbps (`delivery_rate_mbps` in the steady window; for all flows of a direction their goodput in it where
    one of them tells no delivery rate: iperf3 in simulated time, programs, UDP), window_goodput_mbps (bytes received
    over the same window, METRICS 1.2), goodput_mbps (mean of the whole flow with slow start), TCP RTT
    mean and max over its samples, cwnd_mean (segments, over the same window), retransmitted packets and their share, CE
    share of the packets delivered, `normalised`, goodput in the window over an equal share of the bottleneck, and
    `normalised_window`, cwnd_mean over such a share of capacity · RTT (the path's, METRICS 5); `steady_…` is the
    goodput without warm-up. `last` is the last flow. `ratio` is D_SS of the first over the second of two flows,
    `inverse_ratio` the other way round; `jain` is of D_SS, `jain_whole` of whole flows; `up_…` are those of the flows
    up. `periods` are the stretches of constant rate, `utilisation` the flows' share of it; `call` are a call's ways,
    down first.
    `wire` and `active_queues` are what the bottleneck saw, see `wire_scores` and `active_queues`; `replay` what
    a tunnel dropped, see `replay_scores`.
    """
    seconds, asked = float(cell["seconds"]), list(cell.get("flows", ()))
    window = steady_window(asked, seconds, window_s, tail_s)
    by_flow = {key[0]: part for key, part in flows.partition_by("flow", as_dict=True, maintain_order=True).items()}
    curves = [_curve(by_flow.get(n), float(flow["start_s"])) for n, flow in enumerate(asked)]
    flow_scores = [_flow_scores(n, flow, by_flow.get(n), curves[n], window, seconds) for n, flow in enumerate(asked)]
    scores: Json = {"window_s": window, "flows": flow_scores}
    for way in (False, True):
        ours = [n for n, flow in enumerate(asked) if bool(flow.get("up")) is way]
        _one_definition([flow_scores[n] for n in ours])
        if len(ours) > 1:
            overlap = max(float(asked[n]["start_s"]) for n in ours), min(_stop(asked[n], seconds) for n in ours)
            scores |= _together(
                [flow_scores[n] for n in ours], [curves[n] for n in ours], overlap, "up_" if way else ""
            )
    scores["periods"] = _periods(cell, asked, by_flow, curves, seconds)
    if rate := _rate(scores["periods"], window):
        down = [flow for flow, ask in zip(flow_scores, asked, strict=True) if not ask.get("up")]
        capacity = rate * PAYLOAD_BYTES / FRAME_BYTES
        scores["utilisation"] = _r(sum(flow["window_goodput_mbps"] for flow in down) / capacity, 4)
        for flow in down:
            flow["normalised"] = _r(flow["window_goodput_mbps"] / (capacity / len(down)), 4)
            if flow.get("cwnd_mean") and flow["rtt_ms"]:
                fair = capacity * flow["rtt_ms"] * 1e3 / 8 / PAYLOAD_BYTES / len(down)
                flow["normalised_window"] = _r(flow["cwnd_mean"] / fair, 4)
    scores["last"] = flow_scores[-1] if flow_scores else {}
    if probes is not None and probes.height:
        scores["probes"] = _probes(cell, asked, probes, seconds)
    if talks is not None and talks.height:
        scores["call"] = [talk_scores(talks.filter(pl.col("talk") == n), seconds) for n in range(2)]
    if packets is not None and packets.height:
        scores["packets"] = packet_scores(packets, len(asked), seconds)
    if short is not None and cell.get("short_flows"):
        scores["short"] = completion(short)
    if wire is not None and wire.height:
        scores["wire"] = wire_scores(wire)
    if replay is not None and replay.height:
        scores["replay"] = replay_scores(replay, scores.get("probes", []), _rate(scores["periods"], window))
    if (active := active_queues(queues)) is not None:
        scores["active_queues"] = active
    return scores


def _flow_scores(
    n: int,
    flow: Mapping[str, Any],
    part: pl.DataFrame | None,
    curve: tuple[Floats, Floats],
    window: list[float],
    seconds: float,
) -> Json:
    start, stop = float(flow["start_s"]), _stop(flow, seconds)
    scores: Json = {"flow": n, "contender": flow["contender"], "rtt_ms": flow["rtt_us"] / 1e3, "up": bool(flow["up"])}
    goodput = rate_mbps(*curve, *window)
    delivered = None if part is None else delivery_rate_mbps(part, *window)
    scores["d_ss_mbps"] = None if delivered is None else _r(delivered, 4)
    scores["window_goodput_mbps"] = _r(goodput, 4)
    scores["goodput_mbps"] = _r(rate_mbps(*curve, start, stop), 4)
    scores |= steady_state(curve, start, stop)
    if part is None or not part.height:
        return scores
    rtt = part.filter(pl.col("srtt_us") > 0)["srtt_us"].to_numpy() / 1e3
    if rtt.size:
        scores |= {"rtt_mean_ms": _r(float(rtt.mean())), "rtt_max_ms": _r(float(rtt.max()))}
    cwnd = part.filter(pl.col("t_s").is_between(window[0], window[1]))["cwnd"].drop_nulls().to_numpy()
    if cwnd.size:
        scores["cwnd_mean"] = _r(float(cwnd.mean()))
    last = part.row(-1, named=True)
    delivered, retrans, ce = last["delivered"], last["retrans"], last["delivered_ce"]
    scores["retrans"] = retrans
    # iperf3 as sender does not tell what was delivered.
    if delivered:
        scores["retrans_share"] = _r(retrans / (delivered + retrans), 6)
        scores["ce_share"] = None if ce is None else _r(ce / delivered, 6)
    return scores


def _one_definition(flows: list[Json]) -> None:
    """Make D_SS of all flows of a direction goodput where one's sender tells no delivery rate: they are compared."""
    if any(flow["d_ss_mbps"] is None for flow in flows):
        for flow in flows:
            flow["d_ss_mbps"] = flow["window_goodput_mbps"]


def _together(
    flows: list[Json], curves: list[tuple[Floats, Floats]], overlap: tuple[float, float], prefix: str
) -> Json:
    steady, whole = ([flow[name] for flow in flows] for name in ("d_ss_mbps", "goodput_mbps"))
    scores: Json = {"jain": _r(jain(steady), 4), "jain_whole": _r(jain(whole), 4)}
    if len(flows) == 2:
        scores["ratio"] = _r(steady[0] / steady[1], 3) if steady[1] else None
        scores["inverse_ratio"] = _r(steady[1] / steady[0], 3) if steady[0] else None
    alike = convergence_s(curves, *overlap)
    scores["convergence_s"] = None if alike is None else in_json(alike)
    return {prefix + name: value for name, value in scores.items()}


def _periods(
    cell: Mapping[str, Any],
    asked: list[Mapping[str, Any]],
    by_flow: Mapping[Any, pl.DataFrame],
    curves: list[tuple[Floats, Floats]],
    seconds: float,
) -> list[Json]:
    """Each stretch of a constant bottleneck rate: goodput of the flows down since the first of them began, utilisation,
    and that one's spike.
    """
    steps = rate_periods(cell)
    periods = []
    for (start, rate), (end, _) in pairwise([*steps, (seconds, None)]):
        down = [n for n, flow in enumerate(asked) if not flow.get("up")]
        begun = max(start, min((float(asked[n]["start_s"]) for n in down), default=0.0))
        got = sum(rate_mbps(*curves[n], begun, end) for n in down)
        period: Json = {"start_s": start, "end_s": end, "rate_mbps": rate, "goodput_mbps": _r(got, 4)}
        if rate:
            period["utilisation"] = _r(got / (rate * PAYLOAD_BYTES / FRAME_BYTES), 4)
        if len(steps) > 1 and rate and down and down[0] in by_flow:
            part = by_flow[down[0]].filter(pl.col("srtt_us") > 0)
            rtt = part["srtt_us"].to_numpy() / 1e3
            period |= spike(part["t_s"].to_numpy(), rtt, start, end, asked[down[0]]["rtt_us"] / 1e3, rate)
        periods.append(period)
    return periods


def rate_periods(cell: Mapping[str, Any]) -> list[tuple[float, float | None]]:
    """The bottleneck's rate down over time: (from s, Mbit/s), the least of all middleboxes; None where unshaped."""
    hops = [hop for hop in cell["hops"] if hop.get("down")]
    moments = sorted({0.0, *(float(step["at_s"]) for hop in hops for step in hop.get("schedule", ()))})
    periods: list[tuple[float, float | None]] = []
    for moment in moments:
        rates = [
            ([_shaped(hop["down"])] + [s["rate_bps"] for s in hop.get("schedule", ()) if s["at_s"] <= moment])[-1]
            for hop in hops
        ]
        rate = min(rates) / 1e6 if rates else None
        if not periods or periods[-1][1] != rate:
            periods.append((moment, rate))
    return periods


def _shaped(way: Mapping[str, Any]) -> int:
    """bit/s of a direction: its own, or less where the queue shapes itself (cake)."""
    own = re.search(r"\bbandwidth (\S+)", way["qdisc"])
    return min(int(way["rate_bps"]), parse_rate(own[1])) if own else int(way["rate_bps"])


def _rate(periods: list[Json], window: list[float]) -> float | None:
    """The bottleneck's rate in the window, Mbit/s; None when it changes in it or is not shaped."""
    rates = {p["rate_mbps"] for p in periods if p["start_s"] < window[1] and p["end_s"] > window[0]}
    return rates.pop() if len(rates) == 1 else None


def _probes(
    cell: Mapping[str, Any], asked: list[Mapping[str, Any]], probes: pl.DataFrame, seconds: float
) -> list[Json]:
    """Each probe over the whole cell, and its P95 and loss while each flow runs (by number of the flow)."""
    all_scores = []
    for n, asked_probe in enumerate(cell["probes"]):
        mine = probes.filter(pl.col("probe") == n)
        one: Json = {"probe": n, "ecn": asked_probe["ecn"]}
        one |= probe_scores(mine, asked_probe["rtt_us"] / (1e3 if asked_probe.get("round_trip") else 2e3))
        one["while_flow"] = [
            {key: metric_values.get(key) for key in ("p95_ms", "loss")}
            for flow in asked
            for metric_values in [
                probe_scores(mine.filter(pl.col("t_s").is_between(flow["start_s"], _stop(flow, seconds))), 0.0)
            ]
        ]
        all_scores.append(one)
    return all_scores


def _curve(part: pl.DataFrame | None, start: float) -> tuple[Floats, Floats]:
    """(t, cumulative bytes) of a flow, from nothing at its start on."""
    if part is None:
        return np.array([start]), np.zeros(1)
    return np.insert(part["t_s"].to_numpy(), 0, start), np.insert(part["received_bytes"].to_numpy() * 1.0, 0, 0.0)


def _stop(flow: Mapping[str, Any], seconds: float) -> float:
    stop = flow.get("stop_s")
    return seconds if stop is None else float(stop)


def _rank(values: Floats, percent: float, lost: int, digits: int = 3) -> float | str | None:
    """A percentile as JSON holds it, where `lost` more never came."""
    value = nearest_rank(values, percent, lost)
    return None if value is None else in_json(_r(value, digits))


def _r(value: float, digits: int = 3) -> float:
    return round(value, digits)
