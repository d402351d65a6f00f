# SPDX-License-Identifier: Apache-2.0
"""A matrix: the cells of one transport experiment and how they are reported; each is one file `tests/test_*.py`."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace, DeliveryTraceError
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import EXPERIMENTS
from sojourn.hardware.machine.messages import did_you_mean, first_wrong
from sojourn.harness.matrix.capabilities import MATRIX_LABS, able_labs
from sojourn.scoring.measured import is_measured
from sojourn.scoring.reference.published import Tolerance
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.spec import UNRESPONSIVE
from sojourn.traffic.user_program import is_user_program

_DEFINES_ONE = re.compile(r"^MATRIX\b", re.MULTILINE)


class MatrixError(CodedError):
    """A matrix or cell does not exist, or its file is invalid; the message is one line."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(_Frozen):
    """A column of the table."""

    head: str
    """Its head, with the unit: `Prague Mbit/s`."""
    metric: str
    """Path of the figure in a run's scores, e.g. `flows.0.d_ss_mbps` (see `figure`)."""
    digits: int = 2


class Expectation(_Frozen):
    """What every run of the matching cells must meet."""

    metric: str
    low: float = float("-inf")
    high: float = float("inf")
    cells: str = ""
    """A regular expression searched in their names; empty: all."""

    def broken(self, cell: Cell, scores: Mapping[str, Any]) -> str:
        """Return why a run of `cell` does not meet it; empty if it does or does not match."""
        if not re.search(self.cells, cell.name):
            return ""
        value = figure(scores, self.metric)
        if value is not None and self.low <= value <= self.high:
            return ""
        return f"{self.metric} is {'missing' if value is None else f'{value:.4g}'}, not {self.low:g} to {self.high:g}"


class Correlation(_Frozen):
    """The least correlation with the published figures that is required of the whole matrix."""

    metric: str
    kind: Literal["spearman", "pearson"]
    least: float


class Bias(_Frozen):
    """The largest |median of log(Sojourn/published)| over the cells that is allowed for the whole matrix."""

    metric: str
    most: float = Field(gt=0)
    """0.15: 14 % below to 16 % above the published figures."""


class Reference(_Frozen):
    """Published figures to compare with."""

    csv: str
    """The file in scoring/reference/ that they come from."""
    published: dict[str, dict[str, float]]
    """Name of the cell → metric → figure, in the unit of the metric."""
    tolerance: dict[str, float]
    """Metric → largest relative deviation that counts as agreement; metrics without any are only shown."""
    absolute: dict[str, float] = {}
    """Metric → the same in its own unit, for shares and differences."""
    correlations: tuple[Correlation, ...] = ()
    """Required once all runnable cells with a published figure have run, like `biases`."""
    biases: tuple[Bias, ...] = ()

    @cached_property
    def tolerances(self) -> dict[str, Tolerance]:
        """The tolerance of each metric that has one."""
        absolute = {metric: Tolerance(most, absolute=True) for metric, most in self.absolute.items()}
        return {metric: Tolerance(most) for metric, most in self.tolerance.items()} | absolute


Curve = tuple[tuple[float, float], ...]
"""Points (x, y), x ascending."""


class Chart(_Frozen):
    """A plot over several cells: per cell a group of bars; with `ccdf` a curve, with `over_time` a panel."""

    title: str
    unit: str
    series: dict[str, str]
    """Name in the legend → metric; of a CCDF the one that contains its `ms` and `percent`, e.g. `probes.0.ccdf`; over
    time a flow, e.g. `flows.0`, whose goodput of each second is drawn."""
    cells: dict[str, str]
    """Label → name of the cell."""
    ccdf: bool = False
    over_time: bool = False
    intervals: bool = False
    """Whether it shows rate, CE marks and queue delay of the flows (`flows.0`) in steps of 100 ms, of the first seed,
    in cells with a user's program."""
    published: dict[str, Curve] = {}
    """Label of a cell, or a new one → a published curve on the same axes, drawn dashed."""


class Summary(_Frozen):
    """Pantheon's summary chart: the throughput of cells against their delay, one point per scheme."""

    title: str
    cells: dict[str, str]
    """Name of the scheme → name of the cell."""
    mbps: str = "packets.total.egress_mbps"
    """Metric of the throughput, and that of the delay."""
    delay_ms: str = "packets.total.p95_owd_ms"
    published: dict[str, tuple[float, float]] = {}
    """Name of a published scheme → throughput in Mbit/s and delay in ms, of a path of its own."""


class Contrast(_Frozen):
    """A figure in one cell against that in another, each the mean of its runs; without limits it is only reported."""

    title: str
    metric: str
    cell: str
    reference: str
    kind: Literal["ratio", "difference"] = "ratio"
    """The cell's figure divided by the other's, or minus the other's."""
    low: float = float("-inf")
    high: float = float("inf")


