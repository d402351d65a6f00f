# SPDX-License-Identifier: Apache-2.0
"""Rates of a cell's flows: goodput, delivery rate, fairness, convergence, steady state. Times in s, rates in Mbit/s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.hardware.machine.ip import IpVersion
from sojourn.scoring.transport.steady import truncation

Floats = npt.NDArray[np.float64]
Progress = tuple[Floats, Floats]
"""A flow's times (s) and the bytes received until then."""

PAYLOAD_BYTES: Mapping[IpVersion, int] = {4: 1448, 6: 1428}
"""What the receiver gets of a full frame (`sojourn.bottleneck.units.FRAME_BYTES`), by IP version."""
CONVERGED_JAIN = 0.95
CONVERGED_OVER_S = 5.0


def jain(rates: Sequence[float]) -> float:
    """Return Jain's fairness index (sum x)^2 / (n sum x^2): 1/n one flow has all, 1 all are equal; 0 without traffic.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC-TR-301, 1984.
    """
    squares = sum(x * x for x in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0.0


def rate_mbps(t: Floats, received: Floats, start: float, end: float) -> float:
    """Return the mean goodput in Mbit/s from `start` to `end` s, from cumulative bytes at `t`, interpolated."""
    if end <= start:
        return 0.0
    got = np.interp([start, end], t, received)
    return float((got[1] - got[0]) * 8 / (end - start) / 1e6)


def delivery_rate_mbps(samples: pl.DataFrame, start: float, end: float) -> float | None:
    """Return the mean nonzero delivery rate (Mbit/s) of `samples` (FLOWS) between `start` and `end` s; None: none.

    This is D_SS of "L4S Tests": the sender's own estimate over its last round trip (draft-cheng-iccrg-delivery-rate-
    estimation), as ss reports it, sampled every 50 ms; not bytes over time.
    """
    inside = (pl.col("t_s") > start) & (pl.col("t_s") < end) & (pl.col("delivery_rate_bps") > 0)
    rates = samples.filter(inside)["delivery_rate_bps"].to_numpy()
    return float(rates.mean() / 1e6) if rates.size else None


def convergence_s(curves: Sequence[Progress], start: float, end: float) -> float | None:
    """Return the time (s) from `start`, when the last flow starts, to convergence; infinite if not before `end`.

    None for one flow, or if the rule's window does not fit. A pair that crosses on its way to unequal shares counts.

    The rule: the first moment (in steps of 0.1 s) from which the goodputs over the next 5 s have a Jain's index of at
    least 0.95, which is 1.6 : 1 for two flows. 5 s exceed a sawtooth of CUBIC at the rates and RTTs of the
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


def each_second(curve: Progress, start: float, stop: float) -> Floats:
    """Return the goodput in Mbit/s of every whole second from `start` to `stop` s, from (t, cumulative bytes)."""
    moments = start + np.arange(int(stop - start) + 1)
    received: Floats = np.interp(moments, *curve)
    return np.diff(received) * 8e-6


def goodput_series(flows: pl.DataFrame, n: int, start: float, stop: float) -> list[tuple[float, float]]:
    """Return the goodput of flow `n` in a frame with the columns of FLOWS: (middle of every second in s, Mbit/s)."""
    curve = progress(flows.filter(pl.col("flow") == n), start)
    return [(start + at + 0.5, round(mbps, 3)) for at, mbps in enumerate(each_second(curve, start, stop).tolist())]


def steady_state(curve: Progress, start: float, stop: float) -> tuple[float, float]:
    """Return the end of a flow's warm-up (s of the cell), and its goodput (Mbit/s) from there to `stop`.

    `sojourn.scoring.transport.steady.truncation` finds the warm-up in the goodput of each whole second from `start`.
    """
    begins = start + truncation(each_second(curve, start, stop).tolist())
    return round(begins, 3), round(rate_mbps(*curve, begins, stop), 4)


def progress(part: pl.DataFrame | None, start: float) -> Progress:
    """Return (t, cumulative bytes) of a flow with columns of FLOWS, beginning with 0 at its start."""
    if part is None:
        return np.array([start]), np.zeros(1)
    return np.insert(part["t_s"].to_numpy(), 0, start), np.insert(part["received_bytes"].to_numpy() * 1.0, 0, 0.0)
