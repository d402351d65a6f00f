# SPDX-License-Identifier: Apache-2.0
"""Plots as small inline SVG: panels that share a time axis, and a CCDF with a logarithmic share axis.

Colours, dashes and fonts are classes in the page's style sheet and of `palette.py`, so that one plot works in light,
dark and print. What a page needs to zoom and to read values is in `data-` attributes (`templates/plots.js`).
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from statistics import quantiles
from typing import NamedTuple

from sojourn.scoring.statistics.numbers import LOST, formatted

Points = Sequence[tuple[float, float | None]]
LEFT, RIGHT, TOP, BOTTOM = 64.0, 12.0, 32.0, 40.0
"""Px between the edges of a time plot and its axes, without a heading."""
_WIDTH, _GAP, _HEADING = 1000.0, 22.0, 18.0
#: Px of a letter of a panel's title and of its key in the widest usual font, and of a key's sample and its value.
_BOLD, _LETTER, _SAMPLE, _VALUE = 8.4, 7.4, 24.0, 58.0
#: Least distance in px between the values of an axis.
_LINE = 10.0
#: The least share of its size to which a page may shrink a plot: its text stays readable.
_LEAST = 0.86
_CHARACTER = 5.9
"""Px of a character, on average."""
_BEYOND = 24.0
"""Px between the end of an axis and infinity."""


@dataclass(frozen=True)
class Scale:
    """Maps values `lo` to `hi` onto pixels `a` to `b`, on a logarithmic scale if `log`."""

    lo: float
    hi: float
    a: float
    b: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            low, high, at = math.log10(self.lo), math.log10(self.hi), math.log10(max(value, self.lo))
        else:
            low, high, at = self.lo, self.hi, value
        return self.a + (min(max(at, low), high) - low) / ((high - low) or 1) * (self.b - self.a)


@dataclass(frozen=True)
class _Broken(Scale):
    """A scale with a place for infinity, this many px beyond its end."""

    beyond: float = 0.0

    def __call__(self, value: float) -> float:
        return self.b + self.beyond if value == math.inf else super().__call__(value)


def start(width: float, height: float, label: str, kind: str = "", data: str = "") -> str:
    """Return the start tag of a plot of this size in px; `data` are further attributes."""
    least = f' style="min-width:{width * _LEAST:.0f}px"'
    box = f'viewBox="0 0 {width:g} {height:g}"'
    return f'<svg class="plot{kind}" {box}{least}{data} role="img" aria-label="{escape(label)}">'


def sample(kind: str, block: bool = False) -> str:
    """Return the sample of a series for a key: a piece of its line, or a block of its colour."""
    drawn = f'<rect class="bar {kind}" width="14" height="12" x="5"/>'
    if not block:
        drawn = f'<path class="line {kind}" d="M0,6H{_SAMPLE:g}"/>'
    return f'<svg class="plot sample" viewBox="0 0 {_SAMPLE:g} 12" aria-hidden="true">{drawn}</svg>'


def line(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    """Return a straight line from (x1, y1) to (x2, y2)."""
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def text(kind: str, x: float, y: float, words: str, anchor: str = "") -> str:
    """Return a text at a point; `anchor` overrides the style sheet's."""
    style = f' style="text-anchor:{anchor}"' if anchor else ""
    return f'<text class="{kind}"{style} x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def circle(kind: str, x: float, y: float, radius: float, tip: str) -> str:
    """Return a dot with a tooltip, if any."""
    dot = f'<circle class="bar {kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"'
    return f"{dot}><title>{escape(tip)}</title></circle>" if tip else f"{dot}/>"


def x_axis(x: Scale, marks: Iterable[float], top: float, bottom: float, name: str = "", below: float = 34) -> str:
    """Return grid lines from `top` to `bottom`, their values, and the name of the axis `below` px under the plot."""
    drawn = [line("grid", x(mark), x(mark), top, bottom) + text("tick x", x(mark), bottom + 16, f"{mark:g}")
             for mark in marks]  # fmt: skip
    return "".join([*drawn, text("axis", (x.a + x.b) / 2, bottom + below, name) if name else ""])


