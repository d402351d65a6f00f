# SPDX-License-Identifier: Apache-2.0
"""The runs of one command line: which are made, what is printed at the end, and what a user reads once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sojourn.apps import SERVICES
from sojourn.harness.experiment import session as module
from sojourn.harness.experiment.run import Result
from sojourn.harness.experiment.session import ExperimentSession, TooFewValidError
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import OPTIONS, Options
from sojourn.harness.report.published_tables import published_services
from sojourn.scoring.schema.scores import Scores


def of(folder: Path, environment: Mapping[str, str] | None = None, **given: Any) -> ExperimentSession:
    named = {option.name: None for option in OPTIONS} | {name.replace("_", "-"): it for name, it in given.items()}
    return ExperimentSession.from_command_line(named, ["sojourn", "harm"], folder, environment or {})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, scores: Scores, tmp_path: Path) -> list[tuple[str, Options, Any]]:
    """The runs that a session makes, each void where `REASONS` has its seed: way, options, command line."""
    runs: list[tuple[str, Options, Any]] = []

    def result(way: str, options: Options, command_line: Any) -> Result:
        runs.append((way, options, command_line))
        path = tmp_path / f"run-{len(runs)}"
        return Result(path, scores, ("too late",) if options.seed in VOID else ())

    def side_by_side(test: str, options: Options, command_line: Any, *_further: Any) -> Iterator[Result]:
        for number in range(1, (options.repeat or 1) + 1):
            yield result("side by side", options.repetition(number), command_line)

    def perform(test: str, options: Options, command_line: Any, **_: Any) -> Result:
        return result("alone", options, command_line)

    monkeypatch.setattr(module, "repeat_side_by_side", side_by_side)
    monkeypatch.setattr(module, "perform", perform)
    return runs


#: Seeds whose runs are void.
VOID = (666, 667)


def test_one_service_or_every_published_one_by_its_published_options(tmp_path: Path) -> None:
    (one,) = of(tmp_path, service="call", rate="20mbit").requested
    assert (one.service, one.rate_down_bps) == ("call", 20_000_000)
    every = of(tmp_path, service="all", rtt="30ms").requested
    assert [each.service for each in every] == list(published_services())
    assert all(each.rtt_us == 30_000 and each.phases[0].seconds == 60 for each in every)
    with pytest.raises(OptionsError, match="--service"):
        of(tmp_path, service="nosuch")


@pytest.mark.parametrize(
    ("given", "environment", "printed"),
    [
        ({}, {}, True),
        ({"service": "all"}, {}, True),
        ({"qdisc": "fq_codel flows 1"}, {}, False),
        ({}, {"SOJOURN_QDISC": "dualpi2"}, False),
        ({"lab": "black-box"}, {}, False),
    ],
)
def test_the_default_queue_is_named_once_where_nobody_named_one(
    tmp_path: Path, given: dict[str, str], environment: dict[str, str], printed: bool
) -> None:
    session = of(tmp_path, environment, **given)
    assert bool(session.take_unnamed_queue()) == printed and session.take_unnamed_queue() == ""


@pytest.mark.parametrize(
    ("timeline", "noted"), [("solo:20", True), ("solo:5,solo:5", True), ("solo:20,cubic:20", False), ("short", False)]
)
def test_a_timeline_without_a_contender_is_noted_before_anything_starts(
    tmp_path: Path, timeline: str, noted: bool
) -> None:
    opening = of(tmp_path, timeline=timeline).opening
    assert ["no contender competes" in line and "no harm" in line for line in opening] == [True] * noted


def test_a_page_is_written_though_the_reader_of_the_tables_has_gone(
    tmp_path: Path, made: list[tuple[str, Options, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, written = of(tmp_path, results=str(tmp_path)), list[Path]()
    session.run(session.requested[0], StringIO())
    monkeypatch.setattr("sojourn.harness.report.index.write_index", lambda folder: written.append(folder) or folder)

    class Closed(StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    with pytest.raises((BrokenPipeError, SystemExit)):
        session.finish(Console(file=Closed()))
    assert written == [tmp_path]


def test_repetitions_in_simulated_time_go_side_by_side_and_others_in_turn(
    tmp_path: Path, made: list[tuple[str, Options, Any]]
) -> None:
    for given, ways in (
        ({}, ["alone"]),
        ({"repeat": "3"}, ["side by side"] * 3),
        ({"repeat": "2", "lab": "virtual"}, ["alone"] * 2),
    ):
        made.clear()
        session = of(tmp_path, results=str(tmp_path), **given)
        session.run(session.requested[0], StringIO())
        assert [way for way, _, _ in made] == ways
        assert [options.seed for _, options, _ in made] == [*range(1, len(ways) + 1)]
        assert len(session.results) == len(ways)
        assert {tuple(typed) for _, _, typed in made} == {("sojourn", "harm")}


def test_too_few_valid_runs_name_each_invalid_one_and_keep_all(
    tmp_path: Path, made: list[tuple[str, Options, Any]]
) -> None:
    session = of(tmp_path, seed="666", results=str(tmp_path))
    with pytest.raises(TooFewValidError) as few:
        session.run(session.requested[0], StringIO())
    assert str(few.value) == "run-1 is invalid: too late" and [it.path.name for it in session.results] == ["run-1"]
    session = of(tmp_path, seed="665", repeat="3", results=str(tmp_path))
    with pytest.raises(TooFewValidError) as few:
        session.run(session.requested[0], StringIO())
    assert str(few.value).splitlines() == ["run-3 is invalid: too late", "run-4 is invalid: too late"]
    assert len(session.results) == 3


def test_one_run_needs_no_cluster(tmp_path: Path, made: list[tuple[str, Options, Any]]) -> None:
    session = of(tmp_path, engine="tls://nowhere:1")
    with pytest.raises(OptionsError) as refused:
        session.run(session.requested[0], StringIO())
    assert refused.value.option == "engine" and made == []


def test_at_the_end_every_run_has_its_tables_and_each_folder_an_index(
    tmp_path: Path, made: list[tuple[str, Options, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("sojourn.cache"), "handlers", [])  # those of the session that runs this test
    session = of(tmp_path, results=str(tmp_path))
    with session:
        session.run(session.requested[0], StringIO())
        for _build in range(2):
            logging.getLogger("sojourn.cache").warning("kernel: built again")
    monkeypatch.setattr("sojourn.harness.report.index.write_index", lambda folder: folder / "index.html")
    session.finish(Console(file=(page := StringIO()), width=80))
    lines = page.getvalue().splitlines()
    assert "run-1" in lines[0] and "720" in page.getvalue()
    assert lines.count("kernel: built again") == 1
    assert lines[-2:] == ["kernel: built again", f"report: {tmp_path / 'index.html'}"]


def test_what_cannot_be_written_at_the_end_is_named_with_the_command_that_writes_it(
    tmp_path: Path, made: list[tuple[str, Options, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = of(tmp_path, results=str(tmp_path))
    session.run(session.requested[0], StringIO())

    def full(folder: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sojourn.harness.report.index.write_index", full)
    session.finish(Console(file=(page := StringIO()), width=80))
    last = page.getvalue().splitlines()[-1]
    assert "No space left" in last and f"`sojourn report {tmp_path}`" in last and session.reports == []


def test_readiness_is_checked_for_every_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr(module, "require_ready", lambda options: checked.append(options.service))
    session = of(tmp_path, service="all")
    session.require_ready()
    assert checked == [each.service for each in session.requested] and set(checked) <= set(SERVICES)
