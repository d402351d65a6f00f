# SPDX-License-Identifier: Apache-2.0
"""The queue disciplines for a bottleneck. Each is one file here, or comes with another package or the user's kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.bottleneck.qdiscs.base import Filter, Qdisc, QdiscError
from sojourn.bottleneck.qdiscs.own import PREFIX, OwnQdisc
from sojourn.hardware.machine.discovery import defined_in
from sojourn.hardware.machine.messages import did_you_mean
from sojourn.hardware.machine.plugins import merge_with_builtin, offered

_OURS: dict[str, type[Qdisc]] = {
    qdisc.kind: qdisc
    for qdisc in defined_in(__name__, __path__)
    if isinstance(qdisc, type) and issubclass(qdisc, Qdisc) and isinstance(vars(qdisc).get("kind"), str)
}
_THEIRS: dict[str, type[Qdisc]] = {
    qdisc.kind: qdisc for qdisc in offered("sojourn.qdiscs", type) if issubclass(qdisc, Qdisc)
}
KINDS = merge_with_builtin(_OURS, _THEIRS, "sojourn.qdiscs")

EXAMPLES = tuple(text for qdisc in _OURS.values() for text in qdisc.examples)
"""Texts that together use every parameter of every built-in kind."""

#: What an access line may have.
_COMMON = ("pfifo", "fq_codel", "cake", "dualpi2")

__all__ = ["EXAMPLES", "KINDS", "Filter", "Qdisc", "QdiscError", "marks", "parse_qdisc", "sce_marks", "unknown_kind"]


def marks(statistics: Mapping[str, Any]) -> int | None:
    """Return the packets that a queue has marked CE, from its object in `tc -s -j qdisc`; None if not shown.

    A queue of the user's kernel shows them as most do, by `ecn_mark`.
    """
    kind = KINDS.get(statistics.get("kind", ""))
    return kind.marks(statistics) if kind else statistics.get("ecn_mark")


def sce_marks(statistics: Mapping[str, Any]) -> int | None:
    """Return the packets that a queue has marked SCE, from its object in `tc -s -j qdisc`; None if not shown."""
    kind = KINDS.get(statistics.get("kind", ""))
    return kind.sce_marks(statistics) if kind else None


def unknown_kind(name: str) -> str:
    """Return the error for a name that is none of KINDS: the closest ones, and the command that lists all."""
    hint = did_you_mean(name.lower(), KINDS, most=2) or f"common ones: {', '.join(_COMMON)};"
    return f'unknown qdisc "{name}"; {hint} `sojourn harm --help` lists all {len(KINDS)}'


def parse_qdisc(text: str, option: str = "--qdisc") -> Qdisc:
    """Parse a qdisc in tc's syntax, such as `fq_codel flows 1`; `sch_NAME …` is one of the user's own kernel.

    Raises `QdiscError` with one line that names `option` (unless empty), what is wrong and what would be right.
    """
    words, named = text.split(), f"{option}: " if option else ""
    if not words:
        raise QdiscError(f"{named}no qdisc given; known: {', '.join(KINDS)}")
    kind, own = KINDS.get(words[0]), words[0].startswith(PREFIX)
    if kind is None and not own:
        raise QdiscError(named + unknown_kind(words[0]))
    try:
        return kind.from_words(words[1:]) if kind else OwnQdisc.from_words(words)
    except QdiscError as wrong:
        raise QdiscError(f"{named}{wrong}") from None
