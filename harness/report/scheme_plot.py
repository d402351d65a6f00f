# SPDX-License-Identifier: Apache-2.0
"""The summary chart of Pantheon: throughput against delay, a named point a scheme, better towards the upper right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import count

from harness.report.svg import Scale, ticks

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _RIGHT = 1000.0, 460.0, 64.0, 44.0, 12.0
_ROOM = 5  # px from a point to its name
_LETTER, _LINE = 6.2, 13.0  # px that a name's letter and line take


@dataclass(frozen=True)
class Scheme:
    """A point: its name, css class, delay in ms (above 0; infinite: of packets that were lost), throughput in Mbit/s,
    what is told of it.
    """

    name: str
    kind: str
    delay_ms: float
    mbps: float
    tip: str


def scheme_plot(schemes: Sequence[Scheme], across: str, upwards: str, label: str) -> str:
    """Return the plot as SVG: delay on a logarithmic axis that grows to the left, throughput upwards from 0.

    It says how many schemes have an infinite delay, and so no place in it.
    """
    placed = [scheme for scheme in schemes if math.isfinite(scheme.delay_ms)]
    lost = [scheme for scheme in schemes if scheme not in placed]
    delays = [scheme.delay_ms for scheme in placed] or [1.0]
    lo, hi = min(delays) / 1.3, max(delays) * 1.3
    x = Scale(lo, hi, _WIDTH - _RIGHT, _LEFT, log=True)
    y = Scale(0, max((scheme.mbps for scheme in placed), default=0) * 1.06 or 1, _HEIGHT - _BOTTOM, 8)
    out = [f'<svg class="plot" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{escape(label)}">']
    for mark in _marks(lo, hi):
        out.append(f'<line class="grid" x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="{y.b:g}" y2="{y.a:g}"/>')
        out.append(f'<text class="tick x" x="{x(mark):.1f}" y="{y.a + 16:g}">{mark:g}</text>')
    for mark in ticks(0, y.hi):
        out.append(
            f'<line class="grid" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y(mark):.1f}" y2="{y(mark):.1f}"/>'
        )
        out.append(f'<text class="tick y" x="{_LEFT - 6:g}" y="{y(mark) + 4:.1f}">{mark:g}</text>')
    taken: list[tuple[float, float, float]] = []
    for scheme in sorted(placed, key=lambda one: -one.mbps):
        at, up = x(scheme.delay_ms), y(scheme.mbps)
        out.append(
            f'<circle class="bar {scheme.kind}" cx="{at:.1f}" cy="{up:.1f}" r="4">'
            f"<title>{escape(scheme.tip)}</title></circle>"
        )
        # A name stands beside its point; where another one is, as near below or above as there is room.
        wide = _LETTER * len(scheme.name)
        anchor, start = ("start", at + _ROOM) if at + _ROOM + wide < _WIDTH else ("end", at - _ROOM - wide)
        lines = (up + 4 + way * n * _LINE / 2 for n in count() for way in (1, -1) if up + way * n * _LINE / 2 > y.b)
        line = next(
            line
            for line in lines
            if not any(
                start < end and begin < start + wide and abs(line - other) < _LINE for begin, end, other in taken
            )
        )
        taken.append((start, start + wide, line))
        beside = at + _ROOM if anchor == "start" else at - _ROOM
        if abs(line - up - 4) > _LINE:
            out.append(f'<line class="grid" x1="{at:.1f}" x2="{beside:.1f}" y1="{up:.1f}" y2="{line - 4:.1f}"/>')
        out.append(
            f'<text class="tick" style="text-anchor:{anchor}" x="{beside:.1f}" y="{line:.1f}">'
            f"{escape(scheme.name)}</text>"
        )
    if lost:
        tips = escape("; ".join(scheme.tip for scheme in lost))
        note = f"{len(lost)} not drawn: lost<title>{tips}</title>"
        out.append(f'<text class="axis" style="text-anchor:start" x="{_LEFT:g}" y="{_HEIGHT - 8:g}">{note}</text>')
    out.append(f'<text class="axis" x="{(_LEFT + _WIDTH) / 2:g}" y="{_HEIGHT - 8:g}">{escape(across)}</text>')
    middle = (y.a + y.b) / 2
    out.append(f'<text class="axis" transform="translate(14 {middle:g}) rotate(-90)">{escape(upwards)}</text></svg>')
    return "".join(out)


def _marks(lo: float, hi: float) -> list[float]:
    """1, 2 and 5 times each power of ten from `lo` to `hi`."""
    powers = range(math.floor(math.log10(lo)), math.ceil(math.log10(hi)) + 1)
    return [mark for n in powers for m in (1, 2, 5) if lo <= (mark := m * 10.0**n) <= hi]
