# SPDX-License-Identifier: Apache-2.0
"""All experiments of a results folder at a glance: a row per experiment and contender."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from urllib.parse import quote

from sojourn.harness.report.filmstrip import picture_of
from sojourn.harness.report.grids import labelled
from sojourn.harness.report.headline import Badge, VictimOutcome, average_outcomes, harm_badge, measurement, seen
from sojourn.harness.report.heat_map import HarmField, Placed
from sojourn.harness.report.number_text import between, figure_text, milliseconds, number, two_decimals
from sojourn.harness.store.manifest import REPORT
from sojourn.scoring.long_table import label_of
from sojourn.scoring.statistics.harm import PRIMARY
from sojourn.scoring.statistics.intervals import ENOUGH
from sojourn.scoring.statistics.summary import Figure

#: P99 of the answered probes, of both probes.
_DELAYS = ("rtt_answered_p99_ms", "ect1_rtt_answered_p99_ms")
#: Rows up to which each has a picture.
_MOST_PICTURES = 40


@dataclass(frozen=True)
class OverviewCell:
    """A cell: its text, smaller lines below it, and the number by which it sorts."""

    text: str
    notes: tuple[str, ...] = ()
    order: float | None = None


@dataclass(frozen=True)
class OverviewRow:
    """An experiment with one contender. `picture` is a data URL, empty without one."""

    head: str
    link: str
    queue: str
    contender: str
    badge: Badge
    harm: OverviewCell
    seen: str
    delay: OverviewCell
    stalls: OverviewCell
    runs: OverviewCell
    """The number of valid runs, of invalid ones, and of those that a result needs."""
    page: str
    """The report of its first run, of a valid one if there is one, relative to the folder; empty without a report."""
    picture: str


def overview(field: HarmField, folder: Path) -> list[OverviewRow]:
    """Return the rows for a page in `folder`, the worst harm first."""
    pairs = list(field.placed())
    rows = [_row(it, folder, len(pairs) <= _MOST_PICTURES) for it in pairs]
    return sorted(rows, key=lambda row: -inf if row.harm.order is None else row.harm.order, reverse=True)


def _row(it: Placed, folder: Path, pictured: bool) -> OverviewRow:
    one, summary = it.experiment, it.experiment.summary
    unknown = VictimOutcome(it.contender, summary.primary or PRIMARY["video"])
    outcome = next((had for had in average_outcomes(summary) if had.name == it.contender), unknown)
    valid = [run for run, name in zip(one.victims, one.names, strict=True) if name in summary.valid]
    run = (valid or one.victims)[0]
    page = run.path / REPORT
    phases = {phase.name for phase in run.scores.phases if phase.contender == it.contender}
    over = outcome.over_runs
    span = between(over) if over and over.low != over.high else ""
    n, void = over.n if over else len(valid), len(summary.void)
    counted = [f"{void} invalid"] * bool(void) + [f"{ENOUGH} needed"] * (n < ENOUGH)
    return OverviewRow(
        head=it.head,
        link=it.link,
        queue=it.queue,
        contender=it.contender,
        badge=harm_badge(outcome) if valid else measurement("invalid"),
        harm=OverviewCell(
            "–" if outcome.harm is None else two_decimals(outcome.harm), (span,) if span else (), outcome.harm
        ),
        seen=seen(outcome),
        delay=_delay(it),
        stalls=OverviewCell(number(outcome.stalls), (), outcome.stalls),
        runs=OverviewCell(f"{n} valid", tuple(counted), n),
        page=f"{quote(os.path.relpath(page, folder))}" if page.exists() else "",
        picture=picture_of(page, phases) if pictured and valid else "",
    )


def _delay(it: Placed) -> OverviewCell:
    """Return the P99 of both probes with the contender, and that of the victim alone."""
    summary, runs = it.experiment.summary, [run.scores for run in it.experiment.victims]
    known: list[tuple[str, Figure]] = [
        (name, figure) for name in _DELAYS if (figure := summary.figure(name)) and it.contender in figure.contended
    ]
    if not known:
        return OverviewCell("–")
    texts = []
    for name, figure in known:
        queue = re.search(r"\(([^()]*(?:\([^()]*\))?)\)", labelled(label_of(name), *runs))
        value = figure.contended[it.contender].value
        text = milliseconds(value) if isfinite(value) else figure_text(figure, summary, it.contender)
        alone = f"{milliseconds(figure.alone.value)} alone" if figure.alone else ""
        texts.append((f"{queue[1]}: {text}" if queue and len(known) > 1 else text, alone))
    (first, alone), *others = texts
    notes = (*([alone] if alone else []), *(f"{text}, {alone}" if alone else text for text, alone in others))
    return OverviewCell(first, notes, known[0][1].contended[it.contender].value)
