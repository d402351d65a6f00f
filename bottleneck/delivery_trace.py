# SPDX-License-Identifier: Apache-2.0
"""Delivery traces: a bottleneck that may send only at given times, like a cellular link; hardware/kernel/sch_slots.c.

A schedule is a list of times in ms in ascending order. At each time ("slot", Mahimahi's "delivery opportunity") the
link may carry 1500 bytes of IP packets. The schedule repeats after its last time. As text it has one time per line, the
format of Mahimahi's traces (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015).
"""

from __future__ import annotations

import functools
import os
import random
import stat
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sojourn.bottleneck.units import FRAME_BYTES

STEP_S = 0.02
"""Time during which a generated link keeps its rate, s. Sprout's model uses the same value."""
_MOST_SLOTS, _MOST_MS = 16 << 20, (1 << 32) - 1  # limits of the kernel module
_MOST_GENERATED = 1 << 20
_DIGITS = len(str(_MOST_MS))
_MOST_BYTES = (_DIGITS + len("\r\n")) * _MOST_SLOTS
_U32 = struct.Struct("<I")
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


class DeliveryTraceError(ValueError):
    """A schedule that cannot be read or used; one line that names the file."""


class DeliveryTrace(BaseModel):
    """The source of a schedule: a file, or the generator with its parameters and seed.

    The generator follows Sprout's model of a cellular link (Winstein, Sivaraman, Balakrishnan, "Stochastic Forecasts
    Achieve High Throughput and Low Delay over Cellular Networks", NSDI 2013, section 3.1). Packets are a Poisson
    process whose rate is a Brownian motion of `volatility` packets/s per square root of a second. When the rate reaches
    zero, an outage begins, which ends with a probability of one per second. Sprout's rate wanders without bound;
    Sojourn's reverts to `mean_mbps` within `memory_s`, so that a link can be specified by its rate. Below some
    5 Mbit/s, outages take up to a quarter of that away.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = ""
    """Path of a trace; empty: the schedule is generated."""
    hash: str = ""
    """FNV-1a of the trace's times (`fnv1a`). It identifies the cell, wherever the file is stored.

    Every machine that runs the cell must have the file at this path."""
    mean_mbps: float = Field(default=12, gt=0, le=1000)
    seconds: float = Field(default=60, gt=0, le=3600)
    volatility: float = Field(default=200, ge=0)
    memory_s: float = Field(default=2, gt=0)
    seed: int = 1

    @classmethod
    def of_file(cls, file: Path) -> Self:
        """Return the schedule of a trace. Raises DeliveryTraceError if the file cannot be read."""
        times, hash_now = _trace(file)
        return cls(file=str(file.resolve()), hash=hash_now, seconds=times[-1] / 1000)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.file and not self.hash:
            raise ValueError("slots from a file need the file's hash; create them with DeliveryTrace.of_file")
        if not self.file and (slots := self.mean_mbps * 1e6 / (FRAME_BYTES * 8) * self.seconds) > _MOST_GENERATED:
            raise ValueError(f"{slots:.0f} slots; a generated schedule has at most {_MOST_GENERATED}")
        return self

    @property
    def times_ms(self) -> Sequence[int]:
        """Return the times in ms. Raises DeliveryTraceError if the file cannot be read or has changed."""
        if not self.file:
            return _generated(self)
        times, hash_now = _trace(Path(self.file))
        if hash_now != self.hash:
            raise DeliveryTraceError(f"{self.file}: the trace has changed: its hash is no longer {self.hash}")
        return times

    @property
    def rate_bps(self) -> int:
        """Mean rate of frames, bit/s, when every slot carries a full frame."""
        times = self.times_ms
        return round(len(times) * FRAME_BYTES * 8 / (times[-1] / 1000))

    def shown(self, dev: str) -> list[str]:
        """Return the first words of the schedule's line in /proc/slots: device, slots, period in ms, hash."""
        times = self.times_ms
        return [dev, str(len(times)), str(times[-1]), fnv1a(times)]


@functools.lru_cache(maxsize=16)
def _generated(slots: DeliveryTrace) -> Sequence[int]:
    return tuple(generated(slots))


