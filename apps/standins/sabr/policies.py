# SPDX-License-Identifier: Apache-2.0
"""How the server of the SABR stand-in chooses a rendition, and sets the pace of its client. Pure; rates in bit/s.

The policies are Sojourn's, named so that a figure can say which one it is of: those of real services are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

REQUEST_S = 4.0
"""Film in the answer to one request, s: two segments of picture, and the sound of as long."""
RESERVOIR = 0.25
"""Share of the readahead below which the policy `buffer` takes the lowest rendition."""
_START_BPS = 700_000
#: Share of the estimated throughput that a rendition may have with an empty and with a full buffer.
_CAUTION, _TRUST = 0.5, 1.0
#: The same by throughput alone, for any buffer.
_SAFE = 0.8
#: Sammy's multiples of the highest rendition's rate with an empty and with a full buffer.
_EMPTY, _FULL = 3.0, 1.5


@dataclass(frozen=True)
class ClientState:
    """What a request shows: film ahead of the player and the goal for it, s; the client's estimate; its rendition."""

    ahead_s: float
    readahead_s: float
    bandwidth_bps: int
    current: int | None


def least_readahead_s(segment_s: float) -> float:
    """Return the shortest readahead of a film in segments of `segment_s`, s.

    A client that waits for room for an answer must hold a segment to play until the answer comes.
    """
    return REQUEST_S + segment_s


def by_throughput(seen: ClientState, rates: Sequence[int]) -> int:
    """Return the highest rendition of at most 80 % of the client's estimate of its throughput."""
    return _highest(rates, _SAFE * (seen.bandwidth_bps or _START_BPS))


def by_buffer(seen: ClientState, rates: Sequence[int]) -> int:
    """Return the rendition by the film ahead alone: BBA-0 of Huang et al., SIGCOMM 2014 (section 4).

    The rate is the lowest up to the reservoir, the highest once one request fills the readahead, linear in between; a
    rendition is kept until that rate reaches the next one up or down.
    """
    low, high = RESERVOIR * seen.readahead_s, seen.readahead_s - REQUEST_S
    share = min(1.0, max(0.0, (seen.ahead_s - low) / (high - low)))
    rate = rates[0] + share * (rates[-1] - rates[0])
    if seen.current is None:
        return _highest(rates, min(rate, _START_BPS))
    above, below = min(seen.current + 1, len(rates) - 1), max(seen.current - 1, 0)
    if rate >= rates[above]:
        return _highest(rates, rate)
    if rate <= rates[below]:
        return next(index for index, it in enumerate(rates) if it >= rate)
    return seen.current


def by_both(seen: ClientState, rates: Sequence[int]) -> int:
    """Return the highest rendition of at most a share of the client's estimate that grows with the film ahead.

    From 50 % with an empty buffer to 100 % once one request fills the readahead.
    """
    full = max(seen.readahead_s - REQUEST_S, REQUEST_S / 2)
    share = _CAUTION + (_TRUST - _CAUTION) * min(1.0, seen.ahead_s / full)
    return _highest(rates, share * (seen.bandwidth_bps or _START_BPS))


def pacing_bps(ahead_s: float, readahead_s: float, top_bps: int) -> int:
    """Return the rate at which an answer is paced by the rule of Sammy (Spang et al., SIGCOMM 2023).

    From 3 times the rate of the highest rendition with an empty buffer to 1.5 times with a full one, linear in between.
    """
    full = min(1.0, ahead_s / readahead_s)
    return round(top_bps * (_EMPTY - (_EMPTY - _FULL) * full))


def _highest(rates: Sequence[int], most: float) -> int:
    return max((index for index, rate in enumerate(rates) if rate <= most), default=0)


POLICIES: Mapping[str, Callable[[ClientState, Sequence[int]], int]] = {
    "buffer": by_buffer,
    "throughput": by_throughput,
    "hybrid": by_both,
}
"""The policies by their name in `--sabr-policy`."""


def backoff_s(ahead_s: float, readahead_s: float) -> float:
    """Return how long the client is to wait, from the start of an answer after which it has `ahead_s` of film.

    Until it has room for the film of another answer.
    """
    return max(0.0, ahead_s - (readahead_s - REQUEST_S))
