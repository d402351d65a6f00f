# SPDX-License-Identifier: Apache-2.0
"""The delay in a router's queue as the queue itself reports it, from samples of its statistics (qdisc.jsonl)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

Sample = Mapping[str, Any]
_HEADS = ("delay-c", "delay-l")  # of dualpi2, in us


def carrier(samples: Sequence[Sample]) -> str | None:
    """Return the handle of the leaf that sent most; the root counts only if there is no leaf."""
    if not samples:
        return None
    qdiscs = samples[-1]["qdiscs"]
    leaves = [q for q in qdiscs if "parent" in q and q.get("kind") not in ("ingress", "clsact")]
    busiest = max(leaves or qdiscs, key=lambda q: q.get("bytes", 0), default=None)
    return busiest.get("handle") if busiest else None


def delays(samples: Sequence[Sample]) -> pl.DataFrame:
    """Return the delays in the queue that carries a device's traffic: columns t (Unix s), queue, sojourn_ms.

    dualpi2 reports the current sojourn time at the head of its L and C queues; fq_codel, per class, the sojourn time
    of the last dequeued packet (a single queue counts as C). None for other queues.
    """
    handle = carrier(samples)
    rows = []
    for sample in samples:
        for qdisc in sample["qdiscs"]:
            if qdisc.get("handle") == handle:
                rows += [(sample["t"], key[-1].upper(), qdisc[key] / 1e3) for key in _HEADS if key in qdisc]
        rows += [(sample["t"], "C", waited / 1e3) for waited in class_delays(sample, handle)]
    return pl.DataFrame(rows, schema={"t": pl.Float64, "queue": pl.String, "sojourn_ms": pl.Float64}, orient="row")


def class_delays(sample: Sample, handle: str | None) -> list[float]:
    """Return the delays of an fq_codel's classes in a sample, us."""
    inside = (shown.get("stats", {}) for shown in sample.get("classes", []) if shown.get("parent") == handle)
    return [stats["ldelay"] for stats in inside if "ldelay" in stats]
