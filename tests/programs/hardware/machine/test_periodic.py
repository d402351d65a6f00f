# SPDX-License-Identifier: Apache-2.0
"""The sampler with a real process that answers, ends or falls silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sojourn.hardware.machine import periodic
from sojourn.hardware.machine.periodic import PeriodicSampler
from sojourn.hardware.machine.place import LOCAL


class Echo(PeriodicSampler):
    """Asks a shell script for one line at a time."""

    def sample(self) -> Iterator[bytes]:
        moment, answer = self.ask("hello", last=b"\n")
        yield b"%.3f %s" % (moment, answer)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_one_process_answers_all_samples(tmp_path: Path) -> None:
    output = tmp_path / "out"
    sampler = Echo(LOCAL, ["cat"], output, interval_s=0.05).start()
    wait_for(lambda: sampler.samples >= 10)
    sampler.stop()
    assert sampler.error is None
    rows = [line.split() for line in output.read_text().splitlines()]
    assert len(rows) == sampler.samples and {word for _, word in rows} == {"hello"}
    steps = [float(b[0]) - float(a[0]) for a, b in pairwise(rows)]
    assert 0.035 < sum(steps) / len(steps) < 0.5  # late on a busy machine, never early


def test_a_process_that_ends_leaves_its_reason_and_what_was_sampled(tmp_path: Path) -> None:
    script = "read l; echo $l; read l; echo the router is gone >&2; exit 3"
    sampler = Echo(LOCAL, ["sh", "-c", script], tmp_path / "out", interval_s=0.01).start()
    wait_for(lambda: sampler.error is not None)
    sampler.stop()
    assert "local: sh stopped answering: the router is gone" in str(sampler.error)
    assert len((tmp_path / "out").read_text().splitlines()) == sampler.samples == 1


def test_silence_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "_SILENCE_S", 0.3)
    sampler = Echo(LOCAL, ["sh", "-c", "read l; echo $l; exec sleep 60"], tmp_path / "out", 0.01).start()
    wait_for(lambda: sampler.error is not None)
    start = time.monotonic()
    sampler.stop()
    assert time.monotonic() - start < 30  # of the 60 that it sleeps
    assert "local: sh gave no answer for 0.3 s" in str(sampler.error)
