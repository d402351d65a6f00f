# SPDX-License-Identifier: Apache-2.0
"""Kinds of tc parameters: their syntax, their range, and their form in `tc -j`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any

from sojourn.bottleneck import units

U32 = 2**32 - 1


class ParameterError(ValueError):
    """A value is missing, of the wrong type or out of range; the message says what would be right."""


# The kernel keeps some times in coarser units than tc's µs; these functions return what it then shows.
def exact(us: int) -> set[int]:
    """The kernel keeps the value unchanged."""
    return {us}


def codel_time(us: int) -> set[int]:
    """CoDel keeps times in units of 1024 ns (include/net/codel.h)."""
    return {((us * 1000 >> 10) << 10) // 1000}


def psched_time(us: int) -> set[int]:
    """PIE keeps its target in packet scheduler ticks of 64 ns (include/net/pkt_sched.h)."""
    return {((us * 1000 >> 6) << 6) // 1000}


def jiffies(us: int) -> set[int]:
    """Timers of PIE and fq are kept in jiffies, rounded up; a kernel's HZ is one of four."""
    return {ceil(us * hz / 1_000_000) * 1_000_000 // hz for hz in (100, 250, 300, 1000)}


def power_of_two(value: int) -> set[int]:
    """The size of a hash table is a power of two; tc rounds up."""
    return {1 << (value - 1).bit_length()}


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a qdisc: `word` introduces it in tc's text, `key` holds it in `tc -d -j` output.

    `shown` is False for what tc never shows; `repeats` is True for what may occur more than once.
    """

    word: str = ""
    key: str = ""
    shown: bool = True
    repeats: bool = False

    @property
    def help(self) -> str:
        """Its syntax in a list of parameters, as in tc's own help."""
        return self.word

    @property
    def words(self) -> tuple[str, ...]:
        """The first words that identify the parameter."""
        return (self.word.split()[0],)

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        """Return the value at the head of `tokens` and the number of tokens used; None if it is another parameter.

        Raises `ParameterError`.
        """
        raise NotImplementedError

    def tokens(self, value: Any) -> list[str]:
        """Write a value for tc; the inverse of `match`."""
        raise NotImplementedError

    def check(self, value: Any) -> None:
        """Raise `ParameterError` if `value` is out of range."""

    def differences(self, value: Any, actual: Mapping[str, Any]) -> list[str]:
        """Compare `value` with the options that `tc -j` shows; return one line per difference."""
        if not self.shown or self.agrees(value, actual.get(self.key)):
            return []
        return [f"{self.key}: requested {' '.join(self.tokens(value))}, found {actual.get(self.key, 'nothing')}"]

    def agrees(self, value: Any, actual: Any) -> bool:
        """Whether tc's value under `key` means `value`."""
        return bool(actual == value)


@dataclass(frozen=True, kw_only=True)
class Valued(Parameter):
    """A word followed by one value."""

    low: float = 0
    high: float = U32
    unit: str = "NUMBER"
    rounding: Callable[[int], set[int]] = exact

    @property
    def help(self) -> str:
        return f"{self.word} {self.unit}"

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        prefix = self.word.split()
        if list(tokens[: len(prefix)]) != prefix:
            return None
        if len(tokens) == len(prefix):
            raise ParameterError(f"{self.word} needs a value: {self.help}")
        text = tokens[len(prefix)]
        try:
            value = self.parse(text)
        except ValueError as wrong:
            reason = str(wrong) if isinstance(wrong, units.UnitError) else f'"{text}" is not a whole number'
            raise ParameterError(f"{self.word}: {reason}") from None
        return value, len(prefix) + 1

    def tokens(self, value: Any) -> list[str]:
        return [*self.word.split(), self.format(value)]

    def check(self, value: Any) -> None:
        if not self.low <= value <= self.high:
            raise ParameterError(
                f"{self.word}: {self.format(value)} is out of range: "
                f"{self.format(type(value)(self.low))} to {self.format(type(value)(self.high))}"
            )

    def agrees(self, value: Any, actual: Any) -> bool:
        return actual in self.rounding(value)

    def parse(self, text: str) -> Any:
        return int(text, 0)

    def format(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True, kw_only=True)
class Count(Valued):
    """A whole number (packets, flows …)."""


@dataclass(frozen=True, kw_only=True)
class Time(Valued):
    """A time, kept in µs; `presets` are words that mean a time."""

    unit: str = "TIME"
    presets: Mapping[str, int] = field(default_factory=dict)

    @property
    def help(self) -> str:
        return " | ".join((f"{self.word} {self.unit}", *self.presets))

    @property
    def words(self) -> tuple[str, ...]:
        return (self.word, *self.presets)

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        return (self.presets[tokens[0]], 1) if tokens[0] in self.presets else super().match(tokens)

    def parse(self, text: str) -> int:
        return units.parse_time(text)

    def format(self, value: int) -> str:
        return units.format_time(value)


@dataclass(frozen=True, kw_only=True)
class TimeNs(Valued):
    """A time kept in ns."""

    unit: str = "TIME"

    def parse(self, text: str) -> int:
        return units.parse_time_ns(text)

    def format(self, value: int) -> str:
        return units.format_time_ns(value)


@dataclass(frozen=True, kw_only=True)
class Size(Valued):
    """A size in bytes."""

    unit: str = "BYTES"

    def parse(self, text: str) -> int:
        return units.parse_size(text)


@dataclass(frozen=True, kw_only=True)
class Rate(Valued):
    """A rate in bit/s; tc shows bytes per second."""

    unit: str = "RATE"
    high: float = 8 * U32

    def parse(self, text: str) -> int:
        return units.parse_rate(text)

    def format(self, value: int) -> str:
        return units.format_rate(value)

    def agrees(self, value: int, actual: Any) -> bool:
        return bool(actual == value // 8)


@dataclass(frozen=True, kw_only=True)
class Fraction(Valued):
    """A real number; `step` is the kernel's resolution, 0 if it keeps all. tc is given six digits, and shows six."""

    step: float = 0

    def parse(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise units.UnitError(f'"{text}" is not a number') from None

    def format(self, value: float) -> str:
        return f"{value:g}"

    def agrees(self, value: float, actual: Any) -> bool:
        given = float(self.format(value))
        kept = floor(given / self.step) * self.step if self.step else given
        # Half of the sixth digit is at most 5e-6 of the number.
        return isinstance(actual, int | float) and abs(actual - kept) <= 1.01 * self.step + 5e-6 * abs(given) + 1e-9


@dataclass(frozen=True, kw_only=True)
class Percent(Valued):
    """A whole percentage."""

    unit: str = "PERCENT"
    high: float = 100

    def parse(self, text: str) -> int:
        return round(units.parse_percent(text))

    def format(self, value: int) -> str:
        return f"{value}%"


@dataclass(frozen=True, kw_only=True)
class Numbers(Parameter):
    """Words followed by a fixed number of whole numbers."""

    count: int
    low: int = 0
    high: int = U32

    @property
    def help(self) -> str:
        return f"{self.word} ({self.count} numbers)"

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        prefix = self.word.split()
        if list(tokens[: len(prefix)]) != prefix:
            return None
        values = tokens[len(prefix) : len(prefix) + self.count]
        if len(values) < self.count or not all(v.isdecimal() for v in values):
            raise ParameterError(f"{self.word} needs {self.count} whole numbers")
        return tuple(int(v) for v in values), len(prefix) + self.count

    def tokens(self, value: tuple[int, ...]) -> list[str]:
        return [*self.word.split(), *map(str, value)]

    def check(self, value: tuple[int, ...]) -> None:
        if len(value) != self.count or not all(self.low <= v <= self.high for v in value):
            raise ParameterError(f"{self.word} needs {self.count} numbers of {self.low} to {self.high}")

    def differences(self, value: tuple[int, ...], actual: Mapping[str, Any]) -> list[str]:
        # iproute2 7 writes the names of arrays with a trailing blank.
        return super().differences(value, {key.rstrip(): shown for key, shown in actual.items()})

    def agrees(self, value: tuple[int, ...], actual: Any) -> bool:
        return bool(actual == list(value))


@dataclass(frozen=True, kw_only=True)
class Flag(Parameter):
    """A switch: `word` turns it on, `off` (if tc has it) turns it off; `absent` is its state when tc shows neither."""

    off: str = ""
    absent: bool = False

    @property
    def help(self) -> str:
        return " | ".join(self.words)

    @property
    def words(self) -> tuple[str, ...]:
        return (self.word, self.off) if self.off else (self.word,)

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        return (tokens[0] == self.word, 1) if tokens[0] in self.words else None

    def tokens(self, value: bool) -> list[str]:
        return [self.word] if value else [self.off] if self.off else []

    def differences(self, value: bool, actual: Mapping[str, Any]) -> list[str]:
        # tc shows a switch as true or null if it is on, and as false or not at all if it is off.
        shown = actual[self.key] in (True, None) if self.key in actual else self.absent
        if not self.shown or shown == value:
            return []
        return [f"{self.key}: requested {'on' if value else 'off'}, found {'on' if shown else 'off'}"]


@dataclass(frozen=True, kw_only=True)
class Choice(Parameter):
    """One of several bare words; `choices` maps every word to its form in `tc -j`."""

    choices: Mapping[str, str]

    @property
    def help(self) -> str:
        return " | ".join(self.choices)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.choices)

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        return (tokens[0], 1) if tokens[0] in self.choices else None

    def tokens(self, value: str) -> list[str]:
        return [value]

    def check(self, value: str) -> None:
        if value not in self.choices:
            raise ParameterError(f'"{value}" is not one of {", ".join(self.choices)}')

    def agrees(self, value: str, actual: Any) -> bool:
        return bool(actual == self.choices[value])
