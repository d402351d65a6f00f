# SPDX-License-Identifier: Apache-2.0
"""Columns of a run's tables, each declared once: type, and meaning with unit. Who records them need not score them.

Times of a cell are s of the cell and delays µs, null for what never came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

import polars as pl
from polars._typing import PolarsDataType


@dataclass(frozen=True)
class TableColumn:
    """A column of a table, or in the annotation of a record's field: the column that the field becomes."""

    kind: PolarsDataType
    text: str
    """What it holds, with its unit."""
    name: str = ""
    """The column's name, if not the field's."""
    field: str = ""
    """The record's field, if not named like the column."""


class Columns(dict[str, PolarsDataType]):
    """The columns of a table: name → type, as polars takes it; `texts`: name → meaning; `fields`: name → field."""

    def __init__(self, columns: Mapping[str, TableColumn]) -> None:
        super().__init__({name: column.kind for name, column in columns.items()})
        self.texts = {name: column.text for name, column in columns.items()}
        self.fields = {name: column.field or name for name, column in columns.items()}

    def read(self, file: Path) -> pl.DataFrame:
        """Read a table of a run from its CSV file. Raises what polars raises for a damaged file.

        A column that an earlier version did not record is null.
        """
        # The name of a folder is no pattern: polars finds nothing in `runs[1]`, and returns an empty table.
        return pl.read_csv(file, schema=self, glob=False, missing_columns="insert")


def columns_of(record: type) -> dict[str, TableColumn]:
    """Return the columns that the fields of a record (TypedDict) declare, in their order."""
    return {
        it.name or field: replace(it, field=field)
        for field, hint in get_type_hints(record, include_extras=True).items()
        for it in _annotations(hint)
        if isinstance(it, TableColumn)
    }


def _annotations(hint: Any) -> Iterator[Any]:
    while get_origin(hint) in (Annotated, NotRequired):
        yield from getattr(hint, "__metadata__", ())
        hint = get_args(hint)[0]


