# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin of every experiment: its options, its fixture, and what is told when all tests are over."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sojourn.apps import SERVICES
from sojourn.hardware.lab.lab_file import BOX_LAB
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.signals import keep_to_ourselves
from sojourn.harness.experiment.run import SPARE, Result, perform, repeat, require_ready
from sojourn.harness.experiment.seeds import repeat_side_by_side
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import BY_NAME, DEFAULT_QUEUE, FORMER, GROUPS, OPTIONS, Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.options.rules import parse_options
from sojourn.harness.options.sources import user_defaults, with_scenario
from sojourn.harness.report.beside_published import published_services
from sojourn.harness.report.terminal import print_services
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import stopped_by
from sojourn.harness.terminal import real_terminal

ASKED = pytest.StashKey[list[Options]]()
"""What the command line asks for: one run's options, or a service's each."""
RESULTS = pytest.StashKey[list[Result]]()
DEFAULTS = pytest.StashKey[list[str]]()
"""What the user's own defaults are, in lines."""
UNNAMED_QUEUE = pytest.StashKey[str]()
"""What is printed when the first run begins, where nobody named a queue; once."""
TOLD = pytest.StashKey[list[str]]()
"""Lines that are printed when all tests are over."""
REPORTS = pytest.StashKey[list[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    for option in OPTIONS:
        group = parser.getgroup(f"sojourn-{option.group}", f"Sojourn: {GROUPS[option.group]}")
        action = "store_true" if option.flag else "store"
        # None says that the user named none: a service may bring a default of its own.
        group.addoption(f"--{option.name}", action=action, default=None, help=option.text.replace("%", "%%"))
    for name in FORMER:  # to be refused with what to do instead
        parser.addoption(f"--{name}", default=None, help=argparse.SUPPRESS)
    group = parser.getgroup("sojourn-soak", "Sojourn: a night of runs")
    group.addoption("--soak", metavar="PLAN", help="run the cells of a plan for --soak-hours: `sojourn soak PLAN`")
    group.addoption("--soak-hours", type=float, default=10, help="how long a soak lasts (default: 10)")


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Become `sojourn soak` where a plan is given: a night outlasts a session, and has exit codes of its own."""
    if plan := config.getoption("soak"):
        soak = ["soak", plan, f"--hours={config.getoption('soak_hours')}"]
        os.execv(sys.executable, [sys.executable, "-P", "-m", "sojourn.harness.cli", *soak])


class _ForTheEnd(logging.Handler):
    """Keeps what is logged in the lines that are printed when all tests are over: pytest shows none of it."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(printable(record.getMessage()))


def pytest_configure(config: pytest.Config) -> None:
    """Refuse options that cannot work before anything is collected, let alone started."""
    keep_to_ourselves()
    handler = _ForTheEnd(config.stash.setdefault(TOLD, []))
    for log in map(logging.getLogger, ("sojourn.cache", "sojourn.archive")):
        log.addHandler(handler)
        config.add_cleanup(partial(log.removeHandler, handler))
    config.addinivalue_line("markers", "experiment: a full experiment of minutes; run by name or by make harm")
    checkout = config.rootpath
    if (checkout / "harness" / "experiment" / "plugin.py").exists() and checkout != CHECKOUT:
        raise pytest.UsageError(
            f"this is the Sojourn of {CHECKOUT}: run `python -m pytest`, or `make environment` first"
        )
    given = {name: config.getoption(f"--{name}") for name in (*(option.name for option in OPTIONS), *FORMER)}
    try:
        given = with_scenario(given, config.invocation_params.dir)
        defaults = user_defaults(os.environ, config.invocation_params.dir, SERVICES)
        asked = given["service"] or defaults.service or str(BY_NAME["service"].default)
        if asked == "all":
            config.stash[ASKED] = [_as_published(given, defaults.of(name), name) for name in published_services()]
        else:
            config.stash[ASKED] = [parse_options(given | {"service": asked}, SERVICES, defaults.of(asked))]
        config.stash[DEFAULTS] = defaults.lines(asked)
        queue = config.stash[ASKED][0].qdisc_down
        if queue is not None and given["qdisc"] is None and "qdisc" not in defaults.of(asked):
            config.stash[UNNAMED_QUEUE] = (
                f"queue: {queue} (default), {DEFAULT_QUEUE}; others: --qdisc=dualpi2, cake, fq_codel, pfifo"
            )
    except OptionsError as wrong:
        raise pytest.UsageError(str(wrong)) from None


def _as_published(given: dict[str, Any], defaults: dict[str, str | bool], name: str) -> Options:
    """The options of a service's published run, where the command line says no other."""
    victim = SERVICES[name]
    published = {"timeline": "published", **victim.defaults, **victim.published}
    if BOX_LAB in (given["lab"], defaults.get("lab")):
        del published["rate"]  # which a box has by itself
    return parse_options(given | {"service": name}, SERVICES, {**defaults, **published})


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Tell which defaults are the user's."""
    return config.stash[DEFAULTS]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run an experiment once for each service that was asked for."""
    if "experiment" in metafunc.fixturenames and len(every := metafunc.config.stash[ASKED]) > 1:
        metafunc.parametrize("options", every, ids=[each.service for each in every], indirect=True, scope="session")


@pytest.fixture(scope="session")
def options(request: pytest.FixtureRequest) -> Options:
    """What the user asked for on the command line."""
    return getattr(request, "param", request.config.stash[ASKED][0])


@pytest.hookimpl(trylast=True)  # after -m and -k have deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse experiments that cannot work here, and give each the user's time limit for every run of it, or none.

    The limit that the project's tests have would end a first run's builds, or a long timeline, on a slow machine.
    """
    experiments = [item for item in items if "experiment" in getattr(item, "fixturenames", ())]
    if experiments and not config.option.collectonly:
        _require_ready(config.stash[ASKED])
    limit, runs = config.getoption("timeout") or 0, config.stash[ASKED][0].repeat
    for item in items:
        if "experiment" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(limit * (runs + SPARE if runs else 1)))
        elif "matrix_session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(limit))


def _require_ready(asked: list[Options]) -> None:
    """Raise UsageError where runs of these options would fail before they record anything."""
    for options in asked:
        try:
            require_ready(options)
            SERVICES[options.service].from_options(options)
        except (RuntimeError, OSError) as wrong:
            raise pytest.UsageError(printable(str(wrong))) from None


@pytest.fixture
def experiment(request: pytest.FixtureRequest, options: Options) -> Callable[..., None]:
    """Run the experiment that the options describe under a test's name, and again as often as they ask.

    Too few valid runs fail the test, with the reasons of each void one.
    """
    config = request.config

    def run(test: str, **changes: Any) -> None:
        command_line = ["pytest", *config.invocation_params.args]
        asked, void, runs = options.replace(**changes), list[str](), 0
        if "qdisc_down" not in changes and (queue := config.stash.get(UNNAMED_QUEUE, "")):
            config.stash[UNNAMED_QUEUE] = ""
            with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
                config.pluginmanager.getplugin("terminalreporter").write_line(queue)
        if asked.engine != LOCAL and not asked.repeat:
            pytest.fail("--engine: one run is made on this machine; give --repeat=N, or leave --engine out", False)
        with real_terminal(config.pluginmanager.getplugin("capturemanager")) as terminal, one_line_failures():
            if asked.lab == "sim" and asked.repeat:
                results = repeat_side_by_side(test, asked, SERVICES, command_line, terminal)
            else:
                once = partial(perform, test, services=SERVICES, command_line=command_line, terminal=terminal)
                results = repeat(asked, once, terminal)
            with closing(results):  # what still runs ends now, not when the failure's traceback is dropped
                for result in results:
                    config.stash.setdefault(RESULTS, []).append(result)
                    runs += 1
                    void += [f"{result.path.name} is void: {'; '.join(result.void)}"] if result.void else []
        if runs - len(void) < (asked.repeat or 1):
            pytest.fail("\n".join(void), pytrace=False)

    return run


@contextmanager
def one_line_failures() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, lambda *_: None)  # what is left is pytest's own end, in a second
        pytest.exit(f"{stopped_by(stop)}; what was recorded is kept", pytest.ExitCode.INTERRUPTED)
    except (RuntimeError, OSError) as error:
        raise pytest.fail.Exception(f"{type(error).__name__}: {printable(str(error))}", pytrace=False) from None


