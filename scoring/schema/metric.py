# SPDX-License-Identifier: Apache-2.0
"""What a figure in scores is called and which direction is better, declared once, next to its field."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sojourn.scoring.statistics.harm import Better

HARM = "harm."
"""Begins the name of a metric's harm."""


@dataclass(frozen=True)
class Metric:
    """A field of scores that is a figure; in the field's annotation. Its unit is how its name ends (`unit_of`)."""

    label: str
    """Without the unit; probes are named by codepoint."""
    better: Better | None = None
    """Which direction is better for the victim, or for traffic that waits in a cell's queue; None: neither."""
    harm: bool = False
    """Whether contenders' harm to the victim is computed on it. Such a figure is not 0 for the victim alone: stalls,
    freezes and loss are absent alone, and their harm would be 0, 1 or unbounded; the remaining share has it instead."""
    alone: bool = False
    """Whether the baseline's figure is comparable although its length differs from that of a phase."""
    measured: bool = True
    """Whether summaries show it; False: it only explains others, or its harm is shown instead."""
    digits: int = 2
    """Decimals in the table of a cell."""


def metric_of(field: FieldInfo) -> Metric | None:
    """Return what the field of a model declares as a figure; None if it is none."""
    return next((it for it in field.metadata if isinstance(it, Metric)), None)


def metrics_of(model: type[BaseModel]) -> dict[str, Metric]:
    """Return the figures that the fields of a model declare, by field, in the order of the fields."""
    declared = ((name, metric_of(field)) for name, field in model.model_fields.items())
    return {name: metric for name, metric in declared if metric}


#: By how the name of a metric ends.
_UNITS = {
    "mbps": "Mbit/s", "_rpm": "RPM", "_ms": "ms", "_s": "s", "seconds": "s", "_bytes": "bytes", "height": "lines",
    "fps": "frames/s",
}  # fmt: skip


def unit_of(name: str) -> str:
    """Return the unit of a metric by its name; empty for shares, counts and harm."""
    if HARM in name:  # that to a room's party is within a path
        return ""
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")


def with_unit(label: str, unit: str) -> str:
    """Return a label with its unit in brackets, if there is one."""
    return f"{label} ({unit})" if unit else label
