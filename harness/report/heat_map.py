# SPDX-License-Identifier: Apache-2.0
"""Heat maps of the harm in many experiments: by their options, in every queue, with every contender."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

from sojourn.harness.report.experiments import Experiment, differing
from sojourn.harness.report.grids import DEMAND_MET, labelled, queue
from sojourn.harness.report.number_text import between, by_numbers, figure_text, two_decimals
from sojourn.harness.report.option_words import option_words
from sojourn.scoring.long_table import named
from sojourn.scoring.schema.scores import HARMED
from sojourn.scoring.statistics.intervals import ENOUGH
from sojourn.scoring.statistics.summary import REFERENCE, Figure

#: Options that the heads of rows show, and those of columns; a timeline's contenders are columns too.
_HEAD, _COLUMNS = ("service", "rate_down_bps", "rtt_us"), ("cell", "qdisc_down", "qdisc_up", "box", "timeline")
#: In place of a metric: the primary one of each experiment.
_PRIMARY = "primary"
#: Opacity of harm 1: the figure stays readable on it, on paper and in dark mode.
_DEEPEST = 0.55


@dataclass(frozen=True)
class HeatCell:
    """The harm in an experiment with a contender: text, interval and number of runs, link to the runs, CSS colour.

    `few`: fewer runs than a result needs. All are empty where nothing was run.
    """

    text: str = ""
    notes: tuple[str, ...] = ()
    link: str = ""
    style: str = ""
    few: bool = False


@dataclass(frozen=True)
class HeatTable:
    """A table of harms; `groups` are heads over several columns, with their widths."""

    caption: str
    corner: str
    groups: Sequence[tuple[str, int]]
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[HeatCell]]]


@dataclass(frozen=True)
class HeatMap:
    """The harm in a metric: one table, or one per queue and contender where two options were swept."""

    metric: str
    label: str
    primary: bool
    tables: Sequence[HeatTable]


@dataclass(frozen=True)
class Placed:
    """An experiment with one of its contenders: its options in words, its link, its queue, the contender."""

    head: str
    link: str
    queue: str
    contender: str
    experiment: Experiment


def heat_maps(field: HarmField) -> list[HeatMap]:
    """Return a map per metric of harm, the primary one first; services whose primary metrics differ share a first map.

    Experiments that differ in two options other than queue and contender have a table per queue and contender, with
    these options as rows and columns; others have one table, with a row per combination of options.
    """
    figures = [figure for one in field.groups for figure in one.summary.harm]
    primary = {figure.metric for figure in figures if figure.primary}
    known = sorted({it.metric for it in figures}, key=lambda name: (name not in primary, list(HARMED).index(name)))
    runs = [run.scores for one in field.groups for run in one.victims]
    several = len(primary) > 1  # services of different kinds
    return [
        HeatMap(
            metric,
            "the primary metric of every service" if metric == _PRIMARY else labelled(named(metric)[0], *runs),
            metric == _PRIMARY if several else metric in primary,
            list(field.tables(metric)),
        )
        for metric in (*([_PRIMARY] if several else []), *known)
    ]


class HarmField:
    """Experiments with a victim by their options (a row), their queue and their contenders.

    An experiment's link is `#e` and its number in `groups`.
    """

    def __init__(self, groups: Sequence[Experiment]) -> None:
        self.groups = [one for one in groups if one.victims]
        self._links = {id(one): f"#e{number}" for number, one in enumerate(groups)}
        self._cells: dict[tuple[str, str, str], Experiment] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        programs = {program for one in self.groups for program in _programs(one)}
        alike = len(programs) == len(dict(programs))
        for one in self.groups:
            options = _row(one)
            if alike:
                options.pop("programs", None)  # the columns have their names
            if any((_key(options), _queue(one), name) in self._cells for name in _contenders(one)):
                # The same contender among others: another row.
                options["timeline"] = one.runs[0].definition["timeline"]
            row = _key(options)
            self._rows[row] = options
            for name in _contenders(one):
                self._cells[row, _queue(one), name] = one
        columns = {(queue, name) for _, queue, name in self._cells}
        self._columns = sorted(columns, key=lambda column: (by_numbers(column[0]), _place(column[1])))
        self._swept = _swept(list(self._rows.values()))
        if len(self._swept) == 1:
            (name,) = self._swept
            order = _values(name, self._rows.values())
            self._rows = dict(sorted(self._rows.items(), key=lambda row: order.index(row[1].get(name))))
        self._heads = dict(zip(self._rows, _row_heads(list(self._rows.values())), strict=True))

    def placed(self) -> Iterator[Placed]:
        """Yield every experiment with each of its contenders."""
        for (row, of_queue, name), one in self._cells.items():
            yield Placed(self._heads[row], self._links[id(one)], of_queue, name, one)

    def tables(self, metric: str) -> Iterator[HeatTable]:
        """Yield the tables of a metric."""
        if len(self._swept) == 2:
            for queue, contender in self._columns:
                yield self._plane(metric, queue, contender)
            return
        widths = [(queue, sum(it == queue for it, _ in self._columns)) for queue in dict(self._columns)]
        rows = [
            (head, [self._cell(row, *column, metric) for column in self._columns]) for row, head in self._heads.items()
        ]
        yield HeatTable("", "service, rate, RTT", widths, [name for _, name in self._columns], rows)

    def _plane(self, metric: str, queue: str, contender: str) -> HeatTable:
        down, across = self._swept
        at = {(_key(row.get(down)), _key(row.get(across))): key for key, row in self._rows.items()}
        columns = _values(across, self._rows.values())
        rows = [
            (
                _value(down, y),
                [self._cell(at.get((_key(y), _key(x)), ""), queue, contender, metric) for x in columns],
            )
            for y in _values(down, self._rows.values())
        ]
        heads = [_value(across, x) for x in columns]
        corner = f"{_name(down)} ↓ {_name(across)} →"
        return HeatTable(f"{queue}, with {contender}", corner, (), heads, rows)

    def _cell(self, row: str, queue: str, contender: str, metric: str) -> HeatCell:
        one = self._cells.get((row, queue, contender))
        if one is None:
            return HeatCell()
        summary = one.summary
        void = len(summary.void)
        chosen = (it for it in summary.harm if it.metric == metric)
        figure = summary.primary_harm if metric == _PRIMARY else next(chosen, None)
        harm = figure.contended.get(contender) if figure else None
        met = figure is not None and figure.unlimited(contender)
        notes = [between(harm), _infinite(one, figure.metric, contender)] if figure and harm and not met else []
        notes += [f"n = {harm.n}"] if harm else []
        return HeatCell(
            DEMAND_MET if met else two_decimals(harm.value) if harm else "–" if summary.valid else "invalid",
            (*filter(None, notes), *([f"{void} invalid"] if void else [])),
            self._links[id(one)],
            _shade(harm.value) if harm and not met else "",
            harm is not None and harm.n < ENOUGH,
        )


def _row(one: Experiment) -> dict[str, Any]:
    """Return the options that distinguish rows, by field."""
    lab = one.victims[0].scores.lab
    known = {"rate_down_bps": lab.get("rate_down_bps"), "rtt_us": lab.get("rtt_ms") and lab["rtt_ms"] * 1000}
    path = {name: round(value) for name, value in known.items() if value}  # of runs whose options were not kept
    row = {name: value for name, value in {**path, **one.runs[0].definition}.items() if name not in _COLUMNS}
    for rate, steps in (("rate_down_bps", "rate_steps"), ("rate_up_bps", "rate_up_steps")):
        if changes := row.pop(steps, None):
            row[rate] = ", ".join([_value(rate, row.get(rate)), _value(steps, changes)])
    if row.get("rate_up_bps") == row.get("rate_down_bps"):
        row.pop("rate_up_bps", None)
    phases = (phase.partition(" ") for phase in one.runs[0].definition["timeline"].split(", ") if phase)
    named = (f"{who if who == 'solo' else 'contended'} {length}" for who, _, length in phases)
    return {**row, "timeline": ", ".join(named)}


def _programs(one: Experiment) -> Iterator[tuple[str, str]]:
    """Yield the user's programs of an experiment: the name and the definition of each."""
    for program in one.runs[0].definition.get("programs", ()):
        yield program["name"], _key(program)


