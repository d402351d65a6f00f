# SPDX-License-Identifier: Apache-2.0
"""Whether the path met a victim's demand: then its goodput is its own choice, and has no harm.

A player fetches segments fast, and pauses: within some seconds, it fetches more or less than it plays, regardless of
contenders. Goodput characterises the path only if the path limits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sojourn.bottleneck.qdiscs import QdiscError, parse_qdisc
from sojourn.bottleneck.units import FRAME_BYTES, IP_BYTES
from sojourn.scoring.schema.scores import Metrics, PhaseScores, rate_steps
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.transport.rates import PAYLOAD_BYTES
from sojourn.traffic.load import parse_load

METRIC = "victim_mbps"
"""The metric that depends on demand."""
MOST_USED = 0.8
"""Share of the bottleneck's payload rate above which it may limit a victim alone."""
LEAST_SENT = 0.95
"""Share of its goodput alone that a call must reach: its camera and encoder have constant demand."""
FALL_S = 1.0
"""Allowed further fall of a player's buffer than alone, s of media: segments end at other times."""


def capacity_mbps(lab: Mapping[str, Any]) -> float | None:
    """Return the least payload rate of the bottleneck in a run, Mbit/s, by the `lab` of its scores.

    It is the queue's own rate if that is lower (`cake bandwidth 5mbit`). For a black box with an unknown rate, it is
    its peak goodput in a second. None if neither is known.
    """
    first: float | None = lab.get("rate_down_bps")
    if not first:
        most: float | None = lab.get("most_down_bps")  # of IP
        return most / 1e6 * PAYLOAD_BYTES[4] / IP_BYTES if most else None
    rates = first, _own_bps(lab.get("qdisc_down")) or first, *(bps for _, bps in rate_steps(lab))
    return min(rates) / 1e6 * PAYLOAD_BYTES[4] / FRAME_BYTES


def _own_bps(queue: str | None) -> int | None:
    """Return the rate to which a queue shapes itself, bit/s; None without one, and for one that is not known here."""
    try:
        return parse_qdisc(queue).shapes_bps if queue else None
    except QdiscError:  # of another version, or altered
        return None


def fair_share_mbps(lab: Mapping[str, Any], solo_mbps: float | None, flows: int = 1) -> float | None:
    """Return the victim's max-min fair share next to `flows` downloads, Mbit/s: as much as each, at most `solo_mbps`.

    `lab` is that of the scores. None if the rate is unknown or changes.
    """
    if solo_mbps is None or not lab.get("rate_down_bps") or rate_steps(lab):
        return None
    capacity = capacity_mbps(lab)
    return None if capacity is None else min(capacity / (1 + flows), solo_mbps)


def with_fair_shares(
    rows: Sequence[PhaseScores], alone: Metrics, lab: Mapping[str, Any], capacity_mbps: float | None, *, call: bool
) -> tuple[list[PhaseScores], Metrics]:
    """Return the rows with a contender, and the baseline, with `fair_share_met`; unchanged where it is unknown.

    `capacity_mbps` and `call` are those of `met`. Only loads of downloads have it, which take all that they get: the
    demand of a call, a page or a video is not known, and an upload takes nothing of the downlink. Source: max-min
    fairness, Bertsekas and Gallager, "Data Networks" (1992), section 6.5.2, for one bottleneck.
    """
    made = []
    for row in rows:
        load = parse_load(row.contender) if row.contender else ()
        downloads = len(load) if all(part.bulk and not part.up for part in load) else 0
        share = downloads and fair_share_mbps(lab, alone.victim_mbps, downloads)
        if share and row.victim_mbps is not None:
            value = 1.0 if met(row, alone, capacity_mbps, call=call) else round(min(1.0, row.victim_mbps / share), 4)
            row = row.model_copy(update={"fair_share_met": value})
        made.append(row)
    known = any(row.fair_share_met is not None for row in made)
    return made, alone.model_copy(update={"fair_share_met": 1.0}) if known else alone


def met(row: Metrics, alone: Metrics, capacity_mbps: float | None, *, call: bool) -> bool:
    """Return whether the path met the victim's demand in `row`; False if unknown.

    Without `capacity_mbps` it is unknown, as in a room: an SFU retransmits what is lost, so as much as alone may arrive
    while few pictures are complete. Alone, it must have left a part of the bottleneck unused (`MOST_USED`). The demand
    of a call or a game is met if it gets as much as alone (`LEAST_SENT`); a player's if it never stalls, never shows
    less than its main height alone, and its buffer falls no further than between two segments alone (`FALL_S`).
    """
    if not capacity_mbps or alone.victim_mbps is None or row.victim_mbps is None:
        return False
    if alone.victim_mbps > MOST_USED * capacity_mbps:
        return False
    if call:
        return row.victim_mbps >= LEAST_SENT * alone.victim_mbps
    if alone.dominant_height is None or row.lowest_height is None or row.stalls is None or row.stall_s is None:
        return False
    if alone.buffer_fall_s is None or row.buffer_fall_s is None:
        return False
    kept = row.lowest_height >= alone.dominant_height and not row.stalls and not row.stall_s
    return kept and row.buffer_fall_s <= alone.buffer_fall_s + FALL_S


def largest_fall(buffered: Iterable[tuple[float, float]], windows: Sequence[Window]) -> float | None:
    """Return the largest fall of a buffer from a sample to a later one of the same window, s; None without samples.

    `buffered` are samples (Unix s, s of film ahead) in order of time.
    """
    samples, falls = list(buffered), list[float]()
    for start, end in windows:
        most = float("-inf")
        for t, ahead in samples:
            if start <= t < end:
                most = max(most, ahead)
                falls.append(most - ahead)
    return max(falls, default=None)
