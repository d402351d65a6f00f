# SPDX-License-Identifier: Apache-2.0
"""The page and the tables of a comparison: the options that differ, then the results that differ."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from sojourn.hardware.machine.messages import count_of
from sojourn.harness.report import palette
from sojourn.harness.report.compare import OF_OPTIONS, Compared, Comparison, Pair, Shift, families
from sojourn.harness.report.experiments import Experiment, distinct_names
from sojourn.harness.report.filmstrip import worst_moment
from sojourn.harness.report.grids import DEMAND_MET, PRIMARY, Grid, Row
from sojourn.harness.report.headline import Badge, badges
from sojourn.harness.report.html import write_page
from sojourn.harness.report.number_text import difference_text, number, p_text, two_decimals
from sojourn.harness.report.option_words import option_words
from sojourn.harness.report.run_page import versions_of
from sojourn.harness.report.svg import Dots, dot_plot
from sojourn.harness.store.loaded import LoadedRun, VictimRun
from sojourn.harness.store.manifest import REPORT
from sojourn.scoring.statistics.intervals import ENOUGH, LEVEL, RESAMPLES, SEED

#: The first column of interval, p and result; where too few runs leave all of these empty, they are omitted.
_TESTED = 4
_TOO_SMALL = "n too small"
_IRRELEVANT = "not relevant"
_UNDECIDED = {_TOO_SMALL, "–"}
#: Characters up to which an option and its value are in the title.
_SHORT = 32
MANY = 6
"""Pairs up to which each is shown whole; of more, a terminal has the verdict, and a page folds them, without plots."""


def lines(pair: Pair) -> list[str]:
    """Return what a pair shows, and how reliable it is, one line each."""
    counts = [len(one.runs) for one in (pair.a, pair.b)]
    sentences = [f"A: {pair.a.headline}", f"B: {pair.b.headline}"]
    sentences.append(f"Valid runs: {counts[0]} in A, {counts[1]} in B.")
    if any(metric.less.paired for metric in pair.compared):
        sentences.append("Both have the same rigs, so the differences are by rig, and what a rig does to both cancels.")
    if min(counts) < ENOUGH:
        sentences.append(f"Too few runs for a result: at least {ENOUGH} runs per side are needed.")
    least = next((metric.less.least_p for metric in pair.compared if metric.less.least_p), None)
    if least and least > 1 - LEVEL:
        sentences.append(f"This number of runs cannot give a p below {least:.2g}, whatever the values.")
    elif least and (most := max(map(len, families(pair.compared).values()), default=0)) * least > 1 - LEVEL:
        sentences.append(
            f"This number of runs cannot give a p below {least:.2g}, nor below {most * least:.2g} corrected for {most} "
            "rows (Holm): only the primary metric can show a difference."
        )
    for word in ("worse", "better", "differs"):
        if names := [f"{metric.label} {pair.where(metric.who)}" for metric in pair.compared if metric.shown == word]:
            sentences.append(f"Shown {'different' if word == 'differs' else word} in B: {'; '.join(names)}.")
    for name, one, other in (("A", pair.a, pair.b), ("B", pair.b, pair.a)):
        if only := [who for who in one.summary.contenders if who not in other.summary.contenders]:
            sentences.append(f"With {', '.join(only)}: only in {name}.")
    return sentences


def shift_line(shifts: Sequence[Shift]) -> str:
    """Return which metrics are shifted in all pairs together."""
    shifted = [
        f"{it.label} {it.where} {it.ratio.value:+.3f} ({it.ratio.low:+.3f} to {it.ratio.high:+.3f})"
        for it in shifts
        if it.ratio.away_from_zero
    ]
    return (
        f"Medians of log(B/A) whose {LEVEL:.0%} interval over the experiments excludes 0: {len(shifted)} of "
        f"{len(shifts)}: {', '.join(shifted) or 'none'}"
    )


def verdict(pair: Pair) -> str:
    """Return in one sentence how B differs from A for the viewer, the primary metric first."""
    decided = sorted(
        (metric for metric in pair.compared if metric.shown),
        key=lambda metric: (not metric.primary, metric.shown == "differs", metric.family != "measured"),
    )
    if decided:
        first, rest = decided[0], len(decided) - 1
        clear = first.primary or len({metric.shown for metric in decided} - {"differs"}) == 1
        word = first.shown if clear and first.shown != "differs" else "different"
        more = f"; {count_of(rest, 'further metric')} differ{'s' * (rest == 1)}" if rest else ""
        return f"B is {word}: {_both(pair, first)}{more}."
    ours, theirs = ({*one.summary.contenders} for one in (pair.a, pair.b))
    if ours | theirs and not ours & theirs:
        harms = "; ".join(f"harm in {name}: {_harms(one)}" for name, one in (("A", pair.a), ("B", pair.b)))
        return f"No contender in common; only the baselines were compared; {harms}."
    counts = [len(one.runs) for one in (pair.a, pair.b)]
    if min(counts) >= ENOUGH:
        return f"No difference shown in {len(pair.compared)} metrics, with {counts[0]} and {counts[1]} runs."
    primary = [metric for metric in pair.compared if metric.primary and metric.family == "measured"]
    seen = "; ".join(_both(pair, metric) for metric in primary if not metric.alike)
    undecided = f"not decided: {count_of(counts[0], 'run')} in A, {counts[1]} in B, {ENOUGH} each are needed."
    if seen:
        return f"{seen[0].upper()}{seen[1:]}; {undecided}"
    return f"The viewer got the same in A and B; {undecided}" if primary else f"Not{undecided[3:]}"


def _harms(one: Experiment) -> str:
    """Return the average harm by the primary metric with every contender."""
    harms = [f"{'–' if it.harm is None else two_decimals(it.harm)} with {it.name}" for it in one.outcomes]
    return ", ".join(harms) or "none, nothing competes"


def _both(pair: Pair, metric: Compared) -> str:
    return f"{metric.label} {pair.where(metric.who)}: {metric.words[0]} in A, {metric.words[1]} in B"


def side_badges(pair: Pair) -> list[tuple[str, list[Badge]]]:
    """Return the badges of A and of B."""
    sides = [(name, badges(one.outcomes)) for name, one in (("A", pair.a), ("B", pair.b))]
    return [(name, shown) for name, shown in sides if shown]


def grids(pair: Pair) -> list[Grid]:
    """Return the tables of a pair: what differs in options and versions, then one table alone and one per contender."""
    tables = [setup_grid(pair)]
    for who in dict.fromkeys(metric.who for metric in pair.compared):
        heads = ["", "A", "B", "B − A", f"{LEVEL:.0%} interval", "p", "p (Holm)"]
        heads.append("for the victim" if pair.a.victims else "result")
        grid = Grid(pair.where(who).capitalize(), heads)
        for metric in (metric for metric in pair.compared if metric.who == who):
            low, high, p = metric.less.low, metric.less.high, metric.less.p
            bounds = _TOO_SMALL
            if low is not None and high is not None:
                bounds = " to ".join(dict.fromkeys(map(difference_text, (low, high))))
            label = metric.label + (PRIMARY if metric.primary else "")
            if all(metric.demand_met):
                grid.rows.append(Row([label, *metric.words, "–", "–", "–", "–", DEMAND_MET], alike=True))
                continue
            cells = [label, *metric.words, _signed(metric.less.value), bounds]
            result = metric.shown or (_IRRELEVANT if metric.irrelevant else "–")
            cells += [p_text(p, _TOO_SMALL), p_text(metric.p_holm), result]
            hurt = {3, 7} if metric.shown == "worse" else set()
            grid.rows.append(Row(cells, hurt=hurt, alike=metric.alike and not metric.primary))
        if all({*row.cells[_TESTED:]} <= _UNDECIDED for row in grid.rows):
            grid.heads = grid.heads[:_TESTED]
            grid.rows = [Row(row.cells[:_TESTED], alike=row.alike) for row in grid.rows]
        tables.append(grid)
    return tables


def setup_grid(pair: Pair) -> Grid:
    """Return the differences of both experiments in options, commit, scorer and versions."""
    sides = [_facts(one.runs) for one in (pair.a, pair.b)]
    rows = []
    for name in dict.fromkeys(name for side in sides for name in side):
        ours, theirs = (" / ".join(sorted(side.get(name, {"–"}))) for side in sides)
        if ours != theirs:
            rows.append(Row([name, ours, theirs]))
    return (
        Grid("Differences in options, commit, scorer and versions", ["", "A", "B"], rows)
        if rows
        else Grid("Options, commit, scorer and versions are the same.", ["", "A", "B"])
    )


def common_setup(pairs: Sequence[Pair]) -> Grid:
    """Return the differences that all pairs have in common."""
    first, *others = (setup_grid(pair) for pair in pairs)
    rows = [row for row in first.rows if all(row in other.rows for other in others)]
    return Grid("Differences that all have in options, commit, scorer and versions", first.heads, rows)


def title(pairs: Sequence[Pair]) -> str:
    """Return a title with the first difference of set-up that all pairs have: `A (qdisc pfifo) vs. B (qdisc cake)`."""
    short = [row.cells for row in common_setup(pairs).rows if max(map(len, row.cells)) <= _SHORT] if pairs else []
    if not short:
        return "A vs. B"
    name, *values = short[0]
    return " vs. ".join(f"{side} ({name} {value})" for side, value in zip("AB", values, strict=True))


def _facts(runs: Sequence[LoadedRun]) -> dict[str, set[str]]:
    """Return options and versions by name: every value that any run has."""
    facts: dict[str, set[str]] = {}
    for run in runs:
        options = {name: value for name, value in run.definition.items() if name not in OF_OPTIONS}
        named: dict[str, Any] = dict(options)
        if isinstance(run, VictimRun):
            named["order of contenders"] = ", ".join(it.contender for it in run.scores.phases if it.contender)
        named |= versions_of(run.path, run.manifest)
        for name, value in named.items():
            label, text = option_words(name, value)
            facts.setdefault(label, set()).add(text)
    return facts


def _signed(value: float) -> str:
    text = difference_text(value)
    return f"+{text}" if value > 0 and text not in ("0", "0.00") else text


def method() -> str:
    """Return how intervals and p are computed."""
    return (
        f"One value per run. In brackets and for B − A: {LEVEL:.0%} bootstrap interval over runs (expanded percentile, "
        f"{RESAMPLES} resamples, seed {SEED}). p: two-sided permutation test of the runs' means (for lowest pictures: "
        f"medians), exact up to {RESAMPLES} permutations (Ernst, Statistical Science 19(4), 2004). Where both "
        "sides have the same rigs, interval and p are of the differences by rig (paired t-test). p (Holm): corrected "
        "for the number of rows with one contender, harm and measured values separately (Holm 1979). Worse or better: "
        f"the interval excludes 0, with at least {ENOUGH} runs per side, p, or p (Holm) except for the primary metric, "
        f"is at most {1 - LEVEL:.2g}, and the difference is at least the least relevant one; {_IRRELEVANT}: only "
        "the difference is smaller."
    )


def write_comparison(comparison: Comparison, output: Path) -> Path:
    """Write the page and return its path. Raises OSError."""
    folder = output.resolve().parent

    def link(path: Path) -> str:
        page = path / REPORT
        return quote(Path(os.path.relpath(page.resolve(), folder)).as_posix()) if page.exists() else ""

    sides, shifts = (comparison.a, comparison.b), comparison.shifts
    few = len(comparison.pairs) <= MANY
    only = comparison.pairs if len(comparison.pairs) == 1 else []
    names = {path: name for side in sides for path, name in distinct_names([run.path for run in side.runs]).items()}
    view = {
        "title": title(comparison.pairs),
        "sides": [
            {
                "name": side.name,
                "place": str(side.place),
                "badges": next((given for pair in only for name, given in side_badges(pair) if name == side.name), []),
                "runs": [(names[run.path], link(run.path)) for run in side.runs],
            }
            for side in sides
        ],
        "left": [
            {"name": it.name, "side": side.name, "state": it.state, "reason": it.reason,
             "link": link(it.path)}
            for side in sides for it in side.left
        ],
        "alone": comparison.alone,
        "few": few,
        "shifts": shift_line(shifts) if shifts else "",
        "ratios": list(map(_ratios, shifts)),
        "pairs": [
            {"title": pair.title, "verdict": verdict(pair), "lines": lines(pair), "badges": side_badges(pair),
             "setup": setup_grid(pair), "grids": grids(pair)[1:],
             "plots": list(_plots(pair)) if few else []}
            for pair in comparison.pairs
        ],
        "videos": [(side.name, video) for side in sides if (video := _recording(side.runs, folder))],
        **_shown_moment(comparison),
        "method": method(),
    }  # fmt: skip
    return write_page("compare.html.j2", view, output)


def _shown_moment(comparison: Comparison) -> dict[str, Any]:
    """Return the moment at which both recordings stand until they play: the worst one of the side with more harm."""
    sides = (comparison.a, comparison.b)
    pages = [side.runs[0].path / REPORT for side in sides if len(side.runs) == 1]
    known = [worst_moment(page) for page in pages]
    if len(known) < 2 or not all(known) or len(comparison.pairs) != 1:
        return {"moment": None}
    (pair,) = comparison.pairs
    harms = [max((it.harm or 0.0 for it in one.outcomes), default=0.0) for one in (pair.a, pair.b)]
    worse = harms.index(max(harms))
    return {"moment": known[worse], "moment_of": sides[worse].name, "offsets": [it.offset for it in known if it]}


def _recording(runs: Sequence[LoadedRun], folder: Path) -> str:
    """Return the recording of a side's only run, relative to the page; empty without one."""
    video = runs[0].path / "screen.mp4"
    return quote(Path(os.path.relpath(video.resolve(), folder)).as_posix()) if len(runs) == 1 and video.exists() else ""


def _ratios(shift: Shift) -> dict[str, Any]:
    it, title = shift.ratio, f"{shift.label} {shift.where}"
    dots = Dots("log(B/A)", "who-other-1", it.values, it.value, it.low, it.high)
    return {"title": title, "svg": Markup(dot_plot([dots], title, zero=True))}


def _plots(pair: Pair) -> Iterator[dict[str, Any]]:
    """Yield the runs of both sides as dots, one plot per metric; none for single runs, or if all values are equal."""
    for label in dict.fromkeys(metric.label for metric in pair.compared):
        of = [metric for metric in pair.compared if metric.label == label]
        values = [value for metric in of for value in (*metric.a.values, *metric.b.values)]
        if len(set(map(number, values))) > 1 and max(metric.a.n + metric.b.n for metric in of) > 2:
            rows = [
                Dots(f"{name} {pair.where(metric.who)}", look, side.values, side.value, side.low, side.high)
                for metric in of
                for name, look, side in (
                    ("A", palette.who(metric.who or "alone"), metric.a),
                    ("B", f"{palette.who(metric.who or 'alone')} hollow", metric.b),
                )
            ]
            yield {"title": label, "svg": Markup(dot_plot(rows, label))}
