# SPDX-License-Identifier: Apache-2.0
"""What iproute2 computes for random early detection before the kernel sees it (tc/tc_red.c, RFC 2309's RED)."""

from __future__ import annotations

from math import floor, log

# Packet scheduler ticks per µs: of 64 ns (include/net/pkt_sched.h, PSCHED_SHIFT).
_TICKS_PER_US = 15.625


def burst_default(minimum: int, maximum: int, avpkt: int) -> int:
    """Return tc's default burst in packets for thresholds and average packet in bytes."""
    return (2 * minimum + maximum) // (3 * avpkt)


def ewma_log(minimum: int, burst: int, avpkt: int) -> int:
    """Return log2(1/W) with W the average's weight: the smallest at which `burst` packets stay below `minimum`.

    Raises ValueError if `burst` is too small.
    """
    room = burst + 1 - minimum / avpkt
    if room < 1:
        raise ValueError(f"burst {burst} is too small for min {minimum}; give at least {1 + minimum // avpkt}")
    for wlog in range(1, 32):
        weight = 2.0**-wlog
        if room <= (1 - (1 - weight) ** burst) / weight:
            return wlog
    raise ValueError(f"burst {burst} is too large")


def idle_cell_log(wlog: int, avpkt: int, rate_bps: int) -> int:
    """Return the cell log of the idle damping table for packets of `avpkt` bytes at `rate_bps` bit/s."""
    # tc keeps the rate in bytes per second and rounds the transmission time up to a tick.
    ticks = 1e6 * avpkt / (rate_bps // 8) * _TICKS_PER_US
    xmit = float(-floor(-ticks))
    longest = 31 / (-log(1 - 2.0**-wlog) / xmit)
    return next(c for c in range(32) if longest / 2**c < 512)


def probability_fits(minimum: int, maximum: int, probability: float) -> bool:
    """Whether tc can express `probability` between the two thresholds (bytes)."""
    return maximum == minimum or probability / (maximum - minimum) * 2.0**31 > 1.0
