# SPDX-License-Identifier: Apache-2.0
"""Published against Sojourn's values as one drawing, for documents: one panel per quantity, one colour per source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.harness.report.palette import looks
from sojourn.harness.report.svg import Dot, scatter, start, text

_WIDTH, _MOST = 1000.0, 380.0  # px: the drawing's width, and the maximum of a panel's
_TITLE, _ROW, _COLUMNS = 24.0, 18.0, 2
_FEW = 100
"""A source with at most this many dots is drawn larger and on top."""


@dataclass(frozen=True)
class SourceDots:
    """The values of a source: pairs (published, Sojourn's), both above 0."""

    source: str
    dots: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Quantity:
    """A panel: its quantity with unit, and one series per source, in the same order in all panels."""

    title: str
    series: Sequence[SourceDots]


def agreement_plot(quantities: Sequence[Quantity], within: float) -> str:
    """Return the panels as SVG, with a key of the sources and their numbers of values.

    The band covers values within `within` of the published value (natural logarithm).
    """
    wide = _WIDTH / max(len(quantities), 1)
    side = min(wide - 8, _MOST)
    totals = Counter[str]()
    sources = list(dict.fromkeys(one.source for quantity in quantities for one in quantity.series))
    kinds = dict(zip(sources, looks([""] * len(sources)), strict=True))
    for one in (one for quantity in quantities for one in quantity.series):
        totals[one.source] += len(one.dots)
    named = [source for source in kinds if totals[source]]
    rows = -(-len(named) // _COLUMNS)
    out = [start(_WIDTH, _TITLE + side + _ROW * (rows + 0.5), "Published values against Sojourn's")]
    for n, quantity in enumerate(quantities):
        left = n * wide + (wide - side) / 2
        out.append(text("phase-name", left + side / 2 + 20, 16, quantity.title))
        panel = scatter(_dots(quantity, kinds), "published", "Sojourn", side, within)
        out.append(f'<g transform="translate({left:.1f} {_TITLE:g})">{"".join(panel)}</g>')
    for n, source in enumerate(named):
        x, y = _WIDTH * (0.08 + 0.5 * (n // rows)), _TITLE + side + _ROW * (n % rows + 1)
        out.append(text(f"mark {kinds[source]}", x, y, "●") + text("", x + 16, y, f"{source} ({totals[source]})"))
    return "".join([*out, "</svg>"])


def _dots(quantity: Quantity, kinds: dict[str, str]) -> list[Dot]:
    many_first = sorted(quantity.series, key=lambda one: len(one.dots) <= _FEW)
    return [
        Dot(f"{'' if few else 'faint '}{kinds[one.source]}", theirs, ours, ours, ours, radius=2.6 if few else 1.6)
        for one in many_first
        for few in (len(one.dots) <= _FEW,)
        for theirs, ours in one.dots
    ]