class Difference(_Frozen):
    """A figure of one cell minus that of another, seed by seed: a separate figure of `cell`."""

    cell: str
    metric: str
    """Its name."""
    of: str
    """The metric that is compared, in the cell `more` and in the cell `less`."""
    more: str
    less: str
    per: float = Field(default=1, gt=0)
    """Divisor: the rate, for a share of it."""


class Matrix(_Frozen):
    """An experiment as data."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    """Its name for `sojourn matrix`."""
    title: str
    source: str = ""
    """The document and table that it reproduces."""
    cells: tuple[Cell, ...] = Field(min_length=1)
    repeat: int = Field(default=3, ge=1)
    """Runs of each cell by default, with the seeds 1, 2, …"""
    exact: str = ""
    """Why no seed draws a rig (`sojourn.bottleneck.rig`): what the experiment needs to the microsecond; empty: each
    does."""
    window_s: float = Field(default=40, gt=0)
    """Length of the window of D_SS, s."""
    windows: dict[str, float] = {}
    """Name of a cell → the length of its window, s, if not `window_s`."""
    tail_s: float = Field(default=2, ge=0)
    """Where the windows end before the end of the run, s."""
    columns: tuple[Column, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    reference: Reference | None = None
    charts: tuple[Chart, ...] = ()
    summaries: tuple[Summary, ...] = ()
    differences: tuple[Difference, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    solo: dict[str, str] = {}
    """Name of a cell → the cell in which its short flows are alone: the harm to them is reported as `harm.median` …"""
    notes: str = ""
    """Notes for the reader of the report's table."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        names = [cell.name for cell in self.cells]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f"matrix {self.name}: two cells with the same name: {', '.join(twice)}")
        if strange := set(self.reference.published if self.reference else ()) - set(names):
            raise ValueError(f"matrix {self.name}: published figures of unknown cells: {', '.join(sorted(strange))}")
        if useless := [e.cells for e in self.expectations if not any(re.search(e.cells, name) for name in names)]:
            raise ValueError(f"matrix {self.name}: expectations that match no cell: {', '.join(useless)}")
        drawn = {cell for chart in self.charts for cell in chart.cells.values()}
        drawn |= {cell for summary in self.summaries for cell in summary.cells.values()}
        drawn |= {cell for contrast in self.contrasts for cell in (contrast.cell, contrast.reference)}
        drawn |= {cell for one in self.differences for cell in (one.cell, one.more, one.less)}
        if strange := (drawn | self.solo.keys() | set(self.solo.values())) - set(names):
            raise ValueError(f"matrix {self.name}: charts or contrasts of unknown cells: {', '.join(sorted(strange))}")
        if strange := self.windows.keys() - set(names):
            raise ValueError(f"matrix {self.name}: windows of unknown cells: {', '.join(sorted(strange))}")
        return self

    def window_of(self, cell: Cell) -> tuple[float, float]:
        """Return the length of the window of D_SS of a cell, and where it ends before the end of the run, s."""
        return self.windows.get(cell.name, self.window_s), self.tail_s

    def sources(self, cell: str) -> set[str]:
        """Return the names of the other cells that figures of `cell` are derived from."""
        sides = {side for one in self.differences if one.cell == cell for side in (one.more, one.less)}
        return (sides | {self.solo.get(cell, cell)}) - {cell}

    @cached_property
    def runnable(self) -> tuple[Cell, ...]:
        """The cells that need nothing beyond mainline."""
        return tuple(cell for cell in self.cells if not cell.needs)

    @cached_property
    def labs(self) -> tuple[str, ...]:
        """The labs that can run its cells, the preferred one first."""
        return able_labs(self.runnable)

    @property
    def preferred_lab(self) -> str:
        """The lab that it runs in by default; without any, the first, whose refusal says why."""
        return (*self.labs, *MATRIX_LABS)[0]

    def swapped(self, text: str) -> Matrix:
        """Return the matrix with another contender, `OLD=NEW`, in every flow; its results are kept separately.

        A user's program alone replaces the contender of the first flow.

        It has no expectations: those are of OLD, as are the published figures that it is compared with; its title says
        so. Raises MatrixError when a name is unknown, no flow has OLD or a cell cannot have NEW in its place.
        """
        old, _, new = text.partition("=")
        if is_user_program(text):
            old, new = next((flow.contender for cell in self.cells for flow in cell.flows), ""), text
        elif not (old and new) or old == new:
            raise MatrixError(f"--swap={text}: give OLD=NEW, such as cubic=prague", code="invalid-value")
        known = *CONTENDERS, *PROGRAMS, *UNRESPONSIVE
        for name in filter(None, (old, new)):
            if name not in CONTENDERS and name not in known and not is_user_program(name):
                raise MatrixError(
                    f"--swap: unknown contender {name!r} in {text!r}; known: {', '.join(known)}", code="unknown-value"
                )
        try:
            cells = tuple(cell.swapped(old, new) for cell in self.cells)
        except ValidationError as wrong:
            raise MatrixError(f"--swap={text}: {first_wrong(wrong)}", code="unsupported") from None
        if cells == self.cells:
            flows = (flow for cell in self.cells for flow in (*cell.flows, cell.short_flows) if flow)
            those = ", ".join(dict.fromkeys(flow.contender for flow in flows)) or "none"
            raise MatrixError(
                f"--swap: matrix {self.name} has no flow {old or 'at all'}; its flows: {those}", code="no-effect"
            )
        changed = f"{new} in place of {old}, which cells are named after"
        name = re.sub("[^a-z0-9]+", "-", f"{self.name}-{new}-for-{old}")
        contrasts = tuple(it.model_copy(update={"low": float("-inf"), "high": float("inf")}) for it in self.contrasts)
        published = self.reference and self.reference.model_copy(update={"correlations": (), "biases": ()})
        return self._with(name, cells, changed, expectations=(), contrasts=contrasts, reference=published)

    def traced(self, file: Path) -> Matrix:
        """Return the matrix with another delivery trace instead of its own; its results are kept separately.

        Raises MatrixError when the trace cannot be used or no cell has one.
        """
        try:
            link = DeliveryTrace.of_file(file)
            cells = tuple(cell.traced(link) for cell in self.cells)
        except DeliveryTraceError as wrong:
            raise MatrixError(f"--trace: {wrong}", code="invalid-value") from None
        except ValidationError as wrong:
            raise MatrixError(f"--trace: {first_wrong(wrong)}", code="invalid-value") from None
        if cells == self.cells:
            raise MatrixError(f"--trace: no cell of matrix {self.name} has a delivery trace", code="no-effect")
        stem = re.sub("[^a-z0-9]+", "-", file.stem.lower()).strip("-") or "trace"
        return self._with(f"{self.name}-{stem}", cells, f"delivery trace {file.name}")

    def _with(self, name: str, cells: tuple[Cell, ...], changed: str, **more: Any) -> Matrix:
        # Not a copy, which would keep cached properties of the old cells.
        fields = {field: getattr(self, field) for field in type(self).model_fields}
        return type(self)(**fields | {"name": name, "cells": cells, "title": f"{self.title} ({changed})"} | more)

    def select(self, text: str = "") -> tuple[Cell, ...]:
        """Return the runnable cells whose name contains every word of `text`. Raises MatrixError when none does."""
        words = text.lower().split()
        named = [cell for cell in self.cells if all(word in cell.name.lower() for word in words)]
        if not named:
            raise MatrixError(
                f"matrix {self.name}: no cell's name contains {text!r}; one is {self.cells[0].name!r}",
                code="unknown-value",
            )
        if not (cells := tuple(cell for cell in named if not cell.needs)):
            needs = "; ".join(dict.fromkeys(cell.needs for cell in named))
            which = f"no cell whose name contains {text!r}" if words else "no cell"
            raise MatrixError(f"matrix {self.name}: {which} can run here; needed: {needs}", code="unsupported")
        return cells


