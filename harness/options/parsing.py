# SPDX-License-Identifier: Apache-2.0
"""Values of options from their texts, and back; each parser raises ValueError without the option's name."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from sojourn.apps.options import BadValue
from sojourn.bottleneck.qdiscs import Qdisc, parse_qdisc
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.units import parse_percent, rate_option, time_option
from sojourn.harness.options.timeline import Phase

LOCAL = "local"
"""The engine on this machine."""
UNSAFE = "dask+unsafe"
"""The scheme of a Dask cluster without TLS on other machines."""
_MOST_RUNS = 1000
#: A rig is computed from the seed in floating point: beyond about 1e15, many seeds share a rig.
_LARGEST_SEED = 2**32 - 1
#: With more loss, no video plays; a path with longer bursts is broken.
_MOST_LOSS_PERCENT, _LONGEST_BURST_US = 20.0, 100_000


def queue(text: str) -> Qdisc:
    """Return a queue discipline from tc's words."""
    return parse_qdisc(text, option="")


def rate_schedule(text: str) -> tuple[int, tuple[RateStep, ...]]:
    """Return the first rate (bit/s) of `RATE[,TIME:RATE…]`, and its steps in ascending order."""
    first, *rest = text.split(",")
    steps: list[RateStep] = []
    for part in rest:
        at, colon, rate = part.partition(":")
        if not colon:
            raise BadValue("invalid-value", f"{part.strip()!r} is not a step; give TIME:RATE, as in 10mbit,30s:5mbit")
        at_s = time_option(at, "s") / 1e6
        if at_s <= (steps[-1].at_s if steps else 0):
            raise BadValue("out-of-range", f"a step at {at_s:g} s; give ascending times after 0 s")
        steps.append(RateStep(at_s=at_s, rate_bps=rate_option(rate.strip())))
    return rate_option(first.strip()), tuple(steps)


def schedule_text(first_bps: int, steps: Sequence[RateStep]) -> str:
    """Return the text of a rate and its steps."""
    return f"{first_bps}bit" + "".join(f",{step.at_s!r}s:{step.rate_bps}bit" for step in steps)


def timeline_text(phases: Sequence[Phase]) -> str:
    """Return the text of a timeline with its own loads, from which the phases' names follow."""
    return ",".join(f"{phase.contender or 'solo'}:{phase.seconds!r}{'+' * phase.at_least}" for phase in phases)


def loss_percent(text: str) -> float:
    """Return a path's loss in percent of packets."""
    percent = parse_percent(text)
    if not 0 < percent <= _MOST_LOSS_PERCENT:
        raise BadValue("out-of-range", f"{text!r} is out of range; give 0.01% to {_MOST_LOSS_PERCENT:g}%")
    return percent


def jitter_us(text: str) -> int:
    """Return a variation of delay in µs, above 0."""
    if (time_us := time_option(text)) <= 0:
        raise BadValue("out-of-range", f"{text!r} is out of range; give a time such as 2ms")
    return time_us


def jitter_gate_ms(text: str) -> float:
    """Return the limit of a lab's own jitter in ms."""
    return jitter_us(text) / 1000


def bursts_us(text: str) -> tuple[int, int]:
    """Return the minimum and maximum interval of bursts in µs, from `5ms` or `1ms-8ms`."""
    least, _, most = text.partition("-")
    times = time_option(least), time_option(most or least)
    if not 0 < times[0] <= times[1] <= _LONGEST_BURST_US:
        raise BadValue("out-of-range", f"{text!r} is out of range; give one time up to 100ms, or two as in 1ms-8ms")
    return times


def run_count(text: str) -> int:
    """Return a number of runs."""
    if not text.isdecimal():
        raise BadValue("invalid-value", f"{text!r} is not a number of runs; give 1 to {_MOST_RUNS}")
    if not 1 <= int(text) <= _MOST_RUNS:
        raise BadValue("out-of-range", f"{text!r} is out of range; give 1 to {_MOST_RUNS} (a result needs 5)")
    return int(text)


def seed(text: str) -> int:
    """Return a seed."""
    if not text.isdecimal():
        raise BadValue("invalid-value", f"{text!r} is not a seed; give a whole number from 0 to {_LARGEST_SEED}")
    if int(text) > _LARGEST_SEED:
        raise BadValue("out-of-range", f"{text!r} is out of range; give a whole number from 0 to {_LARGEST_SEED}")
    return int(text)


def engine_address(text: str) -> str:
    """Return an engine's name.

    Raises BadValue for anything but this machine or an address, and for an address that other people can use: Dask's
    scheduler, workers and clients run whatever they receive (https://distributed.dask.org/en/stable/tls.html).
    """
    if text == LOCAL:
        return text
    if "://" not in text:
        raise BadValue("invalid-value", f"{text!r} is neither local nor tls://HOST:PORT or dask://localhost:PORT")
    where = urlsplit(text)
    if where.scheme not in ("tls", UNSAFE) and not _is_loopback(where.hostname or ""):
        raise BadValue(
            "invalid-value",
            f"{text!r}: anyone who can reach it runs any program on its workers and on this machine; use tls://, or "
            f"{UNSAFE}:// on a network that only you use",
        )
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
