# SPDX-License-Identifier: Apache-2.0
"""Rates, times and sizes written as iproute2's tc writes them (tc(8), section PARAMETERS)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

_VALUE = re.compile(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)([a-z]*)", re.IGNORECASE)

_BYTE = 8
_RATE = {"": 1.0, "bit": 1.0, "bps": _BYTE}
for _i, _prefix in enumerate("kmgt", start=1):
    _RATE[f"{_prefix}bit"], _RATE[f"{_prefix}ibit"] = 1000.0**_i, 1024.0**_i
    _RATE[f"{_prefix}bps"], _RATE[f"{_prefix}ibps"] = _BYTE * 1000.0**_i, _BYTE * 1024.0**_i
_TIME = {"": 1.0, "us": 1.0, "usec": 1.0, "usecs": 1.0, "ms": 1e3, "msec": 1e3, "msecs": 1e3}
_TIME |= {"s": 1e6, "sec": 1e6, "secs": 1e6}
_TIME_NS = {"": 1e-3, "ns": 1e-3, "nsec": 1e-3, "nsecs": 1e-3} | {k: v for k, v in _TIME.items() if k}
_SIZE = {"": 1.0, "b": 1.0, "kbit": 128.0, "mbit": 1024.0**2 / 8, "gbit": 1024.0**3 / 8}
for _i, _prefix in enumerate("kmg", start=1):
    _SIZE[_prefix] = _SIZE[f"{_prefix}b"] = 1024.0**_i

RATE_RANGE = (100_000, 10_000_000_000)
RTT_RANGE = (0, 2_000_000)
FRAME_BYTES = 1514
"""Bytes of a full frame with its Ethernet header, as shapers count them."""
IP_BYTES = 1500
"""Bytes of the IP packet in it."""


class UnitError(ValueError):
    """A text is not a rate, time or size; the message says what would be."""


def _scaled(text: str, units: dict[str, float], expected: str) -> float:
    match = _VALUE.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise UnitError(f'"{text}" is not {expected}')
    if math.isinf(value := float(match[1]) * units[match[2].lower()]):
        raise UnitError(f'"{text}" is out of range; give {expected}')
    # 0.57ms must be 570 us, not 569: round away the last digits of the floating point before truncating.
    return round(value, 6)


def parse_rate(text: str) -> int:
    """Return bit/s of a rate such as `10mbit`; as in tc, `bps` and its multiples are bytes per second.

    Raises `UnitError`.
    """
    return int(_scaled(text, _RATE, "a rate such as 500kbit, 10mbit or 1gbit"))


def parse_time(text: str) -> int:
    """Return µs of a time such as `5ms`; as in tc, a bare number is µs. Raises `UnitError`."""
    return int(_scaled(text, _TIME, "a time such as 500us, 5ms or 1s"))


def parse_time_ns(text: str) -> int:
    """Return ns of a time such as `10us`; a bare number is ns, as in tc's 64-bit times. Raises
    `UnitError`.
    """
    return round(_scaled(text, _TIME_NS, "a time such as 500ns, 10us or 1ms") * 1000)


def parse_size(text: str) -> int:
    """Return bytes of a size such as `150kb`; as in tc, k is 1024. Raises `UnitError`."""
    return int(_scaled(text, _SIZE, "a size in bytes such as 3000, 150kb or 4mb"))


def parse_percent(text: str) -> float:
    """Return percent (0 to 100) of `10%` or `10`. Raises `UnitError`."""
    value = _scaled(text.strip().removesuffix("%"), {"": 1.0}, "a percentage such as 10%")
    if value > 100:
        raise UnitError(f'"{text}" is not a percentage between 0% and 100%')
    return value


def format_rate(bps: int) -> str:
    """Format bit/s exactly, in the largest unit that gives a whole number."""
    return _whole(bps, (("gbit", 10**9), ("mbit", 10**6), ("kbit", 10**3), ("bit", 1)))


def format_time(us: int) -> str:
    """Format µs exactly, in the largest unit that gives a whole number."""
    return _whole(us, (("s", 10**6), ("ms", 10**3), ("us", 1)))


def format_time_ns(ns: int) -> str:
    """Format ns exactly, in the largest unit that gives a whole number."""
    return _whole(ns, (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)))


def _whole(value: int, units: tuple[tuple[str, int], ...]) -> str:
    name, scale = next((u for u in units if value and value % u[1] == 0), units[-1])
    return f"{value // scale}{name}"


def rate_option(text: str) -> int:
    """Parse an option's bottleneck rate: bit/s, 100kbit to 10gbit, unit required. Raises `UnitError`."""
    if text.strip().lower().endswith("bps"):
        raise UnitError(f'"{text}" is in bytes per second, as in tc; give bits, such as 10mbit')
    return _option(text, "mbit", parse_rate, RATE_RANGE, format_rate)


def rtt_option(text: str) -> int:
    """Parse an option's path RTT: µs, 0 to 2s, unit required except for 0. Raises `UnitError`."""
    return _option(text, "ms", parse_time, RTT_RANGE, format_time)


def time_option(text: str, unit: str = "ms") -> int:
    """Parse an option's time: µs, unit required except for 0. Raises `UnitError`, which suggests `unit`."""
    return _with_unit(text, unit, parse_time)


def _with_unit(text: str, unit: str, parse: Callable[[str], int]) -> int:
    match = _VALUE.fullmatch(text.strip())
    if match and not match[2] and float(match[1]):
        # tc would read bit/s or µs, which nobody means here.
        raise UnitError(f'"{text}" has no unit; write {text.strip()}{unit}')
    return parse(text)


def _option(
    text: str, unit: str, parse: Callable[[str], int], limits: tuple[int, int], write: Callable[[int], str]
) -> int:
    value = _with_unit(text, unit, parse)
    low, high = limits
    if not low <= value <= high:
        # Zero is written without a unit.
        raise UnitError(f'"{text}" is out of range; give {write(low) if low else 0} to {write(high)}')
    return value
