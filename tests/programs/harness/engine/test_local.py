# SPDX-License-Identifier: Apache-2.0
"""Jobs in worker processes: what they report, failures, deaths, and how many run side by side."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sojourn.hardware.machine.cores import Lease
from sojourn.harness.engine.job import Channel, EngineError
from sojourn.harness.engine.local import LocalEngine, capacity
from tests.refusals import refusal

_BYTES = 1 << 20


@dataclass(frozen=True)
class Stub:
    """A job that does what its word says, and leaves the number of its process."""

    word: str = ""

    def __call__(self, folder: Path, channel: Channel) -> None:
        (folder / "process").write_text(str(os.getpid()))
        channel.line("begun")
        channel.done(1.5)
        channel.versions({"kernel": "7.2"})
        if self.word == "fails":
            raise RuntimeError("no route")
        if self.word == "breaks":
            raise KeyError("what")
        if self.word == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        while self.word == "endless":
            time.sleep(0.05)


def folders(tmp_path: Path, count: int) -> list[Path]:
    made = [tmp_path / str(n) for n in range(count)]
    for folder in made:
        folder.mkdir()
    return made


def heard(engine: LocalEngine) -> list[tuple[Any, ...]]:
    """All that jobs report until one of them has ended."""
    events: list[Any] = []
    deadline = time.monotonic() + 60
    while not any(event.kind == "ended" for event in events):
        assert time.monotonic() < deadline
        events += engine.events(0.5)
    return [(event.folder.name, event.kind, event.what) for event in events]


def process(folder: Path) -> int:
    return int((folder / "process").read_text())


def test_what_a_job_reports_comes_in_order_and_its_end_last(tmp_path: Path) -> None:
    (folder,) = folders(tmp_path, 1)
    with LocalEngine(_BYTES, 1) as engine:
        engine.submit(Stub(), folder)
        reports = [("line", "begun"), ("done", 1.5), ("versions", {"kernel": "7.2"}), ("ended", "")]
        assert heard(engine) == [("0", *report) for report in reports]


def test_a_worker_takes_the_next_job_also_after_one_that_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made, ends = folders(tmp_path, 3), []
    with LocalEngine(_BYTES, 1) as engine:
        for folder, word in zip(made, ("fails", "breaks", ""), strict=True):
            engine.submit(Stub(word), folder)
            ends.append(heard(engine)[-1][2])
    assert ends == ["RuntimeError: no route", "KeyError: 'what'", ""]
    assert len({process(folder) for folder in made}) == 1
    printed = capfd.readouterr().err
    assert printed.count("Traceback") == 1 and "no route" not in printed, "a traceback of what no job should raise"


@pytest.mark.parametrize(("tries", "says"), [(1, "its process ended with -9"), (3, "its process died 3 times")])
def test_a_job_whose_worker_dies_is_begun_up_to_its_tries(tmp_path: Path, tries: int, says: str) -> None:
    (folder,) = folders(tmp_path, 1)
    with LocalEngine(_BYTES, 2, tries) as engine:
        engine.submit(Stub("dies"), folder)
        reports = heard(engine)
    assert reports[-1][2].startswith(says) and "(out of memory? killed?)" in reports[-1][2]
    assert reports.count(("0", "line", "begun")) == tries


def test_a_worker_that_is_killed_between_jobs_costs_a_try(tmp_path: Path) -> None:
    made = folders(tmp_path, 2)
    with LocalEngine(_BYTES, 1, tries=2) as engine:
        engine.submit(Stub(), made[0])
        heard(engine)
        os.kill(process(made[0]), signal.SIGKILL)
        engine.submit(Stub(), made[1])
        assert heard(engine)[-1] == ("1", "ended", "")


def test_a_worker_that_begins_after_the_code_has_changed_ends_the_command(tmp_path: Path) -> None:
    """One that has begun before goes on: its code is as old as the command."""
    made, digest = folders(tmp_path, 3), tmp_path / "digest"
    digest.write_text("before")
    with LocalEngine(_BYTES, 1, 2, inputs="before", digest=digest.read_text) as engine:
        engine.submit(Stub(), made[0])
        assert heard(engine)[-1] == ("0", "ended", "")
        digest.write_text("after")
        engine.submit(Stub(), made[1])
        assert heard(engine)[-1] == ("1", "ended", "")
        os.kill(process(made[1]), signal.SIGKILL)
        engine.submit(Stub(), made[2])
        with refusal(EngineError, "other-version", "the code, kernel or guest has changed since this command began"):
            heard(engine)
    assert not (made[2] / "process").exists()


def test_leaving_the_engine_ends_its_jobs(tmp_path: Path) -> None:
    made = folders(tmp_path, 2)
    with LocalEngine(_BYTES, 2) as engine:
        engine.submit(Stub(), made[0])
        heard(engine)
        engine.submit(Stub("endless"), made[1])
        while not engine.events(0.5):
            pass
    for folder in made:
        with pytest.raises(ProcessLookupError):
            os.kill(process(folder), 0)


@pytest.mark.parametrize(
    ("processors", "fitting", "requested", "jobs"),
    [(4, 100, None, 4), (4, 100, 6, 6), (4, 2, None, 2), (5, 3, None, 3), (8, 0, None, 1), (1, 9, None, 1)],
)
def test_jobs_are_as_many_as_processors_and_memory_allow(
    processors: int, fitting: int, requested: int | None, jobs: int
) -> None:
    assert capacity(processors, fitting, requested) == jobs


def test_no_job_begins_while_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LocalEngine(_BYTES, 2)
    assert (engine.free(0), engine.free(1), engine.free(2)) == (2, 1, 0)
    monkeypatch.setattr("sojourn.harness.engine.local.free_bytes", lambda _: _BYTES - 1)
    assert (engine.free(0), engine.free(1)) == (2, 0)
    with refusal(EngineError, "no-memory", "1 MB", "0 MB"):
        LocalEngine(_BYTES)


def test_processors_are_leased_to_one_at_a_time_and_then_shared_evenly() -> None:
    both = [1000, 1001]
    with Lease(both) as first, Lease(both) as second:
        assert (first, second) == (1000, 1001)
        with Lease(both) as third, Lease(both) as fourth:
            assert (third, fourth) == (1000, 1001)
    with Lease(both) as again:
        assert again == 1000
