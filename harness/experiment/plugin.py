# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin of experiments: the options, the fixtures, and the tables after the last test."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.signals import unignore_sigint
from sojourn.harness.experiment.series import SPARE
from sojourn.harness.experiment.session import ExperimentSession, TooFewValidError
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import GROUPS, OPTIONS, Options
from sojourn.harness.options.sources import with_scenario
from sojourn.harness.store.runs import stopped_by
from sojourn.harness.terminal import console_of, real_terminal

SESSION = pytest.StashKey[ExperimentSession]()
"""The experiments of this pytest session."""


def pytest_addoption(parser: pytest.Parser) -> None:
    for option in OPTIONS:
        group = parser.getgroup(f"sojourn-{option.group}", f"Sojourn: {GROUPS[option.group]}")
        action = "store_true" if option.flag else "store"
        # None: not set by the user; a service may have its own default.
        _add(group.addoption, option.name, action=action, default=None, help=option.text.replace("%", "%%"))


def _add(addoption: Callable[..., None], name: str, **how: Any) -> None:
    """Add an option, with a prefix if another plugin has its name, as pytest-playwright has --browser."""
    try:
        addoption(f"--{name}", dest=_dest(name), **how)
    except argparse.ArgumentError:
        addoption(f"--sojourn-{name}", dest=_dest(name), **how)


def _dest(name: str) -> str:
    return f"sojourn_{name.replace('-', '_')}"


def pytest_configure(config: pytest.Config) -> None:
    """Reject options that cannot work before anything is collected or started."""
    unignore_sigint()
    config.addinivalue_line("markers", "experiment: a full experiment of minutes; run by name or by make harm")
    checkout = config.rootpath
    if (checkout / "harness" / "experiment" / "plugin.py").exists() and checkout != CHECKOUT:
        raise pytest.UsageError(
            f"this is the Sojourn of {CHECKOUT}: run `python -m pytest`, or `make environment` first"
        )
    given = {option.name: config.getoption(_dest(option.name)) for option in OPTIONS}
    called = config.invocation_params
    try:
        given = with_scenario(given, called.dir)
        session = ExperimentSession.from_command_line(given, ["pytest", *called.args], called.dir, os.environ)
    except (OptionsError, RuntimeError, OSError) as wrong:
        raise pytest.UsageError(str(wrong)) from None
    config.add_cleanup((stack := ExitStack()).close)
    config.stash[SESSION] = stack.enter_context(session)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return the user's own defaults, and what may not be meant."""
    return config.stash[SESSION].opening


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run an experiment once per requested service."""
    every = metafunc.config.stash[SESSION].requested
    if "experiment" in metafunc.fixturenames and len(every) > 1:
        metafunc.parametrize("options", every, ids=[each.service for each in every], indirect=True, scope="session")


@pytest.fixture(scope="session")
def options(request: pytest.FixtureRequest) -> Options:
    """The options of the command line and of the user's defaults."""
    return getattr(request, "param", request.config.stash[SESSION].requested[0])


@pytest.hookimpl(trylast=True)  # after -m and -k have deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reject experiments that cannot work here, and set the user's time limit per run, or none.

    The time limit of the project's tests would end a first run's builds, or a long timeline, on a slow machine.
    """
    session = config.stash[SESSION]
    experiments = [item for item in items if "experiment" in getattr(item, "fixturenames", ())]
    if experiments and not config.option.collectonly:
        try:
            session.require_ready()
        except (RuntimeError, OSError) as wrong:
            raise pytest.UsageError(printable(str(wrong))) from None
    limit, runs = config.getoption("timeout") or 0, session.requested[0].repeat
    for item in items:
        if item in experiments:
            item.add_marker(pytest.mark.timeout(limit * (runs + SPARE if runs else 1)))
        elif "matrix_session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(limit))


@pytest.fixture
def experiment(request: pytest.FixtureRequest, options: Options) -> Callable[..., None]:
    """Run the experiment that the options describe under a test's name, as often as they require.

    Too few valid runs fail the test, with the reasons of every invalid run.
    """
    config = request.config
    session, plugins = config.stash[SESSION], config.pluginmanager

    def run(test: str, **changes: Any) -> None:
        capture = plugins.getplugin("capturemanager")
        if "qdisc_down" not in changes and (queue := session.take_unnamed_queue()):
            with capture.global_and_fixture_disabled():
                plugins.getplugin("terminalreporter").write_line(queue)
        with real_terminal(capture) as terminal, one_line_failures(session.kept):
            session.run(options.replace(**changes), terminal, test)

    return run


def _finished_runs() -> list[str]:
    return ["finished runs are kept; the same command resumes"]


@contextmanager
def one_line_failures(kept: Callable[[], list[str]] = _finished_runs) -> Iterator[None]:
    """Turn what stops a run into the end of pytest, with what is `kept`, or the failure of the test, in one line."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, lambda *_: None)  # only pytest's own shutdown is left
        pytest.exit(printable("; ".join((stopped_by(stop), *kept()))), pytest.ExitCode.INTERRUPTED)
    except (OptionsError, TooFewValidError) as refused:
        raise pytest.fail.Exception(str(refused), pytrace=False) from None
    except (RuntimeError, OSError) as error:
        raise pytest.fail.Exception(f"{type(error).__name__}: {printable(str(error))}", pytrace=False) from None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the harm table of every run, or of all repetitions together, and where the evidence is."""
    config.stash[SESSION].finish(console_of())
