# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sojourn.harness.report.agreement_plot import Quantity, SourceDots, agreement_plot


def drawn(*series: SourceDots) -> str:
    return agreement_plot([Quantity("rates (Mbit/s)", series)], 0.15)


def test_every_figure_and_source_is_in_the_picture() -> None:
    both = drawn(SourceDots("A", [(1.0, 2.0), (30.0, 28.0)]), SourceDots("B", [(3.0, 3.1)]))
    one = drawn(SourceDots("A", [(1.0, 2.0), (30.0, 28.0)]), SourceDots("B", []))
    assert both.count("<circle") == 3 and "A (2)" in both and "B (1)" in both
    assert one.count("<circle") == 2 and "B (" not in one  # what has no figures is not in the key


def test_the_many_are_under_the_few() -> None:
    many, few = SourceDots("many", [(1.0 + n, 1.0 + n) for n in range(101)]), SourceDots("few", [(2.0, 3.0)])
    picture = drawn(few, many)
    assert picture.rindex("faint who-other-2") < picture.index('dot who-other-1"')


def test_a_picture_without_figures_is_drawn() -> None:
    assert agreement_plot([], 0.15).endswith("</svg>")
