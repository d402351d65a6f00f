# SPDX-License-Identifier: Apache-2.0
"""A queue discipline: parse it from tc's text, write it as tc arguments, compare it with tc -j."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from sojourn.bottleneck.parameters import Parameter
from sojourn.hardware.machine.messages import did_you_mean, first_wrong


@dataclass(frozen=True)
class Filter:
    """A flower filter of a queue, in tc's words: packets of `protocol` that match go to the class `classid`."""

    protocol: str
    prio: int
    match: str
    shown: Mapping[str, Any]
    """The keys that tc shows for `match`."""
    classid: str

    def command(self, dev: str, parent: str) -> list[str]:
        """Return the command that attaches it to the queue `parent` on `dev`."""
        return (
            f"tc filter add dev {dev} parent {parent} protocol {self.protocol} prio {self.prio} flower "
            f"{self.match} classid {self.classid}"
        ).split()

    def is_among(self, shown: Sequence[Mapping[str, Any]]) -> bool:
        """Whether `tc -j filter show` of the queue has it, without a further condition on packets."""
        return any(
            (one.get("protocol"), options.get("classid")) == (self.protocol, self.classid)
            and {key: value for key, value in options.get("keys", {}).items() if key != "eth_type"} == self.shown
            for one in shown
            if (options := one.get("options", {}))
        )


class QdiscError(ValueError):
    """The text of a qdisc is wrong; the message says what and what would be right."""


class Qdisc(BaseModel):
    """A queue discipline. A field that is None keeps the kernel's default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    mark_counters: ClassVar[tuple[str, ...]] = ()
    """Counters in `tc -s -j qdisc` of CE marks, which together count each once.

    A packet that two laws of a queue mark, or that comes marked, is counted again: its share is known by captures only.
    """
    examples: ClassVar[tuple[str, ...]] = ()
    """Texts that together use every parameter; tests set each up on a real router and read it back."""
    marks_unasked: ClassVar[bool] = False
    """Whether it marks by default, without an ECN parameter."""
    filtered: ClassVar[bool] = False
    """Whether it has one queue per flow, which a tc filter can select."""

    def caution(self, rate_bps: int) -> str:
        """Return what a reader of results at this rate must know; empty for nothing."""
        return ""

    @classmethod
    @cache
    def parameters(cls) -> Mapping[str, Parameter]:
        """Return this kind's parameters by field name."""
        parameters = {}
        for name, info in cls.model_fields.items():
            parameter = next(m for m in info.metadata if isinstance(m, Parameter))
            word = parameter.word or name
            parameters[name] = replace(parameter, word=word, key=parameter.key or word)
        return parameters

    @classmethod
    def from_words(cls, words: Sequence[str]) -> Self:
        """Parse the parameters after the kind. Raises `QdiscError`."""
        values: dict[str, Any] = {}
        rest = list(words)
        while rest:
            name, value, taken = cls._first(rest)
            if cls.parameters()[name].repeats:
                value = (*values.pop(name, ()), *value)
            if name in values:
                raise QdiscError(f'{cls.kind}: "{rest[0]}" sets {name} a second time; give it once')
            values[name] = value
            del rest[:taken]
        try:
            return cls(**values)
        except ValidationError as wrong:
            raise QdiscError(f"{cls.kind}: {first_wrong(wrong)}") from None

    @classmethod
    def _first(cls, words: Sequence[str]) -> tuple[str, Any, int]:
        """Return field name and value of the parameter at the head of `words`, and the number of words used."""
        for name, parameter in cls.parameters().items():
            try:
                match = parameter.match(words)
            except ValueError as wrong:
                raise QdiscError(f"{cls.kind}: {wrong}") from None
            if match is not None:
                return name, *match
        raise QdiscError(cls._unknown(words[0]))

    @classmethod
    def _unknown(cls, word: str) -> str:
        known = [w for p in cls.parameters().values() for w in p.words]
        takes = f"{cls.kind} takes: {', '.join(p.help for p in cls.parameters().values())}"
        hint = "; ".join(filter(None, ("" if word in known else did_you_mean(word, known), takes)))
        return f'{cls.kind}: unknown parameter "{word}"; {hint}'

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        for name, value in self.given().items():
            self.parameters()[name].check(value)
        self.validate_together()
        return self

    def validate_together(self) -> None:
        """Raise ValueError if parameters contradict each other."""

    def given(self) -> dict[str, Any]:
        """Return the parameters that differ from None, by field name."""
        return {name: value for name in self.parameters() if (value := getattr(self, name)) is not None}

    @property
    def shapes_bps(self) -> int | None:
        """The rate to which it shapes by itself, bit/s; None where it leaves that to the shaper."""
        return None

    @property
    def marks_ce(self) -> bool:
        """Whether it marks ECN-capable packets CE with these parameters."""
        ecn = getattr(self, "ecn", None)
        return (self.marks_unasked if ecn is None else ecn) or getattr(self, "ce_threshold", None) is not None

    @property
    def marks_sce(self) -> bool:
        """Whether it changes ECT(0) to ECT(1) before it marks CE (Some Congestion Experienced)."""
        return bool(getattr(self, "sce", None))

    @classmethod
    def marks(cls, statistics: Mapping[str, Any]) -> int | None:
        """Return its CE marks by its counters, from its object in `tc -s -j qdisc`; None if not shown.

        dualpi2 counts a packet twice that is CE already when coupling or step marks it.
        """
        counts = [part[name] for part in cls.counters(statistics) for name in cls.mark_counters if name in part]
        return sum(counts) if counts else None

    @classmethod
    def sce_marks(cls, statistics: Mapping[str, Any]) -> int | None:
        """Return the packets that it has changed to ECT(1) for SCE, from the same object; None if not shown."""
        return statistics.get("sce_mark")

    @classmethod
    def counters(cls, statistics: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the objects that hold its counters."""
        return (statistics,)

    def tc_args(self) -> list[str]:
        """Return kind and parameters as arguments of `tc qdisc add … KIND …`."""
        parameters = self.parameters()
        return [
            self.kind,
            *(t for name, value in self.given().items() for t in parameters[name].tokens(value)),
        ]

    def __str__(self) -> str:
        return " ".join(self.tc_args())

    def filters(self, handle: str) -> Sequence[Filter]:
        """Return the tc filters that it needs once it exists with `handle`, such as `10:`."""
        return ()

    def differences(self, actual: Mapping[str, Any]) -> list[str]:
        """Compare with the `options` of `tc -d -j qdisc show`; return one line per parameter that differs.

        Only given parameters are compared, after the kernel's rounding.
        """
        parameters, skipped = self.parameters(), self.not_compared()
        return [
            line
            for name, value in self.given().items()
            if name not in skipped
            for line in parameters[name].differences(value, actual)
        ] + self.derived_differences(actual)

    def not_compared(self) -> frozenset[str]:
        """Return the fields that the kernel may change by itself."""
        return frozenset()

    def derived_differences(self, actual: Mapping[str, Any]) -> list[str]:
        """Compare values that tc computes from several parameters."""
        return []
