# SPDX-License-Identifier: Apache-2.0
"""Columns of the tables from the two ends of a cell: recorders need not know the scoring.

Times are s of the cell and delays µs, null for packets that never arrived.
"""

from __future__ import annotations

import polars as pl

FLOWS = {
    "t_s": pl.Float64, "flow": pl.Int64, "received_bytes": pl.Int64, "srtt_us": pl.Int64, "min_rtt_us": pl.Int64,
    "cwnd": pl.Int64, "retrans": pl.Int64, "lost": pl.Int64, "delivered": pl.Int64, "delivered_ce": pl.Int64,
    "delivery_rate_bps": pl.Int64,
}  # fmt: skip
PROBES = {"t_s": pl.Float64, "probe": pl.Int64, "delay_us": pl.Float64}
TALKS = {"t_s": pl.Float64, "talk": pl.Int64, "delay_us": pl.Float64, "bytes": pl.Int64}
WIRE = {
    "src": pl.UInt128, "sport": pl.UInt16, "dst": pl.UInt128, "dport": pl.UInt16, "proto": pl.UInt8,
    "packets": pl.Int64, "data_packets": pl.Int64, "bytes": pl.Int64, "resent": pl.Int64, "not_ect": pl.Int64,
    "ect1": pl.Int64, "ect0": pl.Int64, "ce": pl.Int64, "accecn_syn": pl.Boolean, "largest": pl.Int64,
}  # fmt: skip
REPLAY = {"way": pl.String, "window": pl.Int64, "packets": pl.Int64, "late": pl.Int64, "repeated": pl.Int64}
SHORT = {"start_s": pl.Float64, "bytes": pl.Int64, "fct_s": pl.Float64}
PACKETS = {"t_s": pl.Float64, "flow": pl.Int64, "bytes": pl.Int64, "delay_us": pl.Float64}
"""Time of sending (s of the cell), flow, IP bytes, time on the path (µs, null: lost)."""
