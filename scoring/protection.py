# SPDX-License-Identifier: Apache-2.0
"""What queue protection (RFC 9957) did to the packets of a cell's run, from samples of its queue's counters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sojourn.scoring.schema.cell_scores import ProtectionScores
from sojourn.scoring.schema.windows import Window

Counts = tuple[int, int]


def protection_scores(queues: Iterable[Mapping[str, Any]], window: Window) -> ProtectionScores | None:
    """Return the scores of the first queue down that has queue protection; None if none has.

    Args:
        queues: the lines of queues.jsonl.
        window: the steady-state window, from and to, s.
    """
    samples: dict[int, list[tuple[float, Counts, int]]] = {}
    for line in queues:
        for qdisc in line["qdiscs"]:
            if line["dev"] == "lan" and "sanctioned" in qdisc:
                counts = qdisc["sanctioned"], qdisc["sanctioned"] + qdisc["pkts-in-l"]
                samples.setdefault(line["hop"], []).append((line["t"], counts, qdisc["sanctioned_flows"]))
    if not samples:
        return None
    of_hop = samples[min(samples)]
    _, last, flows = of_hop[-1]
    began, ended = (max((s for s in of_hop if s[0] <= at), default=(0.0, (0, 0), 0))[1] for at in window)
    return ProtectionScores(
        sanctioned=last[0],
        sanctioned_flows=flows,
        sanctioned_share=_share((0, 0), last),
        window_sanctioned_share=_share(began, ended),
    )


def _share(before: Counts, after: Counts) -> float | None:
    sanctioned, meant = (b - a for a, b in zip(before, after, strict=True))
    return round(sanctioned / meant, 6) if meant else None
