# SPDX-License-Identifier: Apache-2.0
"""A matrix as pytest tests: one node per cell, and one for the expectations over all cells."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix.matrix import Matrix


def matrix_tests(matrix: Matrix) -> Callable[..., None]:
    """Return the test of a matrix, one node per cell: `test_cell = matrix_tests(MATRIX)`.

    It runs the cell with all its seeds in the lab named by the options and asserts the matrix's expectations.
    """

    def test_cell(cell: Cell, measure: Callable[[Matrix, Cell], list[str]]) -> None:
        if cell.needs:
            pytest.skip(f"needs {cell.needs}")
        if broken := measure(matrix, cell):
            pytest.fail("; ".join(broken), pytrace=False)

    test_cell.__doc__ = matrix.title
    cells = pytest.mark.parametrize("cell", matrix.cells, ids=[cell.name for cell in matrix.cells])
    test: Callable[..., None] = pytest.mark.experiment(cells(test_cell))
    return test


def matrix_targets(matrix: Matrix) -> Callable[..., None]:
    """Return the test of its correlations and contrasts: `test_targets = matrix_targets(MATRIX)`.

    It waits for all cells of the matrix, and is skipped where they are not all selected.
    """

    def test_targets(missed: Callable[[Matrix], list[str]]) -> None:
        if lines := missed(matrix):
            pytest.fail("; ".join(lines), pytrace=False)

    test_targets.__doc__ = f"{matrix.title}: expectations over all cells."
    test: Callable[..., None] = pytest.mark.experiment(test_targets)
    return test