_CELL_S = TableColumn(pl.Float64, "s of the cell")
_LOST = "µs; null: lost"
_ENDS = {
    "src": TableColumn(pl.UInt128, "sender's IP address"), "sport": TableColumn(pl.UInt16, "its port"),
    "dst": TableColumn(pl.UInt128, "receiver's IP address"), "dport": TableColumn(pl.UInt16, "its port"),
    "proto": TableColumn(pl.UInt8, "6 TCP, 17 UDP"),
}  # fmt: skip
ENDS = _ENDS | {end: TableColumn(pl.String, _ENDS[end].text) for end in ("src", "dst")}
"""The two ends of a packet's flow, with addresses as text."""
FLOWS = Columns({
    "t_s": _CELL_S,
    "flow": TableColumn(pl.Int64, "its number, from 0"),
    "received_bytes": TableColumn(pl.Int64, "payload received in order so far"),
    "srtt_us": TableColumn(pl.Int64, "smoothed RTT, µs"),
    "min_rtt_us": TableColumn(pl.Int64, "least RTT so far, µs"),
    "cwnd": TableColumn(pl.Int64, "congestion window, segments"),
    "retrans": TableColumn(pl.Int64, "packets sent again so far"),
    "lost": TableColumn(pl.Int64, "packets lost now"),
    "delivered": TableColumn(pl.Int64, "packets delivered so far"),
    "delivered_ce": TableColumn(pl.Int64, "of them with CE"),
    "delivery_rate_bps": TableColumn(pl.Int64, "as TCP estimates it"),
})  # fmt: skip
PROBES = Columns({
    "t_s": TableColumn(pl.Float64, "s of the cell at which it was sent"),
    "probe": TableColumn(pl.Int64, "number of its probe, from 0"),
    "delay_us": TableColumn(pl.Float64, f"one way down, or there and back if the cell requests it, {_LOST}"),
})  # fmt: skip
TALKS = Columns({
    "t_s": TableColumn(pl.Float64, "s of the cell at which it was sent; between browsers, at which it arrived"),
    "talk": TableColumn(pl.Int64, "0 down, 1 up"),
    "delay_us": TableColumn(pl.Float64, f"one way, {_LOST}, or not recorded (between browsers)"),
    "bytes": TableColumn(pl.Int64, "payload"),
    "ce": TableColumn(pl.Int64, "1: it arrived with CE; not recorded without browsers"),
})  # fmt: skip
CROSSINGS = Columns({
    "t_s": TableColumn(pl.Float64, "s of the cell at which it is before the bottleneck"),
    "talk": TableColumn(pl.Int64, "0 down, 1 up"),
    "bytes": TableColumn(pl.Int64, "payload"),
    "queue_us": TableColumn(pl.Float64, f"time in the bottleneck, {_LOST}"),
    "marked": TableColumn(pl.Int64, "1: the bottleneck marked it CE"),
})  # fmt: skip
PICTURES = Columns({
    "t_s": TableColumn(pl.Float64, "s of the cell at which the camera captured it"),
    "talk": TableColumn(pl.Int64, "0 down, 1 up"),
    "delay_us": TableColumn(pl.Float64, "until the other end's page had it, µs; null: it never did"),
})  # fmt: skip
ESTIMATES = Columns({
    "t_s": TableColumn(pl.Float64, "s of the cell"),
    "talk": TableColumn(pl.Int64, "0 sends down, 1 up"),
    "available_bps": TableColumn(pl.Float64, "bit/s that the browser's congestion control allows"),
})  # fmt: skip
TONES = Columns({
    "t_s": TableColumn(pl.Float64, "s of the cell at which these 20 ms of sound were spoken"),
    "talk": TableColumn(pl.Int64, "0: spoken at the server and heard at the client, 1 up"),
    "delay_ms": TableColumn(pl.Float64, "from mouth to ear; null: never heard"),
    "gap_ms": TableColumn(pl.Float64, "gaps that the listener heard in place of them"),
    "ear_ms": TableColumn(pl.Float64, "the listener's time in which it heard or missed them; null in older runs"),
})  # fmt: skip
NETEQ = Columns({
    "t_s": TableColumn(pl.Float64, "s of the cell"),
    "talk": TableColumn(pl.Int64, "0: of the client, which hears what is sent down, 1 of the other end"),
    "samples": TableColumn(pl.Int64, "played so far, as all following counters of `getStats`"),
    "concealed": TableColumn(pl.Int64, "made up where packets were missing"),
    "inserted": TableColumn(pl.Int64, "by playing slower"),
    "removed": TableColumn(pl.Int64, "by playing faster"),
    "emitted": TableColumn(pl.Int64, "taken from the buffer"),
    "waited_s": TableColumn(pl.Float64, "time in the buffer, of all emitted samples together"),
})  # fmt: skip
_WIRE = {
    "packets": TableColumn(pl.Int64, "all of the flow"),
    "data_packets": TableColumn(pl.Int64, "those with payload"),
    "bytes": TableColumn(pl.Int64, "new payload: of TCP without retransmissions"),
    "resent": TableColumn(pl.Int64, "packets sent again"),
    "not_ect": TableColumn(pl.Int64, "packets with payload that are Not-ECT"),
    "ect1": TableColumn(pl.Int64, "ECT(1)"),
    "ect0": TableColumn(pl.Int64, "ECT(0)"),
    "ce": TableColumn(pl.Int64, "CE"),
    "accecn_syn": TableColumn(pl.Boolean, "whether its SYN offers AccECN"),
    "largest": TableColumn(pl.Int64, "largest IP packet, bytes"),
}  # fmt: skip
WIRE, WIRE_AS_TEXT = Columns(_ENDS | _WIRE), Columns(ENDS | _WIRE)
REPLAY = Columns({
    "way": TableColumn(pl.String, "`down` or `up`"),
    "window": TableColumn(pl.Int64, "replay window, packets"),
    "packets": TableColumn(pl.Int64, "accepted"),
    "late": TableColumn(pl.Int64, "too old for the window"),
    "repeated": TableColumn(pl.Int64, "received twice"),
})  # fmt: skip
SHORT = Columns({
    "start_s": _CELL_S,
    "bytes": TableColumn(pl.Int64, "payload"),
    "fct_s": TableColumn(pl.Float64, "from the client's SYN to the last byte, s; null: not finished"),
})  # fmt: skip
PACKETS = Columns({
    "t_s": TableColumn(pl.Float64, "s of the cell at which it enters the path"),
    "flow": TableColumn(pl.Int64, "number of its flow, from 0"),
    "bytes": TableColumn(pl.Int64, "of IP"),
    "delay_us": TableColumn(pl.Float64, f"one way, {_LOST}"),
})  # fmt: skip
INTERVALS = Columns({
    "t_s": TableColumn(pl.Float64, "s of the cell at which the 100 ms begin"),
    "flow": TableColumn(pl.Int64, "number of its flow, from 0"),
    "mbps": TableColumn(pl.Float64, "payload behind the bottleneck, Mbit/s"),
    "sent": TableColumn(pl.Int64, "packets with payload before the bottleneck"),
    "ect1": TableColumn(pl.Int64, "of them ECT(1)"),
    "ce": TableColumn(pl.Int64, "packets with payload behind the bottleneck that are CE"),
    "marked": TableColumn(pl.Int64, "packets that it marked CE, by the time before it; null: unknown"),
    "lost": TableColumn(pl.Int64, "packets that did not leave it; null: unknown"),
    "queue_ms": TableColumn(pl.Float64, "mean time in the bottleneck's queue, ms; null: none passed"),
    "queue_max_ms": TableColumn(pl.Float64, "longest time in it, ms"),
})  # fmt: skip
