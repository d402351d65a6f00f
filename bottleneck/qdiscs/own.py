# SPDX-License-Identifier: Apache-2.0
"""A qdisc that Sojourn does not know, of the user's own kernel: `sch_NAME`, as its module is called, and tc's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Self

from sojourn.bottleneck import units
from sojourn.bottleneck.parameters import Parameter, codel_time, exact, jiffies, psched_time
from sojourn.bottleneck.qdiscs.base import Qdisc, QdiscError

PREFIX = "sch_"
"""Begins the name of such a qdisc in options and records, so that it is none of Sojourn's."""
_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]{0,14}")
_WORD = re.compile(r"[A-Za-z0-9_.:/%+-]{1,64}")
_MOST_WORDS = 64
#: Computes delays from its `rate` (hardware/kernel/queue_protection); a shaper sets the link's.
_OF_ITS_LINK = "dualpi2_qprot"
#: What tc may show of a number with a unit: bit/s or bytes/s, bytes, µs as the kernel keeps them, ms, s, ns.
_READINGS: tuple[tuple[Callable[[str], int], Callable[[int], set[int]]], ...] = (
    (units.parse_rate, lambda bps: {bps, bps // 8}),
    (units.parse_size, exact),
    *((units.parse_time, kept) for kept in (exact, codel_time, psched_time, jiffies)),
    (units.parse_time, lambda us: {us // unit for unit in (1000, 10**6) if us % unit == 0}),
    (units.parse_time_ns, exact),
)
_FLAG_VALUES = frozenset({"on", "off", "true", "false"})


class OwnQdisc(Qdisc):
    """Its words go to tc unchanged; only the kernel and the user's own `q_NAME.c` know what they mean."""

    name: str
    words: tuple[str, ...] = ()

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Its name for tc."""
        return self.name

    @classmethod
    @cache
    def parameters(cls) -> Mapping[str, Parameter]:
        """Return none: they are unknown."""
        return {}

    @classmethod
    def from_words(cls, words: Sequence[str]) -> Self:
        """Parse `sch_NAME` and the words after it. Raises `QdiscError`."""
        name, *rest = words
        if not _NAME.fullmatch(name.removeprefix(PREFIX)):
            raise QdiscError(f"{name}: give {PREFIX}NAME, with at most 15 lower-case letters, digits, _ and -")
        if odd := next((word for word in rest if not _WORD.fullmatch(word)), None):
            raise QdiscError(f"{name}: {odd[:64]!r} is not a word for tc; give letters, digits and _.:/%+-")
        if len(rest) > _MOST_WORDS:
            raise QdiscError(f"{name}: {len(rest)} words; give at most {_MOST_WORDS}")
        return cls(name=name.removeprefix(PREFIX), words=tuple(rest))

    def tc_args(self) -> list[str]:
        """Return the name that tc has for it, and the words."""
        return [self.name, *self.words]

    def __str__(self) -> str:
        return " ".join((f"{PREFIX}{self.name}", *self.words))

    @property
    def shared_rate_bps(self) -> int | None:
        """The rate (bit/s) that must be its link's, 0 if it is not given; None for a qdisc without such a rate."""
        if self.name != _OF_ITS_LINK:
            return None
        given = dict(zip(self.words, self.words[1:], strict=False)).get("rate", "")
        try:
            return units.parse_rate(given)
        except units.UnitError:
            return 0

    def differences(self, actual: Mapping[str, Any]) -> list[str]:
        """Compare what tc shows by a word: a whole number with the next word, `true` or `false` with `X` or `no_X`.

        Other words are not compared, neither is a flag with a value of its own, such as `X off`. Of a rate, given in
        bit/s, tc may show the bytes.
        """
        wrong = []
        for before, word, value in zip(("", *self.words), self.words, (*self.words[1:], ""), strict=False):
            found, flag = actual.get(word), word.removeprefix("no_")
            if type(found) is int and (known := _shown(word, value)) and found not in known:
                wrong.append(f"{word}: requested {value}, found {found}")
            alone = isinstance(actual.get(before), bool | None) and not (value in _FLAG_VALUES or value.isdecimal())
            if alone and type(shown := actual.get(flag)) is bool and shown is not (requested := flag == word):
                wrong.append(f"{flag}: requested {requested}, found {shown}")
        return wrong


def _shown(word: str, value: str) -> set[int]:
    """Return what tc may show of a number, empty for another word."""
    if value.isdecimal():
        return {int(value), *[int(value) // 8] * ("rate" in word)}
    if not value[-1].isalpha():
        return set()
    known = set()
    for parse, kept in _READINGS:
        with suppress(units.UnitError):
            known |= kept(parse(value))
    return known
