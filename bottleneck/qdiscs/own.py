# SPDX-License-Identifier: Apache-2.0
"""A qdisc that Sojourn does not know, of the user's own kernel: `sch_NAME`, as its module is called, and tc's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Self

from sojourn.bottleneck.parameters import Parameter
from sojourn.bottleneck.qdiscs.base import Qdisc, QdiscError

PREFIX = "sch_"
"""Begins the name of such a qdisc in options and records, so that it is none of Sojourn's."""
_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]{0,14}")
_WORD = re.compile(r"[A-Za-z0-9_.:/%+-]{1,64}")
_MOST_WORDS = 64


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

    def differences(self, actual: Mapping[str, Any]) -> list[str]:
        """Compare numbers without a unit with what tc shows by the word before them; other words are not compared.

        Of a rate, given in bit/s, tc shows the bytes.
        """
        pairs = zip(self.words, self.words[1:], strict=False)
        return [
            f"{word}: requested {value}, found {actual[word]}"
            for word, value in pairs
            if value.isdecimal()
            and isinstance(actual.get(word), int)
            and actual[word] not in (int(value), *[int(value) // 8] * ("rate" in word))
        ]
