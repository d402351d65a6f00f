# SPDX-License-Identifier: Apache-2.0
"""A summary of runs as OpenMetrics text, for Prometheus and Grafana (docs/pipelines.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from pathlib import Path

from sojourn.hardware.machine.files import replace_file
from sojourn.hardware.machine.messages import printable
from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.grids import queue
from sojourn.scoring.schema.metric import unit_of
from sojourn.scoring.statistics.intervals import LEVEL, Estimate


@dataclass(frozen=True)
class Gauge:
    """A metric of the text: what its value is, and its labels."""

    help: str
    labels: tuple[str, ...]


_EXPERIMENT = ("experiment", "service", "queue")
_FIGURE = (*_EXPERIMENT, "contender", "metric", "unit", "statistic")
GAUGES: Mapping[str, Gauge] = {
    "sojourn_estimate": Gauge("Figure over the valid runs; the label statistic is mean or median.", _FIGURE),
    "sojourn_interval_low": Gauge(f"Lower end of the {LEVEL:.0%} interval of the figure.", _FIGURE),
    "sojourn_interval_high": Gauge(f"Upper end of the {LEVEL:.0%} interval of the figure.", _FIGURE),
    "sojourn_estimate_runs": Gauge("Runs that have the figure.", _FIGURE),
    "sojourn_runs": Gauge(
        "Runs of the experiment; the label state is valid, invalid, or of runs whose experiment is unknown unreadable.",
        (*_EXPERIMENT, "state"),
    ),
    "sojourn_experiment_info": Gauge(
        "1; the label report is the address of the summary, relative to this file.", (*_EXPERIMENT, "report")
    ),
}
"""The metrics by name. All are gauges: node_exporter's textfile collector refuses OpenMetrics' type info."""

_Sample = tuple[str, dict[str, str], float]


def write_openmetrics(groups: Sequence[Experiment], page: Path, file: Path, unreadable: int = 0) -> None:
    """Replace `file` by the figures of experiments; `page` is the page of their summary. Raises OSError."""
    text = openmetrics(groups, Path(os.path.relpath(page, file.parent)).as_posix(), unreadable)
    # A collector may read the file at any moment, as another user.
    replace_file(file, text.encode(), mode=0o644)


def openmetrics(groups: Sequence[Experiment], page: str, unreadable: int = 0) -> str:
    """Return the figures of experiments as OpenMetrics text; `page` is the address of their summary.

    `unreadable` is the number of further runs.
    """
    samples: list[_Sample] = []
    if unreadable:
        samples.append(("sojourn_runs", {**dict.fromkeys(_EXPERIMENT, ""), "state": "unreadable"}, unreadable))
    samples += [sample for n, one in enumerate(groups) for sample in _samples(one, f"{page}#e{n}")]
    lines = []
    for name, gauge in GAUGES.items():
        lines += [f"# TYPE {name} gauge", f"# HELP {name} {gauge.help}"]
        lines += [_line(*sample) for sample in samples if sample[0] == name]
    return "\n".join([*lines, "# EOF", ""])


def _samples(one: Experiment, report: str) -> Iterator[_Sample]:
    labels = {"experiment": one.title, "service": one.service, "queue": _queue(one)}
    yield "sojourn_experiment_info", {**labels, "report": report}, 1
    for state, runs in (("valid", one.summary.valid), ("invalid", one.summary.void)):
        yield "sojourn_runs", {**labels, "state": state}, len(runs)
    for it in one.figures():
        estimates = [(one.base, it.figure.alone), *it.figure.contended.items()]
        for contender, estimate in estimates:
            if estimate:
                where = {"contender": contender, "metric": it.metric, "unit": unit_of(it.metric)}
                yield from _of_figure({**labels, **where}, estimate)


def _of_figure(labels: dict[str, str], estimate: Estimate) -> Iterator[_Sample]:
    labels = {**labels, "statistic": estimate.statistic}
    yield "sojourn_estimate", labels, estimate.value
    if estimate.low is not None and estimate.high is not None:
        yield "sojourn_interval_low", labels, estimate.low
        yield "sojourn_interval_high", labels, estimate.high
    yield "sojourn_estimate_runs", labels, estimate.n


def _queue(one: Experiment) -> str:
    """Return the downward queue; of cells, the one of each middlebox."""
    if one.victims:
        return queue(one.victims[0].scores.lab)
    ways = [hop.get("down") or {} for hop in one.runs[0].options["cell"].get("hops", [])]
    return ", ".join(str(way["qdisc"]) for way in ways if way.get("qdisc"))


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    given = ",".join(f'{label}="{_escaped(labels[label])}"' for label in GAUGES[name].labels)
    shown = f"{value:+}".replace("inf", "Inf") if isinf(value) else repr(float(value))
    return f"{name}{{{given}}} {shown}"


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
