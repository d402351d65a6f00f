# SPDX-License-Identifier: Apache-2.0
"""Responsiveness in round-trips per minute (RPM): formulas, parameters and stability of the Responsiveness Test.

Source: draft-ietf-ippm-responsiveness-09 (6 July 2026), "Measuring Responsiveness Under Working Conditions".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

DRAFT = "draft-ietf-ippm-responsiveness-09"
MOVING_AVERAGE = 4
"""MAD: the number of intervals of a moving average, and of moving averages that must agree."""
INTERVAL_S = 5.0
"""ID: after every interval of this length, s, connections are added and stability is evaluated."""
TRIMMED = 0.95
"""TMP: the share of the smallest samples that a trimmed mean keeps."""
TOLERANCE = 0.05
"""SDT: the standard deviation of stable moving averages, as a share of the latest one."""
FIRST_CONNECTIONS, ADDED_CONNECTIONS, MOST_CONNECTIONS = 1, 1, 16
"""INP, INC, MNP: load-generating connections at first, added after every interval, and at most."""
MOST_PROBES_PER_S = 100
"""MPS: the maximum rate of each kind of probe."""
PROBE_SHARE = 0.05
"""PTC: the maximum share of the capacity that probes consume."""
FOREIGN_BYTES, SELF_BYTES = 5000, 1000
"""The draft's estimate of the bytes that a probe of each kind exchanges."""
Confidence = Literal["Low", "Medium", "High"]


class ForeignProbe(NamedTuple):
    """A completed probe on a separate connection: the times of TCP's handshake, TLS's round trip and the GET, ms."""

    tcp_ms: float
    tls_ms: float
    http_ms: float


def trimmed_mean(values: Iterable[float]) -> float | None:
    """Return the mean of the values without the largest 5 % of them (rounded down); None without values."""
    kept = sorted(values)
    # In integers: 0.05 times 20 is not exactly 1.
    kept = kept[: len(kept) - len(kept) * round(100 * (1 - TRIMMED)) // 100]
    return sum(kept) / len(kept) if kept else None


def rpm(*times_ms: float | None) -> float | None:
    """Return the round-trips per minute of the mean of some times, ms; None without a time, or if one is None."""
    known = [time for time in times_ms if time is not None]
    return 60_000 * len(known) / total if len(known) == len(times_ms) and (total := sum(known)) > 0 else None


def foreign_times(probes: Sequence[ForeignProbe]) -> tuple[float | None, float | None, float | None]:
    """Return TM(tcp_f), TM(tls_f) and TM(http_f), ms; None without a probe."""
    tcp, tls, http = (trimmed_mean(times) for times in (zip(*probes, strict=True) if probes else ((), (), ())))
    return tcp, tls, http


def foreign_responsiveness(probes: Sequence[ForeignProbe]) -> float | None:
    """Return 60000 / ((TM(tcp_f) + TM(tls_f) + TM(http_f)) / 3), in RPM; None without a probe."""
    return rpm(*foreign_times(probes))


def loaded_responsiveness(http_ms: Iterable[float]) -> float | None:
    """Return 60000 / TM(http_l), in RPM; None without a probe on a load-generating connection."""
    return rpm(trimmed_mean(http_ms))


def responsiveness(foreign_rpm: float | None, loaded_rpm: float | None) -> float | None:
    """Return the mean of both kinds, in RPM; None if one is not known."""
    return None if foreign_rpm is None or loaded_rpm is None else (foreign_rpm + loaded_rpm) / 2


def probe_interval_s(capacity_bps: float, probe_bytes: int) -> float:
    """Return the least time between two probes of `probe_bytes` bytes, s, on a path of `capacity_bps` bit/s."""
    return max(1 / MOST_PROBES_PER_S, 8 * probe_bytes / (PROBE_SHARE * capacity_bps))


def stable(averages: Sequence[float]) -> bool:
    """Whether the standard deviation of the last MOVING_AVERAGE averages is within TOLERANCE of the latest one."""
    if len(averages) < MOVING_AVERAGE:
        return False
    last = averages[-MOVING_AVERAGE:]
    mean = sum(last) / len(last)
    return math.sqrt(sum((value - mean) ** 2 for value in last) / len(last)) < TOLERANCE * last[-1]


@dataclass
class Stages:
    """The two stages of the test, fed after every interval: goodput until it is stable, then responsiveness."""

    goodput_bps: list[float] = field(default_factory=list)
    """The goodput of every interval, bit/s."""
    averages_bps: list[float] = field(default_factory=list)
    """Its moving average after every interval."""
    responsiveness: list[float] = field(default_factory=list)
    """The responsiveness after every interval since the goodput is stable, RPM."""
    saturated: bool = False
    """Whether the goodput is stable."""
    ended: bool = False
    """Whether the responsiveness is too: the last one is the test's result."""

    def interval(self, goodput_bps: float, current_rpm: float | None) -> None:
        """Take the goodput of an interval, and the responsiveness of the last MOVING_AVERAGE intervals after it."""
        if self.ended:
            return
        self.goodput_bps.append(goodput_bps)
        last = self.goodput_bps[-MOVING_AVERAGE:]
        self.averages_bps.append(sum(last) / len(last))
        if not self.saturated:
            self.saturated = stable(self.averages_bps)
        elif current_rpm is not None:
            self.responsiveness.append(current_rpm)
            self.ended = stable(self.responsiveness)

    @property
    def confidence(self) -> dict[Literal["goodput", "responsiveness"], Confidence]:
        """The draft's confidence in both results."""
        return {
            "goodput": _confidence(len(self.goodput_bps), self.saturated),
            "responsiveness": _confidence(len(self.responsiveness), self.ended),
        }


def _confidence(intervals: int, stable: bool) -> Confidence:
    return "High" if stable else "Medium" if intervals >= MOVING_AVERAGE else "Low"