def y_axis(y: Scale, marks: Iterable[tuple[float, str]], x: Scale, name: str = "") -> str:
    """Return grid lines across the whole of `x` at values, their texts, and the name of the axis left of them.

    A text that would cover the one above it is left out.
    """
    drawn, above = [], -math.inf
    for at, words in sorted(marks, reverse=True):
        drawn.append(line("grid", x.a, x.b, y(at), y(at)))
        if y(at) - above >= _LINE:
            above = y(at)
            drawn.append(text("tick y", x.a - 6, above + 4, words))
    turned = f'<text class="axis" transform="translate(13 {(y.a + y.b) / 2:g}) rotate(-90)">{escape(name)}</text>'
    return "".join([*drawn, turned if name else ""])


def ticks(lo: float, hi: float, about: int = 6) -> list[float]:
    """Return about `about` round values from `lo` to `hi`, at steps of 1, 2 or 5 times a power of ten."""
    raw = max(hi - lo, 1e-9) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(lo / step - 1e-9)
    return [round(n * step, 10) for n in range(first, math.floor(hi / step + 1e-9) + 1)]


class Line(NamedTuple):
    """A line of a panel: css classes, points, and its name in the key, if it has one."""

    kind: str
    points: Points
    name: str = ""


@dataclass
class Panel:
    """One panel of a time plot: title, height in px, y range, content, and its key, which is next to the title."""

    title: str
    height: float
    top: float
    labels: list[tuple[float, str]] | None = None  # (value, text); default: round numbers
    lines: list[Line] = field(default_factory=list)
    spans: list[tuple[str, float, float, str]] = field(default_factory=list)  # (name, start, length, tip)
    names: dict[str, str] = field(default_factory=dict)
    """What the key calls the spans, by their names."""

    @property
    def key(self) -> list[tuple[str, str]]:
        """The css classes and the name of every entry; lines of the same name share one."""
        entries = dict.fromkeys((line.kind, line.name) for line in self.lines if line.name)
        return [*entries, *((f"who-{span}", name) for span, name in self.names.items())]


def time_plot(
    panels: Sequence[Panel],
    phases: Sequence[tuple[str, str, float, float]],
    label: str,
    axis: str = "time from the start of the first phase (s)",
    size: tuple[float, float] | None = None,
    heading: Sequence[str] = (),
    stamp: str = "",
) -> str:
    """Return the panels over one time axis in seconds; a phase is (name, css classes, start, end).

    `size` is width and height in px; the panels' heights are scaled to fit. `heading` has lines above the plot,
    `stamp` is a pale word across it.
    """
    top = TOP + _HEADING * len(heading)
    fixed, natural = top + _GAP * (len(panels) - 1) + BOTTOM, sum(panel.height for panel in panels)
    width, height = size or (_WIDTH, fixed + natural)
    end = max((stop for *_, stop in phases), default=1.0)
    x = Scale(0, end, LEFT, width - RIGHT)
    bottom = height - BOTTOM
    data = f' data-left="{LEFT:g}" data-right="{width - RIGHT:g}" data-end="{end:g}"'
    out = [start(width, height, label, " timeline", data)]
    out += [text("heading", width / 2, _HEADING * (n + 1), words) for n, words in enumerate(heading)]
    shades, names = [], []
    for name, kind, begin, stop in phases:
        shades.append(
            f'<rect class="phase {kind}" x="{x(begin):.1f}" y="{top - 26:g}" '
            f'width="{x(stop) - x(begin):.1f}" height="{bottom - top + 26:.1f}"/>'
        )
        names.append(text("phase-name", x((begin + stop) / 2), top - 11, name))
    out += [_window(x, top - 26, bottom, shades), *names]
    drawn: list[str] = []
    y = top
    for panel in panels:
        fitted = replace(panel, height=panel.height * (height - fixed) / natural)
        out += _frame(fitted, x, y)
        drawn += _curves(fitted, x, y)
        y += fitted.height + _GAP
    out += [text("tick x", x(tick), bottom + 16, f"{tick:g}") for tick in ticks(0, end, 10)]
    out += [_window(x, top, bottom, drawn)]
    out += [text("axis", (x.a + x.b) / 2, bottom + 34, axis), line("cursor", -9, -9, top, bottom)]
    out += [text("stamp", width / 2, height / 2 + 35, stamp)] if stamp else []
    return "".join([*out, "</svg>"])


