# SPDX-License-Identifier: Apache-2.0
"""Spikes of TCP RTT after a change of the bottleneck's rate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.bottleneck.units import FRAME_BYTES
from sojourn.scoring.transport.rates import Floats

SPIKE_SLACK_MS = 25.0
SPIKE_FRAMES = 4
SPIKE_HOLD_S = 1.0


class Spike(NamedTuple):
    """Largest RTT above the path's, ms; duration, s (0: the level was never exceeded); whether it ended in time.

    None without samples.
    """

    height_ms: float | None
    spike_s: float | None
    spike_over: bool | None


def spike(t: Floats, srtt_ms: Floats, start: float, end: float, base_ms: float, rate_mbps: float) -> Spike:
    """Return the spike of TCP RTT after the rate changed to `rate_mbps` at `start` s, examined until `end` s.

    The rule: it ends at the first moment from which the RTT stays for 1 s at or below the level of the new rate:
    the path's `base_ms` + 25 ms of queue (above the target of every AQM here) + the time of four full frames.
    """
    seen = (t >= start) & (t < end)
    at, rtt = t[seen], srtt_ms[seen]
    if not at.size:
        return Spike(None, None, None)
    level = base_ms + SPIKE_SLACK_MS + SPIKE_FRAMES * FRAME_BYTES * 8 / (rate_mbps * 1e3)
    above = at[rtt > level]
    # The last sample above the level before the first 1 s without one.
    edges = np.concatenate([[start], above, [end]])
    gaps = np.flatnonzero(np.diff(edges) >= SPIKE_HOLD_S)
    return Spike(
        height_ms=round(float(rtt.max()) - base_ms, 3),
        spike_s=round(float(edges[gaps[0]] if gaps.size else end) - start, 3),
        spike_over=bool(gaps.size),
    )
