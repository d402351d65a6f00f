# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from sojourn.harness.report.agreement_figure import Quantity, SourceDots, draw


def drawn(series: list[SourceDots], output: Path) -> str:
    draw([Quantity("rates (Mbit/s)", series)], 0.15, output)
    return output.read_text()


def test_every_figure_and_source_is_in_the_picture(tmp_path: Path) -> None:
    both = drawn([SourceDots("A", [(1.0, 2.0), (30.0, 28.0)]), SourceDots("B", [(3.0, 3.1)])], tmp_path / "both.svg")
    one = drawn([SourceDots("A", [(1.0, 2.0), (30.0, 28.0)]), SourceDots("B", [])], tmp_path / "one.svg")
    colours = ("#0b62c4", "#c4420b")
    assert all(colour in both for colour in colours)
    assert colours[0] in one and colours[1] not in one  # what has no figures is not in the legend


def test_a_picture_without_figures_is_drawn(tmp_path: Path) -> None:
    draw([], 0.15, tmp_path / "none.png")
    assert (tmp_path / "none.png").stat().st_size