def _trace(file: Path) -> tuple[Sequence[int], str]:
    """The times of a trace and their hash; the file is read once for all cells, and again after a change."""
    try:
        status = file.stat()
    except (OSError, ValueError) as wrong:
        raise DeliveryTraceError(f"{file}: cannot be read: {getattr(wrong, 'strerror', None) or wrong}") from wrong
    return _trace_of(file, status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _trace_of(file: Path, *_: int) -> tuple[Sequence[int], str]:
    times = read(file)
    return times, fnv1a(times)


def generated(slots: DeliveryTrace) -> list[int]:
    """Return the times of a cellular-like link, ms. The same parameters give the same times."""
    draw = random.Random(f"slots {slots.model_dump_json()}")
    mean = slots.mean_mbps * 1e6 / (FRAME_BYTES * 8)
    rate, times = mean, list[int]()
    for step in range(round(slots.seconds / STEP_S)):
        moved = rate + (mean - rate) * STEP_S / slots.memory_s + draw.gauss(0, slots.volatility * STEP_S**0.5)
        # An outage ends at random, 1 s later on average; a step that leads to no rate would prolong it.
        if rate > 0:
            rate = max(moved, 0.0)
        elif draw.random() < STEP_S:
            rate = abs(moved)
        at = draw.expovariate(rate) if rate else STEP_S
        while at < STEP_S:
            times.append(int((step * STEP_S + at) * 1000))
            at += draw.expovariate(rate)
    times.append(round(slots.seconds * 1000))
    return times


def read(file: Path) -> Sequence[int]:
    """Return the times of a trace, ms. Raises DeliveryTraceError if the file cannot be read or holds no schedule."""
    times, before = array("I"), 0
    try:
        # Opening a pipe without a writer would block.
        with open(file, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as lines:
            status = os.fstat(lines.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise DeliveryTraceError(f"{file}: not a regular file; give a trace file")
            if status.st_size > _MOST_BYTES:
                raise DeliveryTraceError(f"{file}: {status.st_size >> 20} MB; a trace has at most {_MOST_SLOTS} slots")
            for word in (word for line in lines for word in line.split()):
                if not word.isdigit() or len(word) > _DIGITS or int(word) > _MOST_MS:
                    shown = word[:20].decode(errors="backslashreplace")
                    wanted = f"every line of a trace is a whole number of ms, at most {_MOST_MS}"
                    raise DeliveryTraceError(f"{file}: {shown!r} is not a time; {wanted}")
                if (at := int(word)) < before:
                    raise DeliveryTraceError(f"{file}: the times are not in ascending order at {at}")
                times.append(at)
                before = at
    except OSError as wrong:
        raise DeliveryTraceError(f"{file}: cannot be read: {wrong.strerror}") from wrong
    if not 0 < len(times) <= _MOST_SLOTS or before == 0:
        wanted = f"a trace has 1 to {_MOST_SLOTS} slots and a last time above 0"
        raise DeliveryTraceError(f"{file}: {len(times)} slots, the last at {before} ms; {wanted}")
    return times


def text(times_ms: Sequence[int]) -> str:
    """Return the text of a trace."""
    return "".join(f"{at}\n" for at in times_ms)


def fnv1a(times_ms: Sequence[int]) -> str:
    """Return the 64-bit FNV-1a of the times as 16 hexadecimal digits; a time is four bytes, little-endian.

    Source: draft-eastlake-fnv.
    """
    value = _FNV_OFFSET
    for at in times_ms:
        for byte in _U32.pack(at):
            value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def differences(requested: DeliveryTrace, dev: str, shown: Sequence[str]) -> list[str]:
    """Compare with the lines of /proc/slots in the namespace of `dev`; return one line if they differ."""
    have = [words[:4] for line in shown if (words := line.split())[:1] == [dev]]
    want = requested.shown(dev)
    return [] if have == [want] else [f"{dev}: requested slots {want}, found {have or 'none'}"]


def commands(dev: str, queue: Sequence[str]) -> list[list[str]]:
    """Return the tc commands that attach the newest written schedule to a clean `dev`, behind `queue` (tc's words)."""
    return [
        f"tc qdisc add dev {dev} root handle 1: slots".split(),
        [*f"tc qdisc add dev {dev} parent 1:1 handle 10:".split(), *queue],
    ]
