# SPDX-License-Identifier: Apache-2.0
"""The packets of a published Skype call, which a cell sends again at their times.

The recording is skype_call.csv, whose head names its source. It has no parameters: nothing in it was chosen for its
effect. The call used a relay, and does not respond to the loss and marks of a replay.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Way = Literal["down", "up"]
SECONDS = 72.7013
"""Length of the recording."""
BITRATE_BPS = 2_590_254
"""Its rate, both ways together with IPv4 and UDP headers; "~2.5 Mbps" in the source."""
_FILE = Path(__file__).parent / "skype_call.csv"


@dataclass(frozen=True)
class Burst:
    """Packets that leave at one time, with the same UDP payload in bytes each."""

    at_s: float
    packets: int
    payload: int


@cache
def recording() -> dict[Way, tuple[Burst, ...]]:
    """Return the bursts of both ways, in the order of their times."""
    ways: dict[Way, list[Burst]] = {"down": [], "up": []}
    with _FILE.open(newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            way: Way = "down" if row["way"] == "down" else "up"
            ways[way].append(Burst(int(row["at_100us"]) / 1e4, int(row["packets"]), int(row["bytes"])))
    return {way: tuple(bursts) for way, bursts in ways.items()}


def replay(way: Way, seconds: float, start_s: float = 0, speed: float = 1) -> Iterator[Burst]:
    """Yield the bursts of `seconds` s of a call that begins `start_s` s into the recording and repeats it.

    `speed` changes the times between bursts, not the bursts: at 0.5, the call has half the bit rate.
    """
    at = -start_s
    while at < seconds * speed:
        for burst in recording()[way]:
            if 0 <= (due := (at + burst.at_s) / speed) < seconds:
                yield Burst(due, burst.packets, burst.payload)
        at += SECONDS
