# SPDX-License-Identifier: Apache-2.0
"""The finished runs of a matrix: their folders, their scores, and expectations over all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, isfinite, isinf
from pathlib import Path
from statistics import fmean
from typing import Any

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.messages import count_of
from sojourn.harness.matrix.cells.cell_run import CellJob, cache_state
from sojourn.harness.matrix.matrix import Matrix, figure
from sojourn.scoring.reference.published import AGREEING_SIZE, PublishedComparison, PublishedPair, compare, pair
from sojourn.scoring.schema.cell_scores import CompletionScores
from sojourn.scoring.statistics.numbers import formatted, never_came
from sojourn.scoring.transport.completion import completion_harm
from sojourn.traffic.user_program import UserProgram

MISSING = "–"
FURTHEST = 3
"""How many of the cells furthest from the published figures are named."""


def cell_folder(folder: Path, cell: Cell) -> Path:
    """Return the folder of a cell's runs in the folder of its matrix."""
    return folder / f"{cell.slug}-{cell.digest()}"


def run_folder(folder: Path, cell: Cell, seed: int) -> Path:
    """Return the folder of one run in the folder of its matrix."""
    return cell_folder(folder, cell) / f"seed-{seed}"


def finished(matrix: Matrix, folder: Path) -> Iterator[tuple[Cell, int, Path]]:
    """Yield cell, seed and folder of every finished run, cells in the matrix's order, seeds ascending."""
    for cell in matrix.cells:
        runs = [path.parent for path in cell_folder(folder, cell).glob("seed-*/scores.json")]
        for seed, run in sorted((int(run.name[5:]), run) for run in runs if run.name[5:].isdigit()):
            yield cell, seed, run


@dataclass
class Results:
    """The scores of every finished run of a matrix: cell → seed → scores."""

    matrix: Matrix
    folder: Path
    runs: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    paths: dict[str, dict[int, Path]] = field(default_factory=dict)
    left_out: int = 0
    """Finished runs with other inputs or other scorers, which are not comparable."""

    @property
    def cells(self) -> list[Cell]:
        """The cells with a finished run, in the matrix's order."""
        return [cell for cell in self.matrix.cells if cell.name in self.runs]

    def take(self, cell: Cell, seed: int, run: Path, scores: dict[str, Any]) -> None:
        """Take a finished run and its scores."""
        self.runs.setdefault(cell.name, {})[seed] = scores
        self.paths.setdefault(cell.name, {})[seed] = run

    def derive(self) -> None:
        """Add scores over two runs: the harm to short flows, and the matrix's differences."""
        for contended, solo in self.matrix.solo.items():
            for seed, scores in self.runs.get(contended, {}).items():
                if alone := self.runs.get(solo, {}).get(seed):
                    short = [CompletionScores.model_validate(it["short"]) for it in (alone, scores) if "short" in it]
                    scores["harm"] = completion_harm(*short) if len(short) == 2 else {}
        for one in self.matrix.differences:
            for seed, scores in self.runs.get(one.cell, {}).items():
                sides = (self.runs.get(cell, {}).get(seed, {}) for cell in (one.more, one.less))
                more, less = (figure(side, one.of) for side in sides)
                if more is not None and less is not None:
                    scores[one.metric] = round((more - less) / one.per, 6)

    def values(self, cell: str, metric: str) -> list[float]:
        """Return a figure of every seed that has it."""
        figures = (figure(scores, metric) for scores in self.runs.get(cell, {}).values())
        return [value for value in figures if value is not None]

    def comparisons(self) -> list[PublishedComparison]:
        """Return the comparison with the reference, one for each published metric."""
        if not (reference := self.matrix.reference):
            return []
        metrics = {metric for figures in reference.published.values() for metric in figures}
        ours = {cell.name: {metric: self.values(cell.name, metric) for metric in metrics} for cell in self.cells}
        return compare(ours, reference.published, reference.tolerances)

    def pair(self, cell: str, metric: str) -> PublishedPair | None:
        """Return a figure of a cell and the published one; None if one side has none."""
        reference, values = self.matrix.reference, self.values(cell, metric)
        theirs = reference.published.get(cell, {}).get(metric) if reference else None
        if reference is None or theirs is None or not values:
            return None
        return pair(cell, values, theirs, reference.tolerances.get(metric))

    def agreements(self) -> list[tuple[str, bool | None]]:
        """Return a line for each correlation and bias, and whether it is met; None until all cells have run."""
        if not (reference := self.matrix.reference):
            return []
        comparisons = {one.metric: one for one in self.comparisons()}
        names = {"spearman": "rank correlation", "pearson": "Pearson's correlation"}
        judged: list[tuple[str, str, float | None, str, bool]] = []
        for requested in reference.correlations:
            value = getattr(comparisons[requested.metric], requested.kind)
            holds = value is not None and value >= requested.least
            judged.append((requested.metric, names[requested.kind], value, f"at least {requested.least:g}", holds))
        for bias in reference.biases:
            value = comparisons[bias.metric].median_log_ratio
            holds = value is not None and abs(value) <= bias.most
            judged.append((bias.metric, "median log ratio", value, f"at most ±{bias.most:g}", holds))
        lines: list[tuple[str, bool | None]] = []
        for metric, name, value, limit, holds in judged:
            whole = sum(metric in reference.published.get(cell.name, ()) for cell in self.matrix.runnable)
            cells = len(comparisons[metric].pairs)
            met = None if cells < whole else holds
            verdict = {None: f"required of all {whole}", True: "met", False: "NOT met"}[met]
            over = f"{name} {figure_text(value, 4)} over {cells} cells{left_out_text(comparisons[metric])}"
            lines.append((f"{column_head(self.matrix, metric)}: {over}, {limit}: {verdict}", met))
        return lines

    def published_lines(self) -> list[str]:
        """Return the comparison with the published figures, a line for each metric with any cell on both sides."""
        return [self._published_line(one) for one in self.comparisons() if one.pairs]

    def _published_line(self, one: PublishedComparison) -> str:
        parts = [f"{count_of(len(one.pairs), 'cell')}{left_out_text(one)}"]
        if one.tolerance:
            parts.append(f"{one.agreeing} within {one.tolerance} of the published")
        parts += [
            f"{name} {figure_text(value, 3)}"
            for name, value in (
                ("rank correlation", one.spearman),
                ("Pearson's", one.pearson),
                ("median log ratio", one.median_log_ratio),
                ("median absolute log ratio", one.median_abs_log_ratio),
                ("P90", one.p90_abs_log_ratio),
            )
            if value is not None
        ]
        if one.near_share is not None:
            parts.append(f"{one.near_share:.0%} of cells within {exp(AGREEING_SIZE) - 1:.0%}")
        if furthest := ", ".join(furthest_text(pair) for pair in one.furthest(FURTHEST)):
            parts.append(f"furthest: {furthest}")
        return f"{column_head(self.matrix, one.metric)}: {'; '.join(parts)}"

    def contrasts(self) -> list[tuple[str, bool | None]]:
        """Return a line for each contrast, and whether it is met; None until both its cells have run."""
        lines: list[tuple[str, bool | None]] = []
        for contrast in self.matrix.contrasts:
            ours, theirs = (mean(self.values(cell, contrast.metric)) for cell in (contrast.cell, contrast.reference))
            if ours is None or theirs is None or (contrast.kind == "ratio" and not theirs):
                lines.append((f"{contrast.title}: not run", None))
                continue
            if isinf(ours) and isinf(theirs):
                lines.append((f"{contrast.title}: both {never_came(contrast.metric)}", None))
                continue
            value = ours / theirs if contrast.kind == "ratio" else ours - theirs
            limits = {"at least": contrast.low, "at most": contrast.high}
            requested = [f"{bound} {limit:g}" for bound, limit in limits.items() if isfinite(limit)]
            met = contrast.low <= value <= contrast.high if requested else None
            words = [f"{contrast.title}: {figure_text(value, 2, contrast.metric)}", *requested]
            lines.append((", ".join(words) + {None: "", True: ": met", False: ": NOT met"}[met], met))
        return lines

    def targets(self) -> list[tuple[str, bool | None]]:
        """Return lines over all cells together, and whether each is met; None: no requirement, or not run."""
        return [*self.agreements(), *self.contrasts()]

    def missed(self) -> list[str]:
        """Return the targets that are not met."""
        return [line for line, met in self.targets() if met is False]

    def broken(self) -> list[str]:
        """Return the expectations that runs do not meet, one line each."""
        return [line for cell in self.cells for line in self.broken_by(cell)]

    def broken_by(self, cell: Cell) -> list[str]:
        """Return the expectations that the runs of a cell do not meet, one line each."""
        return [
            f"{cell.name}, seed {seed}: {why}"
            for seed, scores in self.runs.get(cell.name, {}).items()
            for expected in self.matrix.expectations
            if (why := expected.broken(cell, scores))
        ]