def _window(x: Scale, top: float, bottom: float, drawn: Iterable[str]) -> str:
    """Return elements in a window of the same coordinates: a page zooms by the window's view box."""
    wide, high = x.b - x.a, bottom - top
    box = f'x="{x.a:g}" y="{top:g}" width="{wide:g}" height="{high:g}" viewBox="{x.a:g} {top:g} {wide:g} {high:g}"'
    return f'<svg class="window" {box} preserveAspectRatio="none">{"".join(drawn)}</svg>'


def _axis_of(panel: Panel, top: float) -> Scale:
    return Scale(0, panel.top or 1, top + panel.height, top + 14)


def _frame(panel: Panel, x: Scale, top: float) -> Iterable[str]:
    """Yield what surrounds the curves: title, key, and the grid with its values."""
    y = _axis_of(panel, top)
    most = f' data-most="{y.hi:g}"' if panel.labels is None else ""  # a label is no value to read
    yield f'<g class="of" data-top="{y.b:.2f}" data-bottom="{y.a:.2f}"{most}>'
    yield text("panel", x.a + 6, top + 9, panel.title)
    at = x.a + 6 + _BOLD * len(panel.title) + 18
    needed = sum(_SAMPLE + 5 + _LETTER * len(name) + 14 for _, name in panel.key)
    # Room for the value at the pointer, as far as there is any.
    room = min(_VALUE - 14, max(0, x.b - at - needed) / max(1, len(panel.key)))
    for kind, name in panel.key:
        spans = name in panel.names.values()
        yield f'<g class="entry" data-name="{escape(name)}">'
        if spans:
            yield f'<rect class="bar {kind}" x="{at + 6:.1f}" y="{top - 1:.1f}" width="12" height="10"/>'
        else:
            yield f'<path class="line {kind}" d="M{at:.1f},{top + 4.5:.1f}h{_SAMPLE:g}"/>'
        yield f'<text x="{at + _SAMPLE + 5:.1f}" y="{top + 9:.1f}">{escape(name)}<tspan class="now"></tspan></text></g>'
        at += _SAMPLE + 5 + _LETTER * len(name) + 14 + (0 if spans or panel.labels else room)
    labels = panel.labels
    if labels is None:
        # In a low panel, all round values but 0 may be above the top.
        marks = (ticks(0, panel.top or 1, about) for about in itertools.count(max(int(panel.height // 34), 2)))
        labels = [(tick, f"{tick:g}") for tick in next(it for it in marks if len(it) > 1)]
    yield y_axis(y, labels, x)
    yield "</g>"


def _curves(panel: Panel, x: Scale, top: float) -> Iterable[str]:
    y = _axis_of(panel, top)
    names = {span: f' data-name="{escape(name)}"' for span, name in panel.names.items()}
    yield "<g>"
    for kind, begin, length, tip in panel.spans:
        wide = max(x(begin + length) - x(begin), 1.5)
        yield (
            f'<rect class="{kind} who-{kind}" x="{x(begin):.1f}" y="{y.b:g}" width="{wide:.1f}" '
            f'height="{y.a - y.b:g}"{names.get(kind, "")}><title>{escape(tip)}</title></rect>'
        )
    for kind, points, name in panel.lines:
        named = f' data-name="{escape(name)}"' if name else ""
        yield f'<path class="line {kind}"{named} d="{_path(points, x, y)}"/>'
    yield "</g>"


def ccdf_plot(
    curves: Sequence[tuple[str, str, Points]],
    label: str,
    floor: float = 0.1,
    axis: str = "round-trip time of the probe (ms)",
    upwards: str = "",
    size: tuple[float, float] = (_WIDTH, 360.0),
    others: Sequence[Points] = (),
) -> str:
    """Return a CCDF: share of samples above x in percent (logarithmic, down to `floor`) against x in ms.

    `curves` are (name, css class, points (x, percent)). A curve that ends above `floor` continues to the edge: the
    rest was lost. With `upwards`, the name of the share, the plot has its key. `size` is width and height in px.
    The axis also reaches over `others`: plots below each other can be compared.
    """

    def visible(points: Points) -> list[tuple[float, float]]:
        return [(at, share) for at, share in points if share is not None and share >= floor]

    shown = [visible(points) for *_, points in curves]
    endless = [bool(points) and (points[-1][1] or 0) >= floor for *_, points in curves]
    xs = [at for points in (*shown, *map(visible, others)) for at, _ in points] or [0.0, 1.0]
    lo, hi = min(xs), max(xs)
    lo, hi = max(0.0, lo - 0.04 * (hi - lo)), hi + 0.04 * (hi - lo) + 0.1
    width, height = size
    named, top = _key([(name, kind) for name, kind, _ in curves], width) if upwards else ("", 0.0)
    x, y = Scale(lo, hi, LEFT, width - RIGHT), Scale(floor, 100, height - BOTTOM, top + 12, log=True)
    shares = [(share, f"{share:g} %") for share in (100, 50, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1)]
    scales = {"left": x.a, "right": x.b, "top": y.b, "bottom": y.a, "lo": lo, "hi": hi, "floor": floor}
    data = "".join(f' data-{key}="{value:g}"' for key, value in scales.items())
    marks = ticks(lo, hi, min(10, int(width // 40)))
    out = [start(width, height, label, " ccdf", data)]
    out += [y_axis(y, shares, x, upwards), x_axis(x, marks, y.b, y.a, axis, 36), named]
    for (name, kind, _), points, on in zip(curves, shown, endless, strict=True):
        points = [*points, (hi, points[-1][1])] if on else points
        drawn = f'd="{_path(points, x, y)}" data-name="{escape(name)}"><title>{escape(name)}</title></path>'
        out.append(f'<path class="line {kind}" {drawn}')
    return "".join([*out, "</svg>"])


def _key(entries: Sequence[tuple[str, str]], width: float) -> tuple[str, float]:
    """Return the key of lines (name, css class) as rows above a plot of this width, and its height."""
    wide = 46 + _CHARACTER * max((len(name) for name, _ in entries), default=0)
    columns = max(int((width - RIGHT) // wide), 1)
    out, y = [], 12.0
    for n, (name, kind) in enumerate(entries):
        x, y = RIGHT + n % columns * wide, 12.0 + n // columns * 16
        out += [f'<path class="line {kind}" d="M{x:g},{y:g}h26"/>', text("entry", x + 31, y + 4, name)]
    return "".join(out), y + 4


@dataclass(frozen=True)
class Bar:
    """A bar: css class, length, the range of its repetitions, a reference value, a tooltip, the words at its end."""

    kind: str
    value: float
    low: float
    high: float
    published: float | None
    tip: str
    words: str = ""


def bar_chart(groups: Sequence[tuple[str, Sequence[Bar]]], axis: str, label: str, width: float = 620.0) -> str:
    """Return horizontal bars in groups (label, bars); a line over a bar is its range, a tick the reference value."""
    longest = max((len(name) for name, _ in groups), default=0)
    left, thick, gap = min(24 + 7 * longest, width / 2), 14.0, 9.0
    right = RIGHT + _LETTER * max((len(bar.words) + 1 for _, bars in groups for bar in bars), default=0)
    given = [v for _, bars in groups for bar in bars for v in (bar.value, bar.high, bar.published) if v is not None]
    values = [v for v in given if math.isfinite(v)]  # infinite bars reach the edge
    low = min([0.0, *values, *(bar.low for _, bars in groups for bar in bars)])
    marks = ticks(low, max([*values, 1e-9]), 5)
    x = Scale(min(low, marks[0]), max([*values, 1e-9]) * 1.02, left, width - right)
    height = 8 + sum(len(bars) * thick + gap for _, bars in groups) + BOTTOM
    out = [start(width, height, label), x_axis(x, marks, 4, height - BOTTOM, axis)]
    y = 8.0
    for name, bars in groups:
        out.append(text("tick y", left - 7, y + len(bars) * thick / 2 + 4, name))
        for bar in bars:
            a, b = sorted((x(0), x(bar.value)))
            out.append(
                f'<rect class="bar {bar.kind}" x="{a:.1f}" y="{y + 0.5:.1f}" width="{max(b - a, 0.8):.1f}" '
                f'height="{thick - 1:g}"><title>{escape(bar.tip)}</title></rect>'
            )
            if bar.high > bar.low:
                out.append(line("range", x(bar.low), x(bar.high), y + thick / 2, y + thick / 2))
            if bar.published is not None:
                out.append(line("theirs", x(bar.published), x(bar.published), y, y + thick))
            if bar.words:
                reach = max(value for value in (bar.value, bar.high, bar.published, 0) if value is not None)
                out.append(text("words", x(reach) + 5, y + 11, bar.words))
            y += thick
        y += gap
    return "".join([*out, "</svg>"])


@dataclass(frozen=True)
class Dots:
    """A row of a dot plot: css class, one value per run, the figure over the runs, and its interval, if any.

    The class `hollow` draws rings instead of dots.
    """

    label: str
    kind: str
    values: Sequence[float]
    middle: float
    low: float | None
    high: float | None


def dot_plot(rows: Sequence[Dots], label: str, zero: bool = False, width: float = 480.0, never: str = LOST) -> str:
    """Return rows of dots, with a tick for the figure and a line for its interval; `zero` draws a line at 0.

    The dots of a row are stacked in the order of their runs. Infinite values are drawn at the edge, under
    the first word of `never`.
    """
    left, thick = 132.0, 34.0
    given = [v for row in rows for v in (*row.values, row.low, row.high) if v is not None] + ([0.0] if zero else [])
    finite = [v for v in given if math.isfinite(v)] or [0.0]
    low, high = min(finite), max(finite)
    room = 0.04 * (high - low) or abs(high) * 0.02 or 0.5
    x = Scale(low - room, high + room, left, width - RIGHT)
    bottom = 4 + thick * len(rows)
    out = [start(width, bottom + 20, label), x_axis(x, ticks(x.lo, x.hi, 5), 4, bottom)]
    if zero:
        out.append(line("theirs", x(0), x(0), 4, bottom))
    if math.inf in given:
        out.append(text("tick x", x.b - 4, bottom + 16, never.split()[0]))
    for index, row in enumerate(rows):
        top = 4 + index * thick
        middle = top + thick / 2
        out.append(text("tick y", left - 8, middle + 4, row.label))
        if row.low is not None and row.high is not None:
            out.append(line(f"interval {row.kind}", x(row.low), x(row.high), middle, middle))
        at, reach = x(row.middle), thick / 2 - 5
        out.append(line(f"interval {row.kind}", at, at, middle - reach, middle + reach))
        for run, value in enumerate(row.values):
            y = top + 7 + (thick - 14) * (run + 0.5) / len(row.values)
            tip = f"{row.label}, run {run + 1}: {formatted(value, 'g', never)}"
            out.append(circle(row.kind, x(value), y, 2.8, tip))
    return "".join([*out, "</svg>"])


def estimate_plot(
    groups: Sequence[tuple[str, Sequence[Dots]]],
    axis: str,
    label: str,
    *,
    boxes: bool,
    width: float = 620.0,
    never: str = LOST,
) -> str:
    """Return groups (heading, rows) of figures over runs as bars from 0, or as `boxes`, with their intervals.

    A box spans the quartiles of the runs, with a line at the median; its whiskers reach the furthest runs within 1.5
    times its length; the dots are the runs, and below is the figure with its interval. Infinite values are drawn
    beyond a break of the axis, under the first word of `never`.
    """
    rows = [row for _, given in groups for row in given]
    left = min(20 + _CHARACTER * max((len(row.label) for row in rows), default=0), width / 2)
    given = [v for row in rows for v in (row.middle, row.low, row.high) if v is not None]
    given += [v for row in rows for v in row.values] if boxes else [0.0]
    finite = [v for v in given if math.isfinite(v)] or [0.0]
    low, high = min(finite), max(finite)
    room = 0.04 * (high - low) or abs(high) * 0.02 or 0.5
    beyond = _BEYOND if math.inf in given else 0.0
    x = _Broken(low - room * (boxes or low < 0), high + room, left, width - RIGHT - beyond, beyond=beyond)
    marks, wrapped = ticks(x.lo, x.hi, max(5, int(width // 100))), int(width / _CHARACTER)
    out, y = list[str](), 4.0
    for heading, drawn in groups:
        for words in textwrap.wrap(heading, wrapped):
            out.append(text("panel", 4, y + 11, words))
            y += 17
        tall = 36.0 if boxes else 20.0
        bottom = y + tall * len(drawn)
        out += [line("grid", x(mark), x(mark), y, bottom) for mark in marks]
        out += [line("range", x(0), x(0), y, bottom)] if low < 0 < high else []
        out += [line("grid", x.b + gap, x.b + gap, y, bottom) for gap in (beyond / 3, beyond / 2) if beyond]
        for row in drawn:
            out += _box(row, x, y) if boxes else _bar(row, x, y)
            y += tall
        y += 5
    out += [text("tick x", x(mark), y + 11, f"{mark:g}") for mark in marks]
    if math.inf in given:
        out.append(text("tick x", x(math.inf) - 4, y + 11, never.split()[0]))
    names = textwrap.wrap(axis, wrapped)
    out += [text("axis", width / 2, y + 29 + 14 * n, words) for n, words in enumerate(names)]
    return "".join([start(width, y + 23 + 14 * len(names), label), *out, "</svg>"])


def _bar(row: Dots, x: Scale, top: float) -> Iterable[str]:
    """Yield a row of `estimate_plot` as a bar, from `top` px down."""
    a, b = sorted((x(0), x(row.middle)))
    tip = f"{row.label}: {formatted(row.middle, 'g', LOST)}, n={len(row.values)}"
    yield text("tick y", x.a - 7, top + 14, row.label)
    yield (
        f'<rect class="estimate {row.kind}" x="{a:.1f}" y="{top + 3:.1f}" width="{max(b - a, 0.8):.1f}" height="14">'
        f"<title>{escape(tip)}</title></rect>"
    )
    yield _interval(row, x, top + 10)


def _box(row: Dots, x: Scale, top: float) -> Iterable[str]:
    """Yield a row of `estimate_plot` as a box over its runs, from `top` px down; a single run is a dot."""
    y, below = top + 11, top + 26
    yield text("tick y", x.a - 7, y + 4, row.label)
    if len(row.values) > 1:
        values = sorted(row.values)
        first, middle, third = _quartiles(values)
        reach = 1.5 * (third - first) if math.isfinite(first) else 0.0
        inside = [value for value in values if first - reach <= value <= third + reach]
        for near, far in ((first, inside[0]), (third, inside[-1])):
            yield line("whisker", x(near), x(far), y, y) + line("whisker", x(far), x(far), y - 4, y + 4)
        wide = max(x(third) - x(first), 0.8)
        yield f'<rect class="box {row.kind}" x="{x(first):.1f}" y="{y - 8:.1f}" width="{wide:.1f}" height="16"/>'
        yield line("median", x(middle), x(middle), y - 8, y + 8)
    for value in row.values:
        yield circle(f"run {row.kind}", x(value), y, 1.8, f"{row.label}: {formatted(value, 'g', LOST)}")
    yield _interval(row, x, below)
    yield f'<path class="mean" d="M{x(row.middle) - 3.5:.1f},{below:g}l3.5,-3.5 3.5,3.5 -3.5,3.5z"/>'


def _quartiles(values: Sequence[float]) -> Sequence[float]:
    """Return the quartiles of sorted values; of infinite ones their nearest ranks, since between these nothing lies."""
    if math.isfinite(values[-1]):
        return quantiles(values, n=4, method="inclusive")
    return [values[math.ceil(len(values) * quarter / 4) - 1] for quarter in (1, 2, 3)]


def _interval(row: Dots, x: Scale, y: float) -> str:
    """Return a figure's interval as a line with ends; empty without one."""
    if row.low is None or row.high is None or row.high <= row.low:
        return ""
    ends = [line("range", x(at), x(at), y - 3, y + 3) for at in (row.low, row.high)]
    return line("range", x(row.low), x(row.high), y, y) + "".join(ends)


@dataclass(frozen=True)
class Dot:
    """A dot of a scatter plot: css class, x, y, the range of y over repetitions, tooltip; all above 0."""

    kind: str
    x: float
    y: float
    low: float
    high: float
    tip: str = ""
    radius: float = 3.2


def scatter_plot(dots: Sequence[Dot], across: str, upwards: str, label: str) -> str:
    """Return dots on two logarithmic axes of the same range, named `across` and `upwards`, with the line x = y.

    Infinite values are drawn at the edge.
    """
    side = 340.0
    return "".join([start(side, side, label), *scatter(dots, across, upwards, side), "</svg>"])


def scatter(dots: Sequence[Dot], across: str, upwards: str, side: float, within: float = 0.0) -> list[str]:
    """Return the elements of `scatter_plot` in a square of `side` px.

    A band covers x = y within a factor exp(`within`).
    """
    values = [value for dot in dots for value in (dot.x, dot.y) if math.isfinite(value)] or [1.0]
    # Enough range for three ticks on an axis.
    middle = math.sqrt(min(values) * max(values))
    lo, hi = min(min(values) / 1.15, middle / 2), max(max(values) * 1.15, middle * 2)
    marks = _log_ticks(lo, hi)
    left = 30 + 6.4 * max((len(f"{mark:g}") for mark in marks), default=0)
    x, y = Scale(lo, hi, left, side - 8, log=True), Scale(lo, hi, side - BOTTOM, 8, log=True)
    out = [x_axis(x, marks, y.b, y.a, across), y_axis(y, [(mark, f"{mark:g}") for mark in marks], x, upwards)]
    if within:
        factor = math.exp(within)
        corners = [(lo, lo), (lo, lo * factor), (hi / factor, hi), (hi, hi), (hi, hi / factor), (lo * factor, lo)]
        out.append(f'<path class="band" d="{_path(corners, x, y)}Z"/>')
    out.append(line("range", x.a, x.b, y.a, y.b))
    for dot in dots:
        if dot.high > dot.low > 0:
            out.append(line("range", x(dot.x), x(dot.x), y(dot.low), y(dot.high)))
        out.append(circle(f"dot {dot.kind}", x(dot.x), y(dot.y), dot.radius, dot.tip))
    return out


def _log_ticks(lo: float, hi: float) -> list[float]:
    """Return round values from `lo` to `hi` for a logarithmic axis: powers of ten, more or fewer by their number."""
    steps = (
        (1, 1.5, 2, 3, 4, 6, 8) if hi / lo < 8 else (1, 2, 5) if hi / lo < 200 else (1, 3) if hi / lo < 3000 else (1,)
    )
    every = max(math.ceil(math.log10(hi / lo) / 6), 1)
    decades = range(math.floor(math.log10(lo)), math.ceil(math.log10(hi)) + 1, every)
    return [mark for n in decades for m in steps if lo <= (mark := float(f"{m}e{n}")) <= hi]


def _path(points: Points, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    # An unknown value interrupts the line.
    out, pen = [], "M"
    for at, value in points:
        if value is None:
            pen = "M"
        else:
            out.append(f"{pen}{x(at):.1f},{y(value):.1f}")
            pen = "L"
    return "".join(out)
