# SPDX-License-Identifier: Apache-2.0
"""A run as a flent data file (JSON, format version 4, gzip), which flent plots like its own."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.errors import CodedError
from sojourn.harness.matrix.cells.cell_run import recorded
from sojourn.harness.store.loaded import LoadError
from sojourn.harness.store.manifest import is_run, read_manifest
from sojourn.scoring.schema.columns import FLOWS, PROBES
from sojourn.scoring.schema.files import CELL

SUFFIX = ".flent.gz"
_VERSION = 4


class ExportError(CodedError):
    """A folder contains no run of a cell; the message is one line."""


def export(results: Path, to: Path) -> list[Path]:
    """Write a `.flent.gz` into `to` for every run of a cell at or below `results`; return the files.

    Raises ExportError when there is none, LoadError for a run with a victim.
    """
    if is_run(results) and CELL not in read_manifest(results).files:
        raise LoadError(
            f"{results}: `sojourn flent` exports runs of cells, and this run has a victim; `sojourn data` writes its "
            "tables",
            code="no-cell",
        )
    runs = sorted(path.parent for path in results.rglob("cell.json") if recorded(path.parent))
    if not runs:
        raise ExportError(f"{results}: no finished run of a cell whose files are as recorded", code="not-a-run")
    to.mkdir(parents=True, exist_ok=True)
    written = list[Path]()
    for run in runs:
        written.append(_write(run, to, written))
    return written


def _write(run: Path, to: Path, others: Sequence[Path]) -> Path:
    """Write a run's file, with a number if one of the `others` has its name, and return its path."""
    about = json.loads((run / "cell.json").read_bytes())
    cell, seed = Cell.model_validate(about["cell"]), int(about["seed"])
    finished = datetime.fromtimestamp((run / "flows.csv").stat().st_mtime, UTC)
    flows = FLOWS.read(run / "flows.csv")
    probes = PROBES.read(run / "probes.csv") if (run / "probes.csv").exists() else None
    name = f"{run.parent.parent.name}-{cell.slug}-seed-{seed}"
    paths = (to / f"{name}{further}{SUFFIX}" for further in chain([""], (f"-{n}" for n in count(2))))
    path = next(path for path in paths if path not in others)
    data = json.dumps(data_file(cell, seed, flows, probes, finished, path.name))
    path.write_bytes(gzip.compress(data.encode(), compresslevel=6, mtime=0))
    return path


def data_file(
    cell: Cell, seed: int, flows: pl.DataFrame, probes: pl.DataFrame | None, start: datetime, name: str
) -> dict[str, Any]:
    """Return a run as flent's data file; `start` is the time of the cell's second 0, `name` the file's name.

    Its test is `tcp_nup`: flows from the server are uploads, as the public harnesses run them. Delays of probes are
    one way or there and back, as the name of their series says.
    """
    t0 = start.timestamp()
    x_values = [round(n * cell.sample_s, 6) for n in range(int(cell.seconds / cell.sample_s) + 1)]
    series = dict(_flow_series(cell, flows, t0)) | dict(_probe_series(cell, probes, t0))
    results = {key: _on_grid(raw, t0, x_values) for key, raw in series.items()}
    uploads = [values for key, values in results.items() if key.startswith("TCP upload::")]
    if uploads:
        sums = [
            sum(known) if (known := [v for v in row if v is not None]) else None for row in zip(*uploads, strict=True)
        ]
        results["TCP upload sum"] = sums
        results["TCP upload avg"] = [None if total is None else total / len(uploads) for total in sums]
    when = start.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    metadata = {
        "NAME": "tcp_nup",
        "TITLE": f"{cell.name} seed {seed}",
        "DATA_FILENAME": name,
        "TIME": when,
        "T0": when,
        "LENGTH": cell.seconds,
        "TOTAL_LENGTH": cell.seconds,
        "STEP_SIZE": cell.sample_s,
        "HOST": "receiver",
        "HOSTS": ["receiver"],
        "LOCAL_HOST": "sender",
        "IP_VERSION": cell.ip_version,
        "NOTE": "",
        "FLENT_VERSION": "Sojourn",
        "TEST_PARAMETERS": {"upload_streams": str(len(uploads))},
        "SERIES_META": {
            key: {"UNITS": "ms" if key.startswith("Ping") else "Mbits/s"} | _about(cell, key) for key in results
        },
    }
    return {
        "version": _VERSION,
        "metadata": metadata,
        "x_values": x_values,
        "results": results,
        "raw_values": series,
    }


def _name(cell: Cell, n: int) -> str:
    way = cell.flows[n].up
    return f"TCP {'download' if way else 'upload'}::{sum(flow.up is way for flow in cell.flows[: n + 1])}"


def _about(cell: Cell, key: str) -> dict[str, Any]:
    for n, flow in enumerate(cell.flows):
        if _name(cell, n) == key:
            return {"CONG_CONTROL": flow.contender, "RTT_MS": flow.rtt_us / 1000}
    return {}


def _flow_series(cell: Cell, flows: pl.DataFrame, t0: float) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    sampled = flows.with_columns(
        mbps=(pl.col("received_bytes").diff() * 8e-6 / pl.col("t_s").diff()).over("flow"),
    )
    for n in range(len(cell.flows)):
        yield (
            _name(cell, n),
            [
                {
                    "t": t0 + row["t_s"],
                    "dur": cell.sample_s,
                    "val": row["mbps"],
                    "tcp_delivery_rate": row["mbps"],
                    # Real-time labs may not have it for a sample.
                    "tcp_rtt": None if row["srtt_us"] is None else row["srtt_us"] / 1e3,
                    "tcp_cwnd": row["cwnd"],
                    "tcp_retransmit": row["retrans"],
                }
                for row in sampled.filter((pl.col("flow") == n) & pl.col("mbps").is_not_null()).iter_rows(named=True)
            ],
        )


def _probe_series(cell: Cell, probes: pl.DataFrame | None, t0: float) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if probes is None:
        return
    for n, probe in enumerate(cell.probes):
        answered = probes.filter((pl.col("probe") == n) & pl.col("delay_us").is_not_null())
        way = "there and back" if probe.round_trip else "one way"
        yield (
            f"Ping (ms) {way} {n + 1} {probe.ecn}",
            [
                {"t": t0 + t, "val": owd / 1e3, "seq": seq}
                for seq, (t, owd) in enumerate(answered.select("t_s", "delay_us").iter_rows())
            ],
        )


def _on_grid(raw: list[dict[str, Any]], t0: float, x_values: list[float]) -> list[float | None]:
    """Return each raw sample's value at the nearest step of the grid; None at the others."""
    step = x_values[1] - x_values[0] if len(x_values) > 1 else 1.0
    values: list[float | None] = [None] * len(x_values)
    for sample in raw:
        at = round((sample["t"] - t0) / step)
        if 0 <= at < len(values):
            values[at] = sample["val"]
    return values
