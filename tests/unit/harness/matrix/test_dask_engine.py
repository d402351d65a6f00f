# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from distributed.comm import CommClosedError

from harness.matrix import campaign, simulated_call
from harness.matrix.dask_engine import check_workers, packed, unpack
from harness.matrix.engine import EngineError
from tests.test_call_backoff import MATRIX


class Client:
    """A cluster of workers that answer as told."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def run(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self.answers


def test_a_worker_that_is_not_as_this_machine_is_refused_by_name() -> None:
    check_workers(Client(one="same", two="same"), "same", str)
    with pytest.raises(EngineError, match="--engine: worker two: its kernel, guest or Sojourn is not this machine's"):
        check_workers(Client(one="same", two="other"), "same", str)
    with pytest.raises(EngineError, match="--engine: worker one cannot run this: OSError: no space"):
        check_workers(Client(one=OSError("no space")), "same", str)


def test_a_worker_that_is_lost_as_it_is_asked_is_passed_over() -> None:
    check_workers(Client(one=CommClosedError("Stream is closed"), two="same"), "same", str)


def test_a_folder_comes_back_as_it_was(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "here" / "deep").mkdir()
    (tmp_path / "here" / "deep" / "file").write_bytes(bytes(range(256)) * 100)
    unpack(packed(tmp_path / "here"), tmp_path / "there")
    assert (tmp_path / "there" / "deep" / "file").read_bytes() == bytes(range(256)) * 100


def test_a_matrix_of_calls_is_made_by_workers_with_its_own_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(campaign, "_build", lambda *_: None)
    monkeypatch.setattr(simulated_call, "inputs", lambda source: f"machine of {source}")
    monkeypatch.setattr("harness.matrix.dask_engine.DaskEngine", lambda *given: given)
    plan = campaign.Campaign(MATRIX, MATRIX.cells[:4], (1,), tmp_path, "dask://far:8786", kernel_source=Path(__file__))
    jobs, engine = campaign.prepare(plan)
    machine = f"machine of {__file__}"
    address, inputs, digest = cast(tuple[str, str, Callable[[], str]], engine)
    assert (address, inputs, digest()) == ("dask://far:8786", machine, machine)
    assert {(job.inputs, job.run, job.endpoints) for job in jobs} == {(machine, simulated_call.run_cell, "iperf3")}
    assert {job.kernel_source for job in jobs} == {Path(__file__)}
