# SPDX-License-Identifier: Apache-2.0
"""The renditions of a film: their lines and encoded rates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sojourn.bottleneck.units import parse_rate

_RATES = (50_000, 100_000_000)


@dataclass(frozen=True)
class Rung:
    """One rendition: YouTube's name for it, size in px, nominal rate in bit/s."""

    quality: str
    width: int
    height: int
    bps: int


LADDER = (
    Rung("small", 426, 240, 300_000),
    Rung("medium", 640, 360, 700_000),
    Rung("large", 854, 480, 1_500_000),
    Rung("hd720", 1280, 720, 2_900_000),
    Rung("hd1080", 1920, 1080, 5_200_000),
    Rung("hd1440", 2560, 1440, 8_600_000),
    Rung("hd2160", 3840, 2160, 14_900_000),
)


def ladder_up_to(height: int) -> tuple[Rung, ...]:
    """Return the rungs with at most `height` lines."""
    return tuple(rung for rung in LADDER if rung.height <= height)


def rung_of(height: int, bps: int) -> Rung:
    """Return LADDER's rung with `height` lines at the rate `bps`."""
    return next(replace(rung, bps=bps) for rung in LADDER if rung.height == height)


def parse_ladder(text: str) -> tuple[tuple[int, int], ...]:
    """Return (lines, bit/s) of every rung of `240p:300k,720p:2.5mbit`, lowest first. Raises ValueError."""
    known = {f"{rung.height}p": rung.height for rung in LADDER}
    rungs: list[tuple[int, int]] = []
    for part in map(str.strip, text.split(",")):
        name, _, rate = part.lower().partition(":")
        if name not in known or not rate:
            raise ValueError(
                f"{part!r} is not a rung; give LINES:RATE, as in 240p:300k,720p:2.5mbit; LINES: {', '.join(known)}"
            )
        bps = parse_rate(f"{rate}bit" if rate[-1] in "km" else rate)
        if not _RATES[0] <= bps <= _RATES[1]:
            raise ValueError(f"{part!r}: the rate is out of range; give 50kbit to 100mbit")
        if rungs and not (rungs[-1][0] < known[name] and rungs[-1][1] < bps):
            raise ValueError(f"{part!r}: every rung must have more lines and a higher rate than the one before it")
        rungs.append((known[name], bps))
    return tuple(rungs)


DEFAULT = ladder_up_to(720)
"""All rungs that a 1280x720 screen can show."""
