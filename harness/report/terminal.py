# SPDX-License-Identifier: Apache-2.0
"""The tables of a run on a terminal, the same as in the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sojourn.harness.report.grids import (
    Grid,
    Row,
    far_table,
    harm_table,
    home_table,
    lab_table,
    layer_steps_table,
    loads_table,
    other_contenders_table,
    phase_table,
    quality_table,
    room_sound_table,
    room_table,
    speech_table,
)
from sojourn.harness.report.headline import Badge, badges, headline, home_outcomes, measurement, outcomes
from sojourn.harness.report.published_tables import services_table
from sojourn.harness.store.loaded import stored_object
from sojourn.harness.terminal import FittedTable
from sojourn.scoring.schema.files import OPTIONS
from sojourn.scoring.schema.scores import Scores

if TYPE_CHECKING:
    import polars as pl

    from sojourn.harness.report.compare import Comparison
    from sojourn.harness.report.experiments import Experiment


def print_scores(scores: Scores, run: Path, console: Console) -> None:
    """Print the phases' measured values, the contenders' harm, the headline, and the path of the evidence."""
    console.print(_table(phase_table(scores)))
    if (table := other_contenders_table(scores)).rows:
        console.print(_table(table))
    if scores.far:
        console.print(_table(far_table(scores)))
    for table in (room_table(scores), room_sound_table(scores), layer_steps_table(scores)):
        if table.rows:
            console.print(_table(table))
    if scores.loads:
        console.print(_table(loads_table(scores)))
    if (table := home_table(scores)).rows:
        console.print(_table(table))
    if scores.harm:
        console.print(_table(harm_table(scores)))
    if lab := lab_table(scores):
        console.print(Text("lab: " + "; ".join(f"{name}: {text}" for name, text in lab)), soft_wrap=True)
    if scores.validity.valid:
        home = [Badge(badge.kind, badge.word, f"{badge.text} to {name}") for name, badge, _ in home_outcomes(scores)]
        console.print(_badges([measurement("valid"), *(home or badges(outcomes(scores)))]))
        service = str(stored_object(run / OPTIONS).get("service", ""))
        console.print(Text(headline(scores, service), style="bold"), soft_wrap=True)
    else:
        console.print(_badges([measurement("invalid")]), Text("no harm is reported:", style="bold red"))
        for reason in scores.validity.reasons:
            console.print(Text(f"  {reason}", style="red"))
    console.print(Text(f"evidence: {run}"), soft_wrap=True)
    console.print(Text(f"report:   {run / 'report.html'}"), soft_wrap=True)


def print_quality(judged: pl.DataFrame, scores: Scores, console: Console) -> None:
    """Print the quality of the judged pictures, by phase, with its harm."""
    console.print(_table(quality_table(judged, scores)))


def print_speech(judged: pl.DataFrame, scores: Scores, console: Console) -> None:
    """Print the quality of the speech that both ends of a call heard, by phase."""
    console.print(_table(speech_table(judged, scores)))


#: Styles by a badge's word; valid measurements have none, because validity is not a verdict.
_STYLES = {"none": "green", "some": "yellow", "severe": "bold red", "invalid": "bold red"}


def _badges(given: Sequence[Badge]) -> Text:
    return Text(" · ").join(Text(badge.text, _STYLES.get(badge.word, "dim")) for badge in given)


def print_services(runs: Sequence[tuple[str, Scores]], console: Console) -> None:
    """Print the published figures of these services next to Sojourn's."""
    grid = services_table(runs)
    if grid.rows:
        console.print(_table(grid, sideways=True))


def print_summary(groups: Sequence[Experiment], console: Console) -> None:
    """Print the summary of every experiment."""
    from sojourn.harness.report.repetitions import grids, lines, method

    for one in groups:
        console.print(Text(one.title, style="bold"))
        if one.headline:
            console.print(_badges(badges(one.outcomes)))
            console.print(Text(one.headline, style="bold"), soft_wrap=True)
        for grid in grids(one):
            console.print(_table(grid))
        for line in lines(one):
            console.print(Text(line), soft_wrap=True)
        for name, reasons in one.summary.void.items():
            console.print(Text(f"invalid: {name}: {'; '.join(reasons)}", style="red"), soft_wrap=True)
    console.print(Text(method()), soft_wrap=True)


def print_maps(groups: Sequence[Experiment], console: Console) -> None:
    """Print the harm in the primary metric of many experiments."""
    from sojourn.harness.report.heat_map import HarmField, heat_maps

    for one in heat_maps(HarmField(groups)):
        if not one.primary:
            continue
        console.print(Text(f"Harm to the victim: {one.label}", style="bold"))
        for table in one.tables:
            at = 0
            for group, width in table.groups or [(table.caption, len(table.heads))]:
                part = slice(at, at := at + width)  # a terminal is narrow: a table per queue
                rows = [Row([head, *(cell.text for cell in cells[part])]) for head, cells in table.rows]
                console.print(_table(Grid(group, [table.corner, *table.heads[part]], rows)))


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the differences between A and B: options, then results."""
    from sojourn.harness.report.comparison_page import (
        MANY,
        common_setup,
        grids,
        lines,
        method,
        shift_line,
        side_badges,
        verdict,
    )

    for side in (comparison.a, comparison.b):
        console.print(Text(f"{side.name}: {side.place}: {len(side.runs)} valid"), soft_wrap=True)
        for run in side.left:
            console.print(
                Text(f"excluded from {side.name}: {run.name}: {run.state}: {run.reason}", "red"), soft_wrap=True
            )
    for title in comparison.alone:
        console.print(Text(title), soft_wrap=True)
    few = len(comparison.pairs) <= MANY
    if not few and (common := common_setup(comparison.pairs)).rows:
        console.print(_table(common))
    for pair in comparison.pairs:
        console.print(Text(pair.title, style="bold"), soft_wrap=True)
        if not few:
            console.print(Text(verdict(pair)), soft_wrap=True)
            continue
        for name, given in side_badges(pair):
            console.print(Text(f"{name}: ") + _badges(given))
        for grid in grids(pair):
            console.print(_table(grid) if grid.rows else Text(grid.caption))
        for line in lines(pair):
            console.print(Text(line), soft_wrap=True)
    if comparison.shifts:
        console.print(Text(shift_line(comparison.shifts), style="bold"), soft_wrap=True)
    console.print(Text(method()), soft_wrap=True)


def _table(grid: Grid, sideways: bool = False) -> FittedTable:
    """Return a grid unchanged, or transposed: a terminal is narrow, and services are few."""
    lines = [[Text(head) for head in grid.heads]]
    lines += [
        [Text(cell, "red" if i in row.hurt else "yellow" if i in row.some else "") for i, cell in enumerate(row.cells)]
        for row in grid.rows
    ]
    if sideways:
        lines = [list(line) for line in zip(*lines, strict=True)]
    return FittedTable(Text(grid.caption), lines)
