# SPDX-License-Identifier: Apache-2.0
"""The least relevant effect: how large a difference must be to matter, whatever its p.

Where repeated runs hardly vary, any difference is significant. These sizes are conventions of this project.
"""

from __future__ import annotations

from itertools import pairwise
from math import isfinite

from pydantic import BaseModel, ConfigDict, Field

from sojourn.scoring.schema.metric import HARM, unit_of
from sojourn.scoring.statistics.harm import SOME

#: Heights of usual ladders, in lines.
_RUNGS = (144, 240, 360, 480, 720, 1080, 1440, 2160, 4320)
#: Ratings without a unit that are not shares: the E-model's R, and VMAF.
_OF_100 = ("r_factor", "vmaf_")
#: Metrics that count events.
_COUNTS = ("stalls", "freezes", "drops")


class Relevance(BaseModel):
    """The least relevant differences. Each is compared with the size of a difference; 0: every size is relevant."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    goodput: float = Field(default=0.05, ge=0)
    """Share of the value compared with; of every rate in Mbit/s, and of RPM."""
    delay: float = Field(default=5, ge=0)
    """ms."""
    picture: float = Field(default=0.5, ge=0)
    """Rungs of a usual ladder around the value compared with."""
    time: float = Field(default=0.5, ge=0)
    """s; of stalls and completion times."""
    frames: float = Field(default=1, ge=0)
    """Frames per second."""
    share: float = Field(default=0.01, ge=0)
    """Of frames, probes or time; also of other figures without a unit, such as Jain's index, and of a scale of 100."""
    events: float = Field(default=0.5, ge=0)
    """Stalls, freezes, drops of resolution."""
    harm: float = Field(default=SOME, ge=0)
    """What is the least harm that is called `some`."""

    def least(self, metric: str, reference: float) -> float:
        """Return the least relevant difference of a metric from the value `reference`, in the metric's unit."""
        if metric.startswith(HARM):
            return self.harm
        if metric in _COUNTS:
            return self.events
        unit = unit_of(metric)
        if unit in ("Mbit/s", "bytes", "RPM"):
            return self.goodput * abs(reference) if isfinite(reference) else 0.0
        if unit == "lines":
            return self.picture * _rung(reference)
        if metric.startswith(_OF_100):
            return 100 * self.share
        by_unit = {"ms": self.delay, "s": self.time, "frames/s": self.frames}
        return by_unit.get(unit, self.share)


DEFAULT = Relevance()
NOTHING = Relevance(**dict.fromkeys(Relevance.model_fields, 0.0))
#: Ends of values, and what they divide by.
_UNITS = {"%": 100.0, "ms": 1.0, "s": 1.0, "": 1.0}
_ENDS = {"goodput": "%", "share": "%", "delay": "ms", "time": "s"}


class RelevanceError(ValueError):
    """Sizes that are not understood; the message is one line and says what would be right."""


def parse(text: str) -> Relevance:
    """Return the sizes in `goodput=10%,delay=2ms`, the others by default; all are 0 for `0`. Raises RelevanceError."""
    if text.strip() == "0":
        return NOTHING
    given: dict[str, float] = {}
    for part in text.split(","):
        name, equals, size = (word.strip() for word in part.partition("="))
        end = _ENDS.get(name, "")
        number = size.removesuffix(end) if end else size
        try:
            if not equals or name not in Relevance.model_fields or (end and number == size) or float(number) < 0:
                raise ValueError
            given[name] = float(number) / _UNITS[end]
        except ValueError:
            right = ",".join(f"{it}={_example(it)}" for it in Relevance.model_fields)
            raise RelevanceError(f"{part.strip()!r} is not a least relevant size; give some of {right}, or 0") from None
    return Relevance(**given)


def _example(name: str) -> str:
    end = _ENDS.get(name, "")
    return f"{getattr(DEFAULT, name) * _UNITS[end]:g}{end}"


def _rung(height: float) -> float:
    """Return the distance between the rungs around a height; of the nearest two outside the ladder."""
    return float(next((high - low for low, high in pairwise(_RUNGS) if height <= high), _RUNGS[-1] - _RUNGS[-2]))
