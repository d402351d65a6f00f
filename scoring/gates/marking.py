# SPDX-License-Identifier: Apache-2.0
"""The ECN codepoint that senders must set."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sojourn.scoring.gates.base import gate
from sojourn.scoring.packets.pcapng import CODEPOINTS
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.validity import Gate, Limits


def marked(code: str, what: str, end: str, sent: Sequence[int], codepoint: str, limits: Limits) -> Gate:
    """Packets sent by an `end` of a call or a probe must carry `codepoint` before the bottleneck."""
    share = sent.count(CODEPOINTS[codepoint]) / len(sent) if sent else 0.0
    measured = f"{codepoint} on {share:.1%} of {len(sent)} packets"
    limit = f"{limits.codepoint_share:.0%}"
    return gate(code, f"{what} marked ({end})", share >= limits.codepoint_share, measured, limit)


def ecn_fields(packets: pl.DataFrame | None, span: Window) -> list[int]:
    """Return the ECN fields of packets sent during the timeline."""
    inside = None if packets is None else packets.filter((pl.col("t_ns") / 1e9).is_between(*span))
    return [] if inside is None else inside["ecn"].to_list()