def _swept(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the options in which rows differ: the one with more values across.

    Two options that change together are one choice, not a plane: all are then returned, and rows stay rows.
    """
    names = {name for row in rows for name in row}
    counts = {name: len(_values(name, rows)) for name in sorted(names)}
    swept = tuple(sorted((name for name, count in counts.items() if count > 1), key=lambda name: counts[name]))
    return () if len(swept) == 2 and len(rows) <= counts[swept[1]] else swept


def _values(name: str, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return an option's values, in order."""
    values = {_key(row.get(name)): row.get(name) for row in rows}
    every = list(values.values())
    return sorted(every) if all(map(_has_order, every)) else sorted(every, key=lambda it: by_numbers(_value(name, it)))


def _has_order(value: Any) -> bool:
    """Whether a value is a number, or a list of numbers such as a ladder."""
    return all(map(_has_order, value)) if isinstance(value, list) else isinstance(value, int | float)


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _name(field: str) -> str:
    return option_words(field, None)[0]


def _value(field: str, value: Any) -> str:
    """Return an option's value in words; records do not mention options that have their default."""
    return "default" if value is None else option_words(field, value)[1]


def _infinite(one: Experiment, metric: str, contender: str) -> str:
    """Return the value behind a harm if it is infinite: it distinguishes harms of 1."""
    measured: Figure | None = one.summary.figure(metric)
    contended = measured.contended.get(contender) if measured else None
    return figure_text(measured, one.summary, contender) if measured and contended and isinf(contended.value) else ""


def _shade(harm: float) -> str:
    """Return the shade: red for harm, blue for a benefit, deeper for larger figures."""
    colour = "209 36 47" if harm > 0 else "11 98 196"
    return f"background: rgb({colour} / {min(abs(harm), 1) * _DEEPEST:.2f})"


def _queue(one: Experiment) -> str:
    lab = one.victims[0].scores.lab
    same = lab.get("qdisc_down") == lab.get("qdisc_up")
    return queue(lab) if same else f"{queue(lab)} (up: {lab.get('qdisc_up')})"


def _contenders(one: Experiment) -> list[str]:
    names = {phase.contender for run in one.victims for phase in run.scores.phases if phase.contender}
    return sorted(names, key=_place)


def _place(contender: str) -> tuple[bool, str]:
    """Return the key that sorts contenders, the reference first."""
    return contender != REFERENCE, contender


def _row_heads(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return service, rate and round-trip time, and the options that distinguish otherwise equal rows."""
    plain = []
    for one in rows:
        known = [_value(name, one[name]) for name in _HEAD[1:] if one.get(name) is not None]
        plain.append(", ".join([one.get("service") or one["test"], *known]))
    rest = [{_name(name): _value(name, value) for name, value in one.items() if name not in _HEAD} for one in rows]
    return [
        head + differing(one, [other for said, other in zip(plain, rest, strict=True) if said == head])
        for head, one in zip(plain, rest, strict=True)
    ]
