# SPDX-License-Identifier: Apache-2.0
"""Packet slots: a bottleneck that may send at given times only, as cellular links do; hardware/kernel/sch_slots.c.

A schedule is times in ms, never descending; each is an opportunity for 1500 bytes of IP packets. The last one is also
the time after which it repeats. As text it is a time a line, the form of Mahimahi's traces (Netravali et al.,
"Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015).
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

FRAME_BYTES = 1514
"""What a full slot carries with its Ethernet header, as shapers count it."""
STEP_S = 0.02
"""How long a generated link keeps its rate, s; and as long as Sprout's model keeps its."""
_MOST_SLOTS, _MOST_MS = 16 << 20, (1 << 32) - 1  # of the kernel's module
_DIGITS = len(str(_MOST_MS))
_MOST_BYTES = (_DIGITS + len("\r\n")) * _MOST_SLOTS
_U32 = struct.Struct("<I")
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


class SlotsError(ValueError):
    """A schedule that cannot be had or used; one line that names the file."""


class Slots(BaseModel):
    """Where a schedule comes from: a file, or the generator, by its parameters and seed.

    The generator is that of Sprout's model of a cellular link (Winstein, Sivaraman, Balakrishnan, "Stochastic
    Forecasts Achieve High Throughput and Low Delay over Cellular Networks", NSDI 2013, section 3.1): packets are a
    Poisson process whose rate is a Brownian motion of `volatility` packets a second in the root of a second, and which
    stays in an outage that it has come to until that ends, at a chance of one a second. Sprout's wanders without
    bound; ours is drawn back to `mean_mbps` in `memory_s`, so that a link can be asked for by its rate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = ""
    """A trace; else one is generated."""
    hash: str = ""
    """FNV-1a of the trace's times, as `fnv1a` tells it, which makes a cell of a file the same wherever it lies.

    The file itself must be at that path on each machine that runs the cell."""
    mean_mbps: float = Field(default=12, gt=0, le=1000)
    seconds: float = Field(default=60, gt=0, le=3600)
    volatility: float = Field(default=200, ge=0)
    memory_s: float = Field(default=2, gt=0)
    seed: int = 1

    @classmethod
    def of_file(cls, file: Path) -> Self:
        """Return the schedule of a trace. Raises SlotsError when it cannot be read."""
        times, hash_now = _trace(file)
        return cls(file=str(file.resolve()), hash=hash_now, seconds=times[-1] / 1000)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.file and not self.hash:
            raise ValueError("the slots of a file need its hash: make them by Slots.of_file")
        return self

    @property
    def times_ms(self) -> Sequence[int]:
        """Raises SlotsError when the file cannot be read, or is another one now."""
        if not self.file:
            return _generated(self)
        times, hash_now = _trace(Path(self.file))
        if hash_now != self.hash:
            raise SlotsError(f"{self.file}: its slots are not those of the cell any more ({self.hash})")
        return times

    @property
    def rate_bps(self) -> int:
        """Mean rate of frames, bit/s, if every slot carries a full one."""
        times = self.times_ms
        return round(len(times) * FRAME_BYTES * 8 / (times[-1] / 1000))

    def shown(self, dev: str) -> list[str]:
        """Return the first words of its line in /proc/slots: device, slots, period in ms, hash."""
        times = self.times_ms
        return [dev, str(len(times)), str(times[-1]), fnv1a(times)]


@functools.lru_cache(maxsize=16)
def _generated(slots: Slots) -> Sequence[int]:
    return tuple(generated(slots))


def _trace(file: Path) -> tuple[Sequence[int], str]:
    """The times of a trace and their hash; read once for all cells, and again when the file has changed."""
    try:
        status = file.stat()
    except (OSError, ValueError) as wrong:
        raise SlotsError(f"{file}: cannot be read: {getattr(wrong, 'strerror', None) or wrong}") from wrong
    return _trace_of(file, status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _trace_of(file: Path, *_: int) -> tuple[Sequence[int], str]:
    times = read(file)
    return times, fnv1a(times)


def generated(slots: Slots) -> list[int]:
    """Return the times of a link like a cellular one, ms; the same parameters give the same times."""
    draw = random.Random(f"slots {slots.model_dump_json()}")
    mean = slots.mean_mbps * 1e6 / (FRAME_BYTES * 8)
    rate, times = mean, list[int]()
    for step in range(round(slots.seconds / STEP_S)):
        moved = rate + (mean - rate) * STEP_S / slots.memory_s + draw.gauss(0, slots.volatility * STEP_S**0.5)
        # An outage ends by chance alone; what ends it is the pull of the mean.
        ends = rate > 0 or draw.random() < STEP_S
        rate = max(moved, 0.0) if ends else 0.0
        at = draw.expovariate(rate) if rate else STEP_S
        while at < STEP_S:
            times.append(int((step * STEP_S + at) * 1000))
            at += draw.expovariate(rate)
    times.append(round(slots.seconds * 1000))
    return times


def read(file: Path) -> Sequence[int]:
    """Return the times of a trace, ms. Raises SlotsError when it cannot be read or is no schedule."""
    times, before = array("I"), 0
    try:
        # A pipe without a writer would be waited for.
        with open(file, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as lines:
            status = os.fstat(lines.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise SlotsError(f"{file}: not a file; a trace is one")
            if status.st_size > _MOST_BYTES:
                raise SlotsError(f"{file}: {status.st_size >> 20} MB; a trace has at most {_MOST_SLOTS} slots")
            for word in (word for line in lines for word in line.split()):
                if not word.isdigit() or len(word) > _DIGITS or int(word) > _MOST_MS:
                    shown = word[:20].decode(errors="backslashreplace")
                    wanted = f"a trace has a whole number of ms on each line, at most {_MOST_MS}"
                    raise SlotsError(f"{file}: {shown!r} is no time; {wanted}")
                if (at := int(word)) < before:
                    raise SlotsError(f"{file}: its times descend at {at}; a trace is in their order")
                times.append(at)
                before = at
    except OSError as wrong:
        raise SlotsError(f"{file}: cannot be read: {wrong.strerror}") from wrong
    if not 0 < len(times) <= _MOST_SLOTS or before == 0:
        wanted = f"a trace has 1 to {_MOST_SLOTS}, and repeats after the last"
        raise SlotsError(f"{file}: {len(times)} slots that end at {before} ms; {wanted}")
    return times


def text(times_ms: Sequence[int]) -> str:
    """Return a schedule as a trace's text."""
    return "".join(f"{at}\n" for at in times_ms)


def fnv1a(times_ms: Sequence[int]) -> str:
    """Return the 64-bit FNV-1a of the times, each as four bytes, the low one first, in 16 hexadecimal digits.

    Source: draft-eastlake-fnv.
    """
    value = _FNV_OFFSET
    for at in times_ms:
        for byte in _U32.pack(at):
            value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def differences(asked: Slots, dev: str, shown: Sequence[str]) -> list[str]:
    """Compare with the lines of /proc/slots of the namespace in which `dev` is; one line for what is otherwise."""
    have = [words[:4] for line in shown if (words := line.split())[:1] == [dev]]
    return [] if have == [asked.shown(dev)] else [f"{dev}: asked slots {asked.shown(dev)}, found {have or 'none'}"]


def commands(dev: str, queue: Sequence[str]) -> list[list[str]]:
    """Return the tc commands that give a clean `dev` the schedule that was written last, with `queue` (tc's words)
    before it.
    """
    return [
        f"tc qdisc add dev {dev} root handle 1: slots".split(),
        [*f"tc qdisc add dev {dev} parent 1:1 handle 10:".split(), *queue],
    ]
