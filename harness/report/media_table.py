# SPDX-License-Identifier: Apache-2.0
"""What a call is like by its sender, queue and contender, and what it leaves to others: rate, frames, delay, RPM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.grids import interval
from sojourn.harness.report.markdown import markdown_table
from sojourn.harness.store.loaded import VictimRun
from sojourn.scoring.long_table import ALONE
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.statistics.intervals import estimate

#: Options `call_cc` and `call_ecn` of a call → its sender.
SENDERS = {("gcc", "not-ect"): "GCC", ("gcc", "ect1"): "GCC as ECT(1)", ("scream", "not-ect"): "SCReAM"}
_QUEUE = "queue_p99_ms"
#: Metric → head of its column.
COLUMNS = {
    "victim_mbps": "call, Mbit/s",
    "frames_in_time": "frames in time",
    _QUEUE: "call in the queue, P99 ms",
    "frame_p50_ms": "camera to screen, P50 ms",
    "foreign_rpm": "RPM",
}
_Key = tuple[int, str, str, str]
"""Bit/s, queue, contender, sender."""


def media_table(groups: Sequence[Experiment]) -> str:
    """Return the figures of calls as Markdown, a table per rate with a row per queue, contender and sender.

    Every figure is the mean over the valid runs with its interval, the median if a value is infinite. `alone` is over
    all runs of the sender in the queue, whatever their contender. Raises KeyError for a sender that is not in SENDERS.
    """
    found: dict[_Key, dict[str, list[float]]] = {}
    for run in _valid(groups):
        options = run.options
        sender = SENDERS[options.get("call_cc", "gcc"), options["call_ecn"]]
        for contender, metric, value in _figures(run.scores):
            key = (options["rate_down_bps"], str(options["qdisc_down"]), contender, sender)
            found.setdefault(key, {}).setdefault(metric, []).append(value)
    order = {name: n for n, name in enumerate(SENDERS.values())}
    parts = []
    for rate in sorted({key[0] for key in found}):
        keys = sorted(
            (key for key in found if key[0] == rate), key=lambda key: (key[1], key[2] != ALONE, key[2], order[key[3]])
        )
        rows = [[f"`{queue}`", who, sender, *_texts(found[_, queue, who, sender])] for _, queue, who, sender in keys]
        parts.append(
            f"**{rate / 1e6:g} Mbit/s**\n\n" + markdown_table(["queue", "with", "sender", *COLUMNS.values()], rows)
        )
    return "\n\n".join(parts)


def _valid(groups: Iterable[Experiment]) -> Iterator[VictimRun]:
    for one in groups:
        pairs = zip(one.victims, one.names, strict=True)
        yield from (run for run, name in pairs if name in one.summary.valid)


def _texts(values: dict[str, list[float]]) -> list[str]:
    return [interval(estimate(given)) if (given := values.get(metric)) else "–" for metric in COLUMNS]


def _figures(scores: Scores) -> Iterator[tuple[str, str, float]]:
    """Yield contender or ALONE, metric and value of a run: of its baseline, and the mean over a contender's phases."""
    phases: dict[str, list[Any]] = {}
    for phase in scores.phases:
        if phase.contender:
            phases.setdefault(phase.contender, []).append(phase)
    if scores.baseline:
        phases[ALONE] = [scores.baseline]
    solo = [phase.name for phase in scores.phases if not phase.contender]
    for who, those in phases.items():
        for metric in COLUMNS:
            given = [value for one in those if (value := getattr(one, metric, None)) is not None]
            if metric == _QUEUE:
                given = _queue_p99(scores, solo if who == ALONE else [one.name for one in those])
            if given:
                yield who, metric, fmean(given)


def _queue_p99(scores: Scores, phases: Sequence[str]) -> list[float]:
    """Return the P99 of the victim's delay in its queue in each of these phases, of the queue with most packets."""
    found = []
    for name in phases:
        rows = [row for row in scores.sojourn if row.phase == name and row.of == "victim" and row.p99_ms is not None]
        if rows:
            found.append(float(max(rows, key=lambda row: row.packets).p99_ms or 0))
    return found
