# SPDX-License-Identifier: Apache-2.0
"""Tables of README and docs of what contenders do to a victim: in one experiment, over a map, and in each queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.heat_map import HarmField, HeatTable, heat_maps
from sojourn.harness.report.markdown import markdown_table
from sojourn.harness.report.number_text import interval
from sojourn.harness.report.overview import overview
from sojourn.harness.report.stamps import PaperError
from sojourn.scoring.long_table import label_of
from sojourn.scoring.statistics.intervals import Estimate


def harm_table(one: Experiment) -> str:
    """Return the harm by each contender, the bar, and what the viewer saw, as a Markdown table with intervals.

    Raises PaperError without a harm.
    """
    summary = one.summary
    harm = summary.primary_harm
    if harm is None:
        raise PaperError(f"{one.title}: no valid run has a harm in the primary metric", code="invalid-run")

    def row(head: str, alone: str, figures: Mapping[str, Estimate]) -> list[str]:
        return [head, alone, *(interval(figures.get(name)) for name in summary.contenders)]

    rows = [row("harm", "–", harm.contended)]
    if harm.beyond:
        rows.append(row("harm minus the bar", "–", harm.beyond))
    for metric in ("played_height", "victim_mbps", "recovery_s"):
        if figure := summary.figure(metric):
            rows.append(row(label_of(metric), interval(figure.alone), figure.contended))
    heads = ["", "alone", *(f"with {name}{', the bar' * (name == summary.own_kind)}" for name in summary.contenders)]
    contrasts = [f"{name} − {summary.reference}: {interval(it)}" for name, it in harm.contrast.items()]
    return markdown_table(heads, rows) + (f"\n\nDifference in harm: {'; '.join(contrasts)}." if contrasts else "")


def map_table(groups: Sequence[Experiment]) -> str:
    """Return the harm in the primary metric of a map as Markdown tables. Raises PaperError without one."""
    primary = next((one for one in heat_maps(HarmField(groups)) if one.primary), None)
    if primary is None:
        raise PaperError("no valid run of the map has a harm in the primary metric", code="invalid-run")
    parts = []
    for table in primary.tables:
        spread = [text for text, width in table.groups for _ in range(width)] or [""] * len(table.heads)
        heads = [f"{group}<br>{head}" if group else head for group, head in zip(spread, table.heads, strict=True)]
        rows = [[head, *(cell.text or "–" for cell in cells)] for head, cells in table.rows]
        if len(rows) == 1 and table.groups:
            parts.append(_by_queue(table, rows[0][1:]))
            continue
        caption = f"**{table.caption}**\n\n" if table.caption else ""
        parts.append(caption + markdown_table([table.corner, *heads], rows))
    return "\n\n".join(parts)


def _by_queue(table: HeatTable, texts: Sequence[str]) -> str:
    """Return the only row of a heat map as a table with a row for every queue."""
    contenders = list(dict.fromkeys(table.heads))
    cells, rows = iter(zip(table.heads, texts, strict=True)), []
    for group, width in table.groups:
        of_queue = dict(islice(cells, width))
        rows.append([group, *(of_queue.get(name, "–") for name in contenders)])
    return markdown_table([f"queue ({table.rows[0][0]})", *contenders], rows)


def overview_table(groups: Sequence[Experiment]) -> str:
    """Return what each contender does to the victim in each queue as a Markdown table, the worst first."""
    heads = ["queue", "contender", "severity", "harm (95 % interval)", "picture"]
    heads += ["P99 of the answered probes, ms", "stalls per phase"]
    rows = []
    for row in overview(HarmField(groups), CHECKOUT):
        cells = (" ".join([it.text, *(f"({note})" for note in it.notes)]) for it in (row.harm, row.delay, row.stalls))
        harm, delay, stalls = cells
        rows.append([f"`{row.queue}`", row.contender, row.badge.word, harm, row.seen, delay, stalls])
    return markdown_table(heads, rows)
