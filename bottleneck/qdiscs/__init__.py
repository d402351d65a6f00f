# SPDX-License-Identifier: Apache-2.0
"""The queue disciplines for a bottleneck. Each is one file here, or comes with another package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.bottleneck.qdiscs.base import Qdisc, QdiscError
from sojourn.hardware.machine.discovery import defined_in
from sojourn.hardware.machine.messages import did_you_mean
from sojourn.hardware.machine.plugins import merge_with_builtin, offered

_OURS: dict[str, type[Qdisc]] = {
    qdisc.kind: qdisc
    for qdisc in defined_in(__name__, __path__)
    if isinstance(qdisc, type) and issubclass(qdisc, Qdisc) and "kind" in vars(qdisc)
}
_THEIRS: dict[str, type[Qdisc]] = {
    qdisc.kind: qdisc for qdisc in offered("sojourn.qdiscs", type) if issubclass(qdisc, Qdisc)
}
KINDS = merge_with_builtin(_OURS, _THEIRS, "sojourn.qdiscs")

EXAMPLES = tuple(text for qdisc in _OURS.values() for text in qdisc.examples)
"""Texts that together use every parameter of every built-in kind."""

__all__ = ["EXAMPLES", "KINDS", "Qdisc", "QdiscError", "marks", "parse_qdisc", "sce_marks"]


def marks(statistics: Mapping[str, Any]) -> int | None:
    """Return the packets that a queue has marked CE, from its object in `tc -s -j qdisc`; None if not shown."""
    kind = KINDS.get(statistics.get("kind", ""))
    return kind.marks(statistics) if kind else None


def sce_marks(statistics: Mapping[str, Any]) -> int | None:
    """Return the packets that a queue has marked SCE, from its object in `tc -s -j qdisc`; None if not shown."""
    kind = KINDS.get(statistics.get("kind", ""))
    return kind.sce_marks(statistics) if kind else None


def parse_qdisc(text: str, option: str = "--qdisc") -> Qdisc:
    """Parse a qdisc in tc's syntax, such as `fq_codel flows 1`.

    Raises `QdiscError` with one line that names `option` (unless empty), what is wrong and what would be right.
    """
    words, named = text.split(), f"{option}: " if option else ""
    if not words:
        raise QdiscError(f"{named}no qdisc given; known: {', '.join(KINDS)}")
    kind = KINDS.get(words[0])
    if kind is None:
        hint = "; ".join(filter(None, (did_you_mean(words[0], KINDS), f"known: {', '.join(KINDS)}")))
        raise QdiscError(f'{named}unknown qdisc "{words[0]}"; {hint}')
    try:
        return kind.from_words(words[1:])
    except QdiscError as wrong:
        raise QdiscError(f"{named}{wrong}") from None