def _summarised(results: list[Result]) -> Path:
    """Print what repeated runs say together; write it beside them and return where."""
    from sojourn.harness.report.repetitions import experiments, find_runs, write_summary
    from sojourn.harness.report.terminal import print_summary

    repeated = experiments(find_runs([result.path for result in results]))
    print_summary(repeated, Console())
    first = results[0].path
    return write_summary(repeated, first.with_name(f"{first.name}-summary"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the harm table of every run, or of all repetitions together, and where the evidence lies."""
    from sojourn.harness.report.index import write_index

    results = config.stash.get(RESULTS, [])
    repeated = config.stash[ASKED][0].repeat
    for result in results if not repeated else ():
        terminalreporter.section(f"{result.path.name}", sep="-")
        result.print(sys.stdout if not terminalreporter.hasmarkup else None)
    if results and repeated:
        try:
            config.stash.setdefault(REPORTS, []).append(_summarised(results))
        except (RuntimeError, OSError) as error:
            terminalreporter.write_line(f"no summary of the runs: {error}; `sojourn summary` makes it again", red=True)
    for folder in {result.path.parent for result in results}:
        try:
            config.stash.setdefault(REPORTS, []).append(write_index(folder))
        except (RuntimeError, OSError) as error:
            terminalreporter.write_line(f"no index: {error}; `sojourn report {folder}` makes it again", red=True)
    if len(results) > 1:
        print_services([(run.service, run.scores) for run in (load_run(result.path) for result in results)], Console())
    for line in config.stash.get(TOLD, []):
        terminalreporter.write_line(line)
    for report in config.stash.get(REPORTS, []):
        terminalreporter.write_line(f"report: {report}")
