# SPDX-License-Identifier: Apache-2.0
"""The raw files of a cell's run as tables for a user's own analysis: `TABLES` says what each holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.bottleneck.qdiscs import marks, sce_marks
from sojourn.scoring.schema.columns import FLOWS, PACKETS, PROBES, REPLAY, SHORT, TALKS, WIRE
from sojourn.scoring.tables import Columns, Table, addressed
from sojourn.scoring.transport.frames import read_table

_LOST = "µs; null: lost"


def _described(schema: Mapping[str, Any], *texts: str) -> Columns:
    return {name: (kind, text) for (name, kind), text in zip(schema.items(), texts, strict=True)}


def _read(name: str, run: Path) -> pl.DataFrame | None:
    return read_table(run / name) if (run / name).exists() else None


def _csv(name: str, row: str, columns: Columns) -> Table:
    return Table(row, columns, (name,), partial(_read, name))


def _talks(run: Path) -> pl.DataFrame | None:
    file = run / "talks.csv"
    return pl.read_csv(file, schema_overrides=TALKS, glob=False) if file.exists() else None


def _wire(run: Path) -> pl.DataFrame | None:
    table = _read("wire.csv", run)
    return None if table is None else addressed(table)


def _queues(run: Path) -> pl.DataFrame | None:
    file = run / "queues.jsonl"
    if not file.exists():
        return None
    rows = [
        {"t_s": sample["t"], "hop": sample["hop"], "dev": sample["dev"], **qdisc, "backlog_bytes": qdisc.get("backlog")}
        | {"marks": marks(qdisc), "sce_marks": sce_marks(qdisc)}
        for sample in map(json.loads, file.read_text().splitlines())
        for qdisc in sample["qdiscs"]
    ]
    columns = TABLES["queues"].columns
    kept = [{name: row.get(name) for name in columns} for row in rows]
    return pl.DataFrame(kept, schema={name: kind for name, (kind, _) in columns.items()}, strict=False)


TABLES: Mapping[str, Table] = {
    "flows": _csv(
        "flows.csv",
        "a sample of a flow's progress and of its sender's tcp_info",
        _described(
            FLOWS,
            "s of the cell",
            "its number, from 0",
            "payload received in order so far",
            "smoothed RTT, µs",
            "least RTT so far, µs",
            "congestion window, segments",
            "packets sent again so far",
            "packets lost now",
            "packets delivered so far",
            "of them with CE",
            "as TCP estimates it",
        ),
    ),
    "probes": _csv(
        "probes.csv",
        "a packet of a probe",
        _described(
            PROBES,
            "s of the cell at which it was sent",
            "number of its probe, from 0",
            f"one way down, or there and back if the cell requests it, {_LOST}",
        ),
    ),
    "short": _csv(
        "short.csv",
        "a short flow",
        _described(SHORT, "s of the cell", "payload", "from the client's SYN to the last byte, s; null: not finished"),
    ),
    "packets": _csv(
        "packets.csv",
        "a downlink packet of a flow, with `per_packet`",
        _described(
            PACKETS,
            "s of the cell at which it enters the path",
            "number of its flow, from 0",
            "of IP",
            f"one way, {_LOST}",
        ),
    ),
    "talks": Table(
        "a packet of a call",
        _described(
            TALKS,
            "s of the cell at which it was sent",
            "0 down, 1 up",
            f"one way, {_LOST}, or not recorded (in real time)",
            "payload",
        ),
        ("talks.csv",),
        _talks,
    ),
    "queues": Table(
        "a qdisc of a middlebox in a sample of `tc -s`",
        {
            "t_s": (pl.Float64, "s of the cell"),
            "hop": (pl.Int64, "number of the middlebox, from 0"),
            "dev": (pl.String, "`lan` is the way down, `wan` the way up"),
            "kind": (pl.String, "dualpi2, fq_codel, htb, …"),
            "handle": (pl.String, "as tc has it"),
            "parent": (pl.String, "as tc has it; null at the root"),
            "backlog_bytes": (pl.Float64, "bytes that wait"),
            "qlen": (pl.Float64, "packets that wait"),
            "bytes": (pl.Float64, "sent so far"),
            "packets": (pl.Float64, "sent so far"),
            "drops": (pl.Float64, "so far"),
            "marks": (pl.Float64, "CE marks so far; null where the kind has none"),
            "sce_marks": (pl.Float64, "packets made ECT(1) for SCE so far; null where it marks none"),
        },
        ("queues.jsonl",),
        _queues,
    ),
    "wire": Table(
        "a flow as the bottleneck saw it, by its outer headers (in real time)",
        _described(
            WIRE | {"src": pl.String, "dst": pl.String},
            "IP address of the sender",
            "its port",
            "IP address of the receiver",
            "its port",
            "6 TCP, 17 UDP",
            "all of the flow",
            "those with payload",
            "of IP, of packets with payload",
            "packets sent again",
            "packets with payload that are Not-ECT",
            "ECT(1)",
            "ECT(0)",
            "CE",
            "whether its SYN offers AccECN",
            "largest IP packet, bytes",
        ),
        ("wire.csv",),
        _wire,
    ),
    "replay": _csv(
        "replay.csv",
        "one way through an IPsec tunnel, at its receiving end",
        _described(
            REPLAY, "`down` or `up`", "replay window, packets", "accepted", "too old for the window", "received twice"
        ),
    ),
}
