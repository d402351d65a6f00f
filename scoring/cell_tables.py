# SPDX-License-Identifier: Apache-2.0
"""The raw files of a cell's run as tables for a user's own analysis: `TABLES` says what each holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import polars as pl

from sojourn.scoring.schema.columns import (
    CROSSINGS,
    ESTIMATES,
    FLOWS,
    INTERVALS,
    NETEQ,
    PACKETS,
    PICTURES,
    PROBES,
    REPLAY,
    SHORT,
    TALKS,
    TONES,
    WIRE,
    WIRE_AS_TEXT,
    Columns,
    TableColumn,
)  # fmt: skip
from sojourn.scoring.tables import QUEUE, Table, addressed, from_rows, queue_row


def _read(name: str, columns: Columns, run: Path) -> pl.DataFrame | None:
    return columns.read(run / name) if (run / name).exists() else None


def _csv(name: str, row: str, columns: Columns) -> Table:
    return Table(row, columns, (name,), partial(_read, name, columns))


def _talks(run: Path) -> pl.DataFrame | None:
    file = run / "talks.csv"
    return pl.read_csv(file, schema_overrides=TALKS, glob=False) if file.exists() else None


def _wire(run: Path) -> pl.DataFrame | None:
    table = _read("wire.csv", WIRE, run)
    return None if table is None else addressed(table)


def _queues(run: Path) -> pl.DataFrame | None:
    file = run / "queues.jsonl"
    if not file.exists():
        return None
    rows = [
        {"t_s": sample["t"], "hop": sample["hop"], "dev": sample["dev"]} | queue_row(qdisc)
        for sample in map(json.loads, file.read_text().splitlines())
        for qdisc in sample["qdiscs"]
    ]
    return from_rows(rows, TABLES["queues"].columns)


TABLES: Mapping[str, Table] = {
    "flows": _csv("flows.csv", "a sample of a flow's progress and of its sender's tcp_info", FLOWS),
    "probes": _csv("probes.csv", "a packet of a probe", PROBES),
    "short": _csv("short.csv", "a short flow", SHORT),
    "packets": _csv("packets.csv", "a downlink packet of a flow, with `per_packet`", PACKETS),
    "talks": Table("a packet of a call", TALKS, ("talks.csv",), _talks),
    "crossings": _csv("crossings.csv", "a packet of a call between browsers, in the bottleneck", CROSSINGS),
    "pictures": _csv("pictures.csv", "a frame that a camera of a call between browsers captured", PICTURES),
    "estimates": _csv("estimates.csv", "an end of a call between browsers in a second", ESTIMATES),
    "tones": _csv("tones.csv", "20 ms of the sound of a call", TONES),
    "neteq": _csv("neteq.csv", "an end of a call with sound in a second", NETEQ),
    "queues": Table(
        "a qdisc of a middlebox in a sample of `tc -s`",
        Columns(
            {
                "t_s": TableColumn(pl.Float64, "s of the cell"),
                "hop": TableColumn(pl.Int64, "number of the middlebox, from 0"),
                "dev": TableColumn(pl.String, "`lan` is the way down, `wan` the way up"),
                **QUEUE,
            }
        ),
        ("queues.jsonl",),
        _queues,
    ),
    "wire": Table(
        "a flow as the bottleneck saw it, by its outer headers (in real time)", WIRE_AS_TEXT, ("wire.csv",), _wire
    ),
    "intervals": _csv("intervals.csv", "a flow in 100 ms, in cells with a user's program", INTERVALS),
    "replay": _csv("replay.csv", "one way through an IPsec tunnel, at its receiving end", REPLAY),
}
