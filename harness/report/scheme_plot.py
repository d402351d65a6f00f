# SPDX-License-Identifier: Apache-2.0
"""The summary chart of Pantheon: throughput against delay, a named point per scheme, better towards the upper right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from textwrap import wrap

from sojourn.harness.report.svg import Scale, circle, line, start, text, ticks, x_axis, y_axis

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _RIGHT = 1000.0, 460.0, 64.0, 44.0, 12.0
_ROOM = 5  # px from a point to its name
_LETTER, _LINE = 6.2, 13.0  # px that a name's letter and line take
_CROWDED, _CROWD = 14.0, 5  # px between the points of a crowd, and its minimum size
_WRAPPED = 44  # letters in a line of a crowd's names


@dataclass(frozen=True)
class Scheme:
    """A point: name, css class, delay in ms (above 0; infinite if packets were lost), throughput in Mbit/s, tooltip."""

    name: str
    kind: str
    delay_ms: float
    mbps: float
    tip: str


def scheme_plot(schemes: Sequence[Scheme], across: str, upwards: str, label: str) -> str:
    """Return the plot as SVG: delay on a logarithmic axis that grows to the left, throughput upwards from 0.

    A note gives the number of schemes with an infinite delay, which are not drawn.
    """
    placed = [scheme for scheme in schemes if math.isfinite(scheme.delay_ms)]
    lost = [scheme for scheme in schemes if scheme not in placed]
    delays = [scheme.delay_ms for scheme in placed] or [1.0]
    lo, hi = min(delays) / 1.3, max(delays) * 1.3
    x = Scale(lo, hi, _WIDTH - _RIGHT, _LEFT, log=True)
    y = Scale(0, max((scheme.mbps for scheme in placed), default=0) * 1.06 or 1, _HEIGHT - _BOTTOM, 8)
    rates = [(mark, f"{mark:g}") for mark in ticks(0, y.hi)]
    out = [start(_WIDTH, _HEIGHT, label), x_axis(x, _marks(lo, hi), y.b, y.a, across, 36)]
    out.append(y_axis(y, rates, Scale(0, 1, _LEFT, _WIDTH - _RIGHT), upwards))
    taken: list[tuple[float, float, float, float]] = []
    for group in _groups(placed, x, y):
        at = max(x(scheme.delay_ms) for scheme in group)
        up = max(y(scheme.mbps) for scheme in group)
        for scheme in group:
            out.append(circle(scheme.kind, x(scheme.delay_ms), y(scheme.mbps), 4, scheme.tip))
        # A name is next to its point, names of a crowd below it; near other points, as close as possible.
        names = [scheme.name for scheme in group]
        lines = wrap(", ".join(names), _WRAPPED, break_on_hyphens=False) if len(names) > 1 else names
        up += _LINE if len(names) > 1 else 0
        wide, high = _LETTER * max(map(len, lines)), _LINE * len(lines)
        if len(names) > 1:
            at = min(x(scheme.delay_ms) for scheme in group) - _ROOM - 4
        anchor, begin = ("start", at + _ROOM) if at + _ROOM + wide < _WIDTH else ("end", at - _ROOM - wide)
        # A block of names covers no other point.
        points = [(x(one.delay_ms), y(one.mbps)) for one in placed if len(names) > 1 and one not in group]
        filled = [*taken, *((px - 4, px + 4, py + 9, py + 14) for px, py in points)]
        tops = (up + 4 + way * n * _LINE / 2 for n in count() for way in (1, -1) if up + way * n * _LINE / 2 > y.b)
        top = next(
            top
            for top in tops
            if not any(
                begin < right and left < begin + wide and top < low and above < top + high
                for left, right, above, low in filled
            )
        )
        taken.append((begin, begin + wide, top, top + high))
        text_x = at + _ROOM if anchor == "start" else at - _ROOM
        if abs(top - up - 4) > _LINE:
            x1, x2, y1, y2 = (at, text_x, up, top - 4) if len(names) == 1 else (at + 9, at + 9, up - _LINE, top - 10)
            out.append(line("range", x1, x2, y1, y2))
        out += [text("tick", text_x, top + n * _LINE, words, anchor) for n, words in enumerate(lines)]
    if lost:
        tips = escape("; ".join(scheme.tip for scheme in lost))
        note = f"{len(lost)} not drawn: lost<title>{tips}</title>"
        out.append(f'<text class="axis" style="text-anchor:start" x="{_LEFT:g}" y="{_HEIGHT - 8:g}">{note}</text>')
    return "".join([*out, "</svg>"])


def _groups(schemes: Sequence[Scheme], x: Scale, y: Scale) -> list[list[Scheme]]:
    """Group schemes of one kind that are too close for separate names; the fastest first."""
    groups: list[list[Scheme]] = []
    for scheme in sorted(schemes, key=lambda one: (one.kind, -one.delay_ms)):
        here = x(scheme.delay_ms), y(scheme.mbps)
        near = [
            group
            for group in groups
            if group[0].kind == scheme.kind
            and any(math.dist(here, (x(one.delay_ms), y(one.mbps))) < _CROWDED for one in group)
        ]
        groups = [group for group in groups if group not in near] + [
            [*(one for group in near for one in group), scheme]
        ]
    small = [[one] for group in groups if len(group) < _CROWD for one in group]
    return sorted([*small, *(group for group in groups if len(group) >= _CROWD)], key=lambda group: -group[0].mbps)


def _marks(lo: float, hi: float) -> list[float]:
    """Return 1, 2 and 5 times every power of ten from `lo` to `hi`."""
    powers = range(math.floor(math.log10(lo)), math.ceil(math.log10(hi)) + 1)
    return [mark for n in powers for m in (1, 2, 5) if lo <= (mark := m * 10.0**n) <= hi]
