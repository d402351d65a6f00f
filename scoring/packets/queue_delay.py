# SPDX-License-Identifier: Apache-2.0
"""What a router's queue itself tells of the delay in it, from samples of its statistics (qdisc.jsonl)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

Sample = Mapping[str, Any]
_HEADS = ("delay-c", "delay-l")  # of dualpi2, in us


def carrier(samples: Sequence[Sample]) -> str | None:
    """The handle of the leaf that sent most; a root stands for all of its leaves, so it counts only without any."""
    if not samples:
        return None
    qdiscs = samples[-1]["qdiscs"]
    leaves = [q for q in qdiscs if "parent" in q and q.get("kind") not in ("ingress", "clsact")]
    busiest = max(leaves or qdiscs, key=lambda q: q.get("bytes", 0), default=None)
    return busiest.get("handle") if busiest else None


def delays(samples: Sequence[Sample]) -> pl.DataFrame:
    """The delays in the queue that carries the traffic of one device: columns t (Unix s), queue, sojourn_ms.

    dualpi2 tells how long the packet at the head of its L and of its C queue has waited so far, fq_codel in its
    class how long the last one had waited when it left; where it has a single queue, that is C. None without either.
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
    """What the classes of an fq_codel tell in a sample, in us."""
    inside = (shown.get("stats", {}) for shown in sample.get("classes", []) if shown.get("parent") == handle)
    return [stats["ldelay"] for stats in inside if "ldelay" in stats]
