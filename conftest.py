# SPDX-License-Identifier: Apache-2.0
"""Options and fixtures of every experiment. What they do is in harness/."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps import SERVICES
from harness.lab import Lab
from harness.lab_limits import lacking
from harness.options import OPTIONS, Options, OptionsError, parse_options
from harness.progress import real_terminal
from harness.run import Result, perform


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sojourn", "Sojourn: what a run measures")
    for option in OPTIONS:
        action = "store_true" if option.flag else "store"
        group.addoption(f"--{option.name}", action=action, default=option.default, help=option.help)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse options that cannot work before anything is collected, let alone started."""
    try:
        config.stash[_OPTIONS] = parse_options(
            {option.name: config.getoption(f"--{option.name}") for option in OPTIONS}, SERVICES
        )
    except OptionsError as wrong:
        raise pytest.UsageError(str(wrong)) from None


_OPTIONS = pytest.StashKey[Options]()
_RESULTS = pytest.StashKey[list[Result]]()
_REPORTS = pytest.StashKey[list[Path]]()


@pytest.fixture(scope="session")
def options(pytestconfig: pytest.Config) -> Options:
    """What the user asked for on the command line."""
    return pytestconfig.stash[_OPTIONS]


@pytest.fixture
def experiment(request: pytest.FixtureRequest, options: Options) -> Callable[..., Result]:
    """Run the experiment that the options describe under a test's name; a void run fails the test with its reasons."""
    config = request.config
    if options.lab == "sim":
        pytest.fail("--lab=sim: simulated time has no browser; this test takes --lab=virtual or apu", pytrace=False)

    def run(test: str, **changes: Any) -> Result:
        command_line = ["pytest", *config.invocation_params.args]
        with real_terminal(config.pluginmanager.getplugin("capturemanager")) as terminal:
            try:
                result = perform(test, options.but(**changes), SERVICES, command_line, terminal)
            except (RuntimeError, OSError) as error:
                # What our parts raise says in one line what is wrong; a stack would bury it.
                pytest.fail(f"{type(error).__name__}: {error}", pytrace=False)
        config.stash.setdefault(_RESULTS, []).append(result)
        return result

    return run


@pytest.fixture(scope="session")
def matrix_session(pytestconfig: pytest.Config, options: Options) -> Iterator[Any]:
    """The matrices of this session: their cells run in parallel, ahead of the tests that wait for them."""
    from harness.matrix_session import MatrixSession

    session = MatrixSession(options)
    yield session
    pytestconfig.stash[_REPORTS] = session.close()


@pytest.fixture
def measure(request: pytest.FixtureRequest, matrix_session: Any) -> Callable[..., list[str]]:
    """Run a cell of a matrix and return what does not hold of it."""

    def run(matrix: Any, cell: Any) -> list[str]:
        if lacks := lacking(cell, lab := matrix_session.lab(matrix)):
            pytest.skip(f"the {lab} lab has {lacks}")
        items = [item for item in request.session.items if getattr(item.module, "MATRIX", None) is matrix]
        try:
            return matrix_session.measure(matrix, cell, [item.callspec.params["cell"] for item in items])
        except (RuntimeError, OSError) as error:
            pytest.fail(f"{type(error).__name__}: {error}", pytrace=False)

    return run


@pytest.fixture
def virtual_lab(tmp_path: Path) -> Iterator[Lab]:
    """A virtual lab that is up, its logs in the test's own folder."""
    from harness.run import virtual_lab

    with virtual_lab(tmp_path) as lab:
        yield lab


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the harm table of every run, and where its evidence lies."""
    for result in config.stash.get(_RESULTS, []):
        terminalreporter.section(f"{result.path.name}", sep="-")
        result.print(sys.stdout if not terminalreporter.hasmarkup else None)
    for report in config.stash.get(_REPORTS, []):
        terminalreporter.write_line(f"report: {report}")
