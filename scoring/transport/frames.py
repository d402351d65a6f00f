# SPDX-License-Identifier: Apache-2.0
"""The raw files of a cell's run as tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.scoring.schema.columns import ESTIMATES, FLOWS, PACKETS, PROBES, REPLAY, SHORT, TALKS, WIRE, Columns

#: The tables that are scored, with their columns; those of talks are as recorded.
TABLES: dict[str, Columns] = {
    "flows.csv": FLOWS, "probes.csv": PROBES, "short.csv": SHORT, "wire.csv": WIRE, "packets.csv": PACKETS,
    "replay.csv": REPLAY,
}  # fmt: skip


def _read(file: Path) -> pl.DataFrame:
    """Read one of TABLES; empty if it was not recorded. Raises what polars raises for a damaged file."""
    columns = TABLES[file.name]
    return columns.read(file) if file.exists() else pl.DataFrame(schema=columns)


@dataclass(frozen=True)
class CellFrames:
    """The records of a cell's run, with the columns of `sojourn.scoring.schema.columns`; None or empty: not recorded.

    `talks` without `delay_us` has no delays recorded; `queues` are the lines of queues.jsonl.
    """

    flows: pl.DataFrame
    probes: pl.DataFrame | None = None
    short: pl.DataFrame | None = None
    wire: pl.DataFrame | None = None
    talks: pl.DataFrame | None = None
    packets: pl.DataFrame | None = None
    replay: pl.DataFrame | None = None
    queues: Iterable[Mapping[str, Any]] = ()
    estimates: pl.DataFrame | None = None
    """Of a call between browsers."""

    @classmethod
    def read(cls, folder: Path) -> CellFrames:
        """Read the files of a run. Raises polars' and json's errors for damaged files."""

        flows, probes, short, wire, packets, replay = (_read(folder / name) for name in TABLES)
        said, queues, allowed = (folder / name for name in ("talks.csv", "queues.jsonl", "estimates.csv"))
        return cls(
            flows,
            probes,
            short,
            wire,
            # Without a delay column, delays were not recorded.
            pl.read_csv(said, schema_overrides=TALKS, glob=False) if said.exists() else None,
            packets,
            replay,
            [json.loads(line) for line in queues.read_text().splitlines()] if queues.exists() else (),
            ESTIMATES.read(allowed) if allowed.exists() else None,
        )
