# SPDX-License-Identifier: Apache-2.0
"""Results of runs next to the published figures of live services (video_harm.csv)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from sojourn.harness.report.grids import Grid, Row, rate_and_queue
from sojourn.harness.report.headline import outcomes, phrase
from sojourn.harness.report.number_text import interval, number
from sojourn.scoring.reference import published
from sojourn.scoring.schema.scores import Scores

#: Data of published runs with live services; the first line names the document.
_PUBLISHED = "video_harm.csv"
#: Its words for no harm.
_SPARED = "none apparent"
_YES = {True: "yes", False: "no"}


def published_services() -> list[str]:
    """Return the services that have published figures, in the file's order."""
    return list(dict.fromkeys(row["service"] for row in published.rows(_PUBLISHED)))


def published_table(scores: Scores, service: str) -> Grid:
    """Return this run's contenders above the published ones of the live `service`; no rows without any."""
    heads = ["", "contender", "bottleneck", "contender Mbit/s", "harm"]
    grid = Grid('This run and "L4S Tests", Harm to Video Streaming Services.', heads)
    rows = [row for row in published.rows(_PUBLISHED) if row["service"] == service]
    competed = [phase for phase in scores.phases if phase.contender] if rows else []
    for phase, outcome in zip(competed, outcomes(scores), strict=False):
        harm = phrase(outcome) if scores.validity.valid else "invalid: no harm reported"
        cells = ["this run", str(phase.contender), rate_and_queue(scores.lab), number(phase.contender_mbps), harm]
        grid.rows.append(Row(cells, True))
    for row in rows:
        place = f"{float(row['bottleneck_mbps']):g} Mbit/s, {row['qdisc']}, {row['protocol']}"
        grid.rows.append(Row(["published", row["contender"], place, f"{float(row['contender_mbps']):g}", row["harm"]]))
    return grid


def services_table(runs: Iterable[tuple[str, Scores]]) -> Grid:
    """Return runs' results (service, scores), one row per published service, and whether their order is the published.

    The published figures are of one live run each, so only their order can be compared. No rows without any.
    """
    ours: dict[str, list[Scores]] = {}
    for service, scores in runs:
        ours.setdefault(service, []).append(scores)
    contenders = dict.fromkeys(row["contender"] for row in published.rows(_PUBLISHED))
    heads = ["service", "published bottleneck", "Sojourn's", *(f"with {name}" for name in contenders), "order agrees"]
    caption = '"L4S Tests", Harm to Video Streaming Services: one live run each, by its order only.'
    grid = Grid(caption, heads)
    for service in published_services():
        if of_service := ours.get(service):
            rows = [row for row in published.rows(_PUBLISHED) if row["service"] == service]
            cells = [service, f"{float(rows[0]['bottleneck_mbps']):g} Mbit/s, {rows[0]['qdisc']}"]
            cells.append(rate_and_queue(of_service[0].lab))
            cells += [_harm_with(of_service, row["contender"]) for row in rows]
            grid.rows.append(Row([*cells, _order_agrees(of_service, rows)]))
    return grid


def _order_agrees(runs: Sequence[Scores], rows: Sequence[Mapping[str, str]]) -> str:
    """Return whether goodput and harm are in the published order of contenders; a dash if one did not compete."""
    valid = [scores for scores in runs if scores.validity.valid]
    ours: dict[str, tuple[float, float]] = {}
    for name in (row["contender"] for row in rows):
        phases = [phase for scores in valid for phase in scores.phases if phase.contender == name]
        rates = [phase.contender_mbps for phase in phases if phase.contender_mbps is not None]
        harm = [it.harm for one in valid for it in one.harm if it.contender == name and it.metric == one.primary]
        if not rates or not harm:
            return "–"
        ours[name] = fmean(rates), fmean(harm)
    less, more = sorted(rows, key=lambda row: float(row["contender_mbps"]))
    goodput = ours[less["contender"]][0] < ours[more["contender"]][0]
    # The harm is in words: either none is apparent, or there is some.
    spared, hurt = sorted(rows, key=lambda row: row["harm"] != _SPARED)
    harmed = ours[spared["contender"]][1] < ours[hurt["contender"]][1]
    return f"goodput {_YES[goodput]}, harm {_YES[harmed]}"


def _harm_with(runs: Sequence[Scores], contender: str) -> str:
    """Return the results with one contender in the wording of the published table."""
    valid = [scores for scores in runs if scores.validity.valid]
    if len(valid) > 1:
        return _over_runs(valid, contender, len(runs) - len(valid))
    if not valid:
        return "invalid"
    competed = zip((phase for phase in valid[0].phases if phase.contender), outcomes(valid[0]), strict=True)
    phrases = (
        f"{number(phase.contender_mbps)} Mbit/s; {phrase(outcome)}"
        for phase, outcome in competed
        if phase.contender == contender
    )
    void = len(runs) - 1
    return (", ".join(phrases) or "not run") + (f" / {void} invalid" if void else "")


def _over_runs(runs: Sequence[Scores], contender: str, void: int) -> str:
    from sojourn.scoring.statistics.summary import summarise  # needs SciPy, which a single run does not

    summary = summarise({str(index): scores for index, scores in enumerate(runs)})
    parts = {"contender_mbps": "{} Mbit/s", "below_solo_s": "below its resolution alone for {} s",
             "stalls": "stalls {}", "stall_s": "{} s in total", "freezes": "freezes {}"}  # fmt: skip
    figures = {name: figure.contended.get(contender) for name in parts if (figure := summary.figure(name))}
    phrases = [parts[name].format(interval(figure)) for name, figure in figures.items() if figure]
    made = [*phrases, f"{len(runs)} runs"] if phrases else ["not run"]
    return "; ".join([*made, *([f"{void} invalid"] if void else [])])
