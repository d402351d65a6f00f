# SPDX-License-Identifier: Apache-2.0
"""Goodput, ECN and retransmissions of flows, from the packet table of `sojourn.scoring.packets.pcapng`."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.scoring.packets.pcapng import ACK, AE, CE, CWR, ECE, ECT0, ECT1, NOT_ECT, SYN, TCP, UDP
from sojourn.traffic import ports

FLOW = ["src", "sport", "dst", "dport", "proto"]
_HALF, _WRAP = 1 << 31, 1 << 32
#: Before the end of a contender, in which it stops.
_TAIL_S = 2.0


def address(text: str) -> int:
    """Return an address as the number used in the packet table. Raises ValueError."""
    return int(ipaddress.ip_address(text))


def is_at(end: str, text: str) -> pl.Expr:
    """Return whether the `end` of a packet (src, dst) has this address. Raises ValueError."""
    return pl.col(end) == pl.lit(address(text), dtype=pl.UInt128)


def select(
    packets: pl.DataFrame,
    *,
    src: str | None = None,
    sport: int | None = None,
    dst: str | None = None,
    dport: int | None = None,
) -> pl.DataFrame:
    """Return the packets from `src`:`sport` to `dst`:`dport`; None matches any."""
    wanted = [is_at(end, text) for end, text in (("src", src), ("dst", dst)) if text]
    wanted += [pl.col(end) == port for end, port in (("sport", sport), ("dport", dport)) if port is not None]
    return packets.filter(*wanted) if wanted else packets


def contending(addresses: Mapping[str, str]) -> tuple[pl.Expr, pl.Expr]:
    """Return the expressions for contenders' packets, down and up, from the `addresses` of the lab's hosts.

    Bulk flows go from sender to receiver, and their acknowledgements up; applications go from server to client, with
    the ports of `sojourn.traffic.ports`, and a call and a game also up.
    """

    def from_to(source: str, sink: str) -> pl.Expr:
        return is_at("src", addresses[source]) & is_at("dst", addresses[sink])

    sport = pl.col("sport")
    served = (pl.col("proto") == TCP) & (sport.is_between(ports.SHORT, ports.LAST_SHORT) | (sport == ports.SECOND))
    talk = (pl.col("proto") == UDP) & pl.col("dport").is_between(ports.TALK, ports.TALK + 1)
    down = from_to("sender", "receiver") | (from_to("server", "client") & (served | talk))
    game = (pl.col("proto") == UDP) & ((sport == ports.GAME) | (pl.col("dport") == ports.GAME))
    down = down | (from_to("server", "client") & game)
    return down, from_to("receiver", "sender") | (from_to("client", "server") & (talk | game))


def with_advance(packets: pl.DataFrame) -> pl.DataFrame:
    """Add `advance` (bytes) and `resent` (bool), flow by flow; packets must be in order of time.

    For TCP, `advance` is the increase of the flow's highest sequence number: 0 for a retransmission; a hole counts
    when the data after it passes; numbers wrap at 2^32. For UDP (QUIC) it is the payload. `resent` marks TCP data
    that advances nothing: a retransmission, or a packet that is late by reordering.
    """
    tcp, data, syn = pl.col("proto") == TCP, pl.col("payload") > 0, pl.col("flags") & SYN != 0
    end = pl.col("seq").cast(pl.Int64) + pl.col("payload") + syn.cast(pl.Int64)
    # Neighbours in a flow are less than 2^31 apart, so the signed difference unwraps the numbers.
    step = ((end.diff() + _HALF) % _WRAP - _HALF).fill_null(0)
    # Packets without data may overtake lost data: they advance nothing.
    highest = pl.when(data | syn).then(step.cum_sum()).cum_max().forward_fill()
    advance = highest.diff().fill_null(pl.col("payload").cast(pl.Int64))
    return packets.with_columns(
        pl.when(~data).then(0).when(tcp).then(advance.over(FLOW)).otherwise(pl.col("payload")).alias("advance")
    ).with_columns((tcp & data & (pl.col("advance") == 0)).alias("resent"))


def goodput_bps(advanced: pl.DataFrame, t0: float, t1: float) -> float:
    """Payload bit/s of the flows given from t0 to t1 (Unix s): (seq(t1) - seq(t0)) * 8 / (t1 - t0)."""
    if t1 <= t0:
        raise ValueError(f"goodput window ends at {t1}, not after its start {t0}")
    inside = advanced.filter(pl.col("t_ns").is_between(round(t0 * 1e9), round(t1 * 1e9), closed="left"))
    return float(inside["advance"].sum()) * 8 / (t1 - t0)


def goodput_series(advanced: pl.DataFrame, t0: float, t1: float, step: float) -> npt.NDArray[np.float64]:
    """Payload bit/s in bins of `step` s from t0 to t1 (Unix s); the last bin may reach past t1."""
    bins = max(1, int(np.ceil((t1 - t0) / step - 1e-9)))
    # Whole nanoseconds: seconds since 1970 as a float are only good to 240 ns.
    since = advanced["t_ns"].to_numpy() - round(t0 * 1e9)
    index = since // round(step * 1e9)
    kept = (index >= 0) & (index < bins)
    return np.bincount(index[kept], advanced["advance"].to_numpy()[kept], bins) * 8 / step


def window_goodput_bps(advanced: pl.DataFrame, end: float, window: float) -> float:
    """Steady-state goodput: payload bit/s over the `window` s that end _TAIL_S before `end` (Unix s)."""
    return goodput_bps(advanced, end - _TAIL_S - window, end - _TAIL_S)


def esce(packets: pl.DataFrame, flow: Mapping[str, int]) -> int:
    """Return the number of packets to the sender of `flow` (a row of `flow_table`) that echo SCE (former NS flag)."""
    ends = {"src": "dst", "dst": "src", "sport": "dport", "dport": "sport", "proto": "proto"}
    back = [pl.col(end) == pl.lit(flow[other], dtype=packets.schema[end]) for end, other in ends.items()]
    return packets.filter(*back, pl.col("flags") & (AE | SYN) == AE).height


def flow_table(advanced: pl.DataFrame) -> pl.DataFrame:
    """Return one row per flow and direction, by bytes: packets, bytes, ECN codepoints on data, resent, SYN flags.

    `ect0`, `ect1`, `ce`, `not_ect` and `resent` count packets with payload. `accecn_syn` is true if the
    flow's SYN has AE, CWR and ECE all set (RFC 9768), null if no SYN of this direction was captured.
    """
    data = pl.col("payload") > 0
    syn = (pl.col("flags") & (SYN | ACK)) == SYN
    asks = (pl.col("flags") & (AE | CWR | ECE)) == AE | CWR | ECE
    codepoints = [
        (data & (pl.col("ecn") == value)).sum().alias(name)
        for name, value in (("not_ect", NOT_ECT), ("ect1", ECT1), ("ect0", ECT0), ("ce", CE))
    ]
    return (
        advanced.group_by(FLOW)
        .agg(
            pl.len().alias("packets"),
            data.sum().alias("data_packets"),
            pl.col("advance").sum().alias("bytes"),
            pl.col("resent").sum().alias("resent"),
            *codepoints,
            asks.filter(syn).any(ignore_nulls=False).alias("accecn_syn"),
            syn.any().alias("_syn"),
            pl.col("ip_bytes").max().alias("largest"),
            (pl.col("t_ns").min() / 1e9).alias("first"),
            (pl.col("t_ns").max() / 1e9).alias("last"),
        )
        .with_columns(pl.when("_syn").then("accecn_syn"))
        .drop("_syn")
        .sort(["bytes", *FLOW], descending=[True] + [False] * len(FLOW))
    )


def total(flows: pl.DataFrame) -> dict[str, Any]:
    """Return the sums of a `flow_table` that is not empty, with the ends and the SYN of its largest flow."""
    counts = ("packets", "data_packets", "bytes", "resent", "not_ect", "ect1", "ect0", "ce")
    return flows.row(0, named=True) | {name: flows[name].sum() for name in counts}
