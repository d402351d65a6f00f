# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from sojourn.harness.engine.lab import LabEngine


class Labs:
    """Makes labs that are numbers, and notes when each is up and down, and in which thread."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.threads: set[str] = set()

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        number = sum("up" in note for note in self.noted) + 1
        self._note(f"up {number}")
        yield number
        self._note(f"down {number}")

    def run(self, lab: Any, job: Any, folder: Path, stopped: Flag) -> None:
        self._note(f"{folder} in {lab}")
        if job == "fails":
            raise RuntimeError("no route")
        if job == "endless":
            assert stopped.wait(60)
            raise RuntimeError("stopped")

    def _note(self, text: str) -> None:
        self.noted.append(text)
        self.threads.add(threading.current_thread().name)


def test_jobs_share_a_lab_until_one_fails_all_in_one_thread() -> None:
    labs, ends = Labs(), []
    with LabEngine(labs, labs.run) as engine:
        assert (engine.free(0), engine.free(1), engine.events(0.01)) == (1, 0, [])
        for number, job in enumerate(["", "", "fails", ""]):
            engine.submit(job, Path(str(number)))  # type: ignore[arg-type]
            ends += engine.events(60)
    assert [tuple(end) for end in ends] == [
        (Path("0"), "ended", ""), (Path("1"), "ended", ""), (Path("2"), "ended", "RuntimeError: no route"),
        (Path("3"), "ended", ""),
    ]  # fmt: skip
    assert labs.noted == ["up 1", "0 in 1", "1 in 1", "2 in 1", "down 1", "up 2", "3 in 2", "down 2"]
    assert len(labs.threads) == 1


def test_leaving_the_engine_stops_its_job_and_undoes_the_lab() -> None:
    labs = Labs()
    with pytest.raises(KeyboardInterrupt), LabEngine(labs, labs.run) as engine:
        engine.submit("endless", Path("0"))  # type: ignore[arg-type]
        raise KeyboardInterrupt
    assert labs.noted == ["up 1", "0 in 1", "down 1"]


def test_the_first_failure_is_reported_before_that_of_undoing() -> None:
    class Breaks(Labs):
        @contextmanager
        def __call__(self) -> Iterator[Any]:
            try:
                yield 1
            finally:
                raise RuntimeError("broken pipe")

    labs = Breaks()
    with LabEngine(labs, labs.run) as engine:
        engine.submit("fails", Path("0"))  # type: ignore[arg-type]
        (end,) = engine.events(60)
    assert end[2] == "RuntimeError: no route; then RuntimeError: broken pipe"