def results(matrix: Matrix, folder: Path, inputs: str, programs: tuple[UserProgram, ...] = ()) -> Results:
    """Read the scores of finished runs under `folder`, with the harm to short flows and the matrix's differences.

    Only runs with these `inputs` and `programs` (as of a CellJob) and the scores of this scorer: others are counted.
    """
    gathered = Results(matrix, folder)
    for cell, seed, run in finished(matrix, folder):
        if cache_state(CellJob(cell, seed, *matrix.window_of(cell), inputs, programs=programs), run) != "done":
            gathered.left_out += 1
            continue
        gathered.take(cell, seed, run, json.loads((run / "scores.json").read_bytes()))
    gathered.derive()
    return gathered


def column_head(matrix: Matrix, metric: str) -> str:
    """Return the head of a metric's column; the metric itself if the table has none."""
    return next((column.head for column in matrix.columns if column.metric == metric), metric)


def left_out_text(comparison: PublishedComparison) -> str:
    """Return how many cells the figures of agreement exclude; empty if none."""
    return f" ({comparison.infinite} infinite: excluded)" if comparison.infinite else ""


def furthest_text(pair: PublishedPair) -> str:
    """Return a cell and the ratio of the measured to the published figure."""
    return f"{pair.cell} (x {pair.ratio:.3g})"


def seeds_text(seeds: Sequence[int]) -> str:
    """Return which seeds a figure is from."""
    return f"Seed {seeds[0]}" if len(seeds) == 1 else f"Mean of the seeds {', '.join(map(str, seeds))}"


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None without values."""
    return fmean(values) if values else None


def figure_text(value: float | None, digits: int, metric: str = "") -> str:
    """Return a figure for display, with so many digits after the point; MISSING if there is none.

    `metric` is its metric: an infinite completion time is unfinished, not lost.
    """
    # Adding 0.0 removes the sign of a rounded zero.
    return MISSING if value is None else formatted(round(value, digits) + 0.0, f".{digits}f", never_came(metric))
