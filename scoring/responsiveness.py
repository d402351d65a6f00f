# SPDX-License-Identifier: Apache-2.0
"""Responsiveness of new connections, from the foreign probes of a run, and the result of a competing test.

Source: draft-ietf-ippm-responsiveness-09, "Aggregating the Measurements".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from sojourn.traffic.responsiveness import ForeignProbe, foreign_responsiveness, foreign_times

_TIMES = ("tcp_ms", "tls_ms", "http_ms")


def frame(lines: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return foreign probes as columns t (Unix s of the SYN), tcp_ms, tls_ms, http_ms; null: not completed.

    Without probes that may have been under way at the end: not completed, and sent within as long of the last one as
    the slowest completed one took.
    """
    rows = [(line["t"], *(line.get(name) for name in _TIMES)) for line in lines if line["probe"] == "foreign"]
    probes = pl.DataFrame(rows, schema=dict.fromkeys(("t", *_TIMES), pl.Float64), orient="row").sort("t")
    took_s = pl.sum_horizontal(_TIMES, ignore_nulls=False) / 1e3
    late = pl.col("t") > pl.col("t").max() - took_s.max().fill_null(0)
    return probes.filter(~(late & took_s.is_null()))


def foreign_fields(probes: pl.DataFrame) -> dict[str, float | None]:
    """Return the fields of Metrics for these probes: RPM, and its parts, of those that completed; the share of those.

    None without a probe; RPM is 0 if none completed. The draft's Responsiveness is the mean of this RPM and that of
    self probes, which need a load-generating connection; here nothing but the foreign half exists.
    """
    done = probes.drop_nulls()
    completed = [ForeignProbe(*times) for times in done.select(_TIMES).iter_rows()]
    parts = zip(_TIMES, foreign_times(completed), strict=True)
    return {
        "foreign_rpm": foreign_responsiveness(completed) if completed or not probes.height else 0.0,
        **{f"foreign_{name}": value for name, value in parts},
        "foreign_answered_share": done.height / probes.height if probes.height else None,
    }


def result_fields(records: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the fields of PhaseScores for a competing test's result in a phase's entries of bulk.json, if any."""
    names = {"test_rpm": "Responsiveness", "test_foreign_rpm": "Foreign_Responsiveness",
             "test_self_rpm": "Loaded_Responsiveness"}  # fmt: skip
    results = [record["responsiveness"] for record in records if record.get("responsiveness")]
    return {field: result[name] for result in results for field, name in names.items()}
