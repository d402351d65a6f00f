# SPDX-License-Identifier: Apache-2.0
"""Samples of a cell's flows from the records of a real-time lab: captures and the output of `ss`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from sojourn.scoring.schema.columns import FLOWS, PROBES

STATES = ("srtt_us", "min_rtt_us", "cwnd", "retrans", "lost", "delivered", "delivered_ce", "delivery_rate_bps")
"""Columns of FLOWS that come from the sender."""


def states(lines: Iterable[str], first_port: int, t0: float) -> pl.DataFrame:
    """Return the lines of sojourn.traffic.ss at a sending host, by time: t_s (since `t0`, Unix s), flow and STATES.

    A flow's number is its local port minus `first_port`.
    """
    rows = []
    for line in lines:
        sample = json.loads(line)
        flow = int(sample["flow"].partition(">")[0].rpartition(":")[2]) - first_port
        rtts = [None if sample[key] is None else round(sample[key] * 1e3) for key in ("rtt_ms", "minrtt_ms")]
        rows.append((sample["t"] - t0, flow, *rtts, *(sample[key] for key in STATES[2:])))
    return _frame(rows, STATES)


def received(lines: Iterable[str], first_port: int, t0: float) -> pl.DataFrame:
    """Return the lines of sojourn.traffic.ss at a receiving host: t_s, flow (by the remote port) and received_bytes."""
    rows = []
    for line in lines:
        sample = json.loads(line)
        flow = int(sample["flow"].rpartition(":")[2]) - first_port
        rows.append((sample["t"] - t0, flow, sample["bytes_received"]))
    return _frame(rows, ("received_bytes",))


def progress(advanced: pl.DataFrame, flow: int, t0: float) -> pl.DataFrame:
    """Return one flow's progress at the point of capture: t_s (since `t0`, Unix s), flow, received_bytes.

    `advanced` are its packets with `sojourn.scoring.packets.per_flow.with_advance`: sequence progress, each byte once.
    """
    since = (advanced["t_ns"] - round(t0 * 1e9)) / 1e9
    columns = {"t_s": since, "flow": pl.repeat(flow, len(since), eager=True), "received_bytes": advanced["advance"]}
    return _frame(pl.DataFrame(columns), ("received_bytes",)).with_columns(pl.col("received_bytes").cum_sum())


def sampled(bytes_: pl.DataFrame, states: pl.DataFrame, every_s: float, until: dict[int, float]) -> pl.DataFrame:
    """Return a row of FLOWS per flow and `every_s` s, with the last known values, from its first byte to `until` s."""
    parts = [pl.DataFrame(schema=FLOWS)]
    for flow, end in until.items():
        moments = np.round(np.arange(1, round(end / every_s) + 1) * every_s, 6)
        row = pl.DataFrame({"t_s": moments, "flow": np.full(len(moments), flow, dtype=np.int64)})
        for known in (bytes_, states):
            row = row.join_asof(known.filter(pl.col("flow") == flow).drop("flow"), on="t_s")
        parts.append(row.drop_nulls("received_bytes").select(list(FLOWS)))
    return pl.concat(parts).sort("t_s", "flow")


def probed(probes: Iterable[pl.DataFrame], t0: float, seconds: float) -> pl.DataFrame:
    """Return the rows of PROBES from t (Unix s) and delay_us of probes sent within `seconds` s from `t0` on."""
    numbered = (part.with_columns(t_s=pl.col("t") - t0, probe=pl.lit(n, pl.Int64)) for n, part in enumerate(probes))
    return pl.concat(numbered).select(list(PROBES)).filter(pl.col("t_s").is_between(0, seconds)).sort("t_s", "probe")


def _frame(rows: Sequence[tuple[object, ...]] | pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    schema = {name: FLOWS[name] for name in ("t_s", "flow", *names)}
    return pl.DataFrame(rows, schema=schema, orient=None if isinstance(rows, pl.DataFrame) else "row").sort("t_s")