def figure(scores: Mapping[str, Any], metric: str) -> float | None:
    """Return the figure at the dotted path `metric` (numbers index lists), None if there is none."""
    value = at(scores, metric) if is_measured(scores, metric) else None
    # Infinite values are text in JSON.
    return float(value) if isinstance(value, int | float) or value == "Infinity" else None


def at(scores: Mapping[str, Any], path: str) -> Any:
    """Return what is at a dotted path, None if there is nothing."""
    node: Any = scores
    for step in path.split("."):
        try:
            node = node[int(step)] if isinstance(node, list) else node[step]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return node


def matrices(experiments: Path = EXPERIMENTS) -> dict[str, Matrix]:
    """Return every matrix that a file `test_*.py` defines as `MATRIX`, by name.

    Raises MatrixError when such a file cannot be imported or two have the same name.
    """
    by_name: dict[str, Matrix] = {}
    for path in sorted(experiments.glob("test_*.py")):
        if not _DEFINES_ONE.search(path.read_text()):
            continue
        matrix = _load(path)
        if matrix.name in by_name:
            raise MatrixError(f"{path}: a second matrix {matrix.name}", code="duplicate")
        by_name[matrix.name] = matrix
    return dict(sorted(by_name.items()))


def _load(path: Path) -> Matrix:
    spec = importlib.util.spec_from_file_location(f"tests.{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ValidationError as wrong:
        raise MatrixError(f"{path}: {first_wrong(wrong)}", code="invalid-value") from wrong
    except Exception as wrong:
        raise MatrixError(f"{path}: {type(wrong).__name__}: {wrong}", code="unreadable-file") from wrong
    if not isinstance(module.MATRIX, Matrix):
        raise MatrixError(f"{path}: MATRIX is not a Matrix", code="invalid-value")
    return module.MATRIX


def named(name: str, known: Mapping[str, Matrix]) -> Matrix:
    """Return the matrix of that name. Raises MatrixError with similar names."""
    if name in known:
        return known[name]
    meant = did_you_mean(name, known, most=3, alike=0.4)
    hint = "; ".join(filter(None, (f"known: {', '.join(known) or 'none'}", meant)))
    raise MatrixError(f"unknown matrix {name!r}; {hint}", code="unknown-value")
