# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin of matrices: fixtures that run the selected cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from sojourn.harness.experiment.plugin import SESSION, one_line_failures
from sojourn.harness.matrix.capabilities import missing_capability
from sojourn.harness.options.model import Options

if TYPE_CHECKING:
    from sojourn.bottleneck.cell import Cell
    from sojourn.harness.matrix.matrix import Matrix
    from sojourn.harness.matrix.session import MatrixSession

Selected = Callable[["Matrix"], list["Cell"]]
"""Returns the selected cells of a matrix."""


@pytest.fixture(scope="session")
def matrix_session(pytestconfig: pytest.Config, options: Options) -> Iterator[MatrixSession]:
    """Yield the matrices of this session: their cells run in parallel, ahead of the tests that wait for them."""
    from sojourn.harness.matrix.session import MatrixSession

    session = MatrixSession(options, pytestconfig.stash[SESSION].command_line)
    yield session
    pytestconfig.stash[SESSION].reports += session.close()


@pytest.fixture
def measure(selected: Selected, matrix_session: MatrixSession) -> Callable[..., list[str]]:
    """Run a cell of a matrix and return what it does not meet."""

    def run(matrix: Matrix, cell: Cell) -> list[str]:
        if missing := missing_capability(cell, lab := matrix_session.lab(matrix)):
            pytest.skip(f"the {lab} lab has {missing}")
        with one_line_failures():
            return matrix_session.measure(matrix, cell, selected(matrix))

    return run


@pytest.fixture
def missed(selected: Selected, matrix_session: MatrixSession) -> Callable[..., list[str]]:
    """Run all cells of a matrix and return what the whole does not meet."""

    def run(matrix: Matrix) -> list[str]:
        cells = [cell for cell in selected(matrix) if not cell.needs]
        if len(cells) < len(matrix.runnable):
            pytest.skip(f"{len(cells)} of {len(matrix.runnable)} cells are selected")
        lab = matrix_session.lab(matrix)
        if missing := next(filter(None, (missing_capability(cell, lab) for cell in cells)), ""):
            pytest.skip(f"the {lab} lab has {missing}")
        with one_line_failures():
            return matrix_session.missed(matrix, cells)

    return run


@pytest.fixture
def scores_in(selected: Selected, matrix_session: MatrixSession) -> Callable[..., list[dict[str, Any]]]:
    """Run a cell of a matrix in a lab and return the scores of its runs."""
    from sojourn.harness.matrix.session import scores

    def run(matrix: Matrix, cell: Cell, lab: str) -> list[dict[str, Any]]:
        with one_line_failures():
            return scores(matrix_session.outcomes(matrix, cell, selected(matrix), lab))

    return run


@pytest.fixture
def selected(request: pytest.FixtureRequest) -> Selected:
    """Return the selected cells of a matrix, in their order."""

    def cells(matrix: Matrix) -> list[Cell]:
        items: Any = request.session.items  # functions, as all of Sojourn's tests are
        items = [item for item in items if getattr(item.module, "MATRIX", None) is matrix]
        return list(dict.fromkeys(item.callspec.params["cell"] for item in items if hasattr(item, "callspec")))

    return cells


@pytest.fixture
def notify(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Return a function that takes lines to print after all tests."""
    return pytestconfig.stash[SESSION].lines.append
