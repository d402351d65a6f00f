# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps import SERVICES
from sojourn.harness.bundle.archive import verify
from sojourn.harness.experiment import dask_seeds
from sojourn.harness.experiment.dask_seeds import DaskRun, News, Simulation
from sojourn.harness.lab.machine import SimulatedError
from sojourn.harness.matrix.engines.engine import EngineError
from sojourn.harness.options.model import Options
from sojourn.harness.store.manifest import PARTIAL, read_manifest
from sojourn.harness.store.runs import RunDirectory
from sojourn.scoring.schema.scores import SCORES, Scores
from tests.programs.harness.experiment.seed_runs import asked


@dataclass(frozen=True)
class Filled:
    """Fills a run's directory as its seed says: 1 ends well, 2 fails, 3 goes on until nobody wants it."""

    folder: Path
    scores: Scores

    def __call__(self, asked: Options, run: RunDirectory, tell: Any) -> Scores:
        (run.path / "deep").mkdir()
        (run.path / "deep" / "evidence").write_text("recorded")
        phase = {"name": "solo", "contender": None, "start": 100.0, "end": 120.0}
        lab = {"rtt_ms": 20, "rate_down_bps": 1e7, "qdisc_down": "fq_codel", "qdisc_up": "fq_codel", "clip": {}}
        (run.path / "timeline.json").write_text(json.dumps({"phases": [phase]}))
        (run.path / "lab.json").write_text(json.dumps(lab))
        run.add_versions({"kernel build": "theirs"})
        try:
            tell("line", "a phase is over")
            tell("done", 2.0)
            if asked.seed == 2:
                raise SimulatedError("the machine hangs")
            while asked.seed == 3:
                run.check_space()
                time.sleep(0.05)
        finally:
            (self.folder / f"undone-{asked.seed}").touch()
        (run.path / SCORES).write_text(self.scores.model_dump_json())
        return self.scores


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a scheduler with one worker of one thread."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None
    ) as made:
        yield made.scheduler_address


def one(folder: Path, seed: int) -> Options:
    return asked(folder / "results", 1, seed)


def test_evidence_comes_whole_and_is_committed_here(cluster: str, scores: Scores, tmp_path: Path) -> None:
    heard: list[Any] = []
    job = DaskRun("video-harm", ("pytest",), cluster, Filled(tmp_path, scores))
    result = job(one(tmp_path, 1), lambda *told: heard.append(told))
    assert heard == [("line", "a phase is over"), ("done", 2.0)]
    assert (result.path / "deep" / "evidence").read_text() == "recorded" and result.scores == scores
    manifest = verify(result.path)
    assert (manifest.seed, manifest.test, manifest.versions) == (1, "video-harm", {"kernel build": "theirs"})
    assert [path.name for path in result.path.parent.iterdir()] == [manifest.run]


def test_what_a_run_that_fails_has_recorded_comes_too(cluster: str, scores: Scores, tmp_path: Path) -> None:
    with pytest.raises(SimulatedError, match="the machine hangs"):
        DaskRun("t", (), cluster, Filled(tmp_path, scores))(one(tmp_path, 2), lambda *_: None)
    (run,) = (tmp_path / "results").iterdir()
    assert run.suffix == PARTIAL and (run / "deep" / "evidence").read_text() == "recorded"
    assert read_manifest(run).reasons == ["SimulatedError: the machine hangs"]


def test_a_run_that_is_given_up_here_ends_there(cluster: str, scores: Scores, tmp_path: Path) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DaskRun("t", (), cluster, Filled(tmp_path, scores))(one(tmp_path, 3), interrupt)
    deadline = time.monotonic() + 20
    while not (tmp_path / "undone-3").exists():
        assert time.monotonic() < deadline, "the worker goes on"
        time.sleep(0.1)


def follow(*news: News) -> list[Any]:
    coming, heard = queue.SimpleQueue[News](), list[Any]()
    for told in news:
        coming.put(told)
    dask_seeds._follow(None, coming, lambda *told: heard.append(told))
    return heard


def test_a_run_is_begun_three_times_at_most() -> None:
    begun: list[News] = [("begun", f"tcp://{n}") for n in range(4)]
    again = "its worker was lost; begun again by tcp://"
    assert follow(*begun[:3], ("over", None)) == [("line", f"{again}1"), ("line", f"{again}2")]
    with pytest.raises(SimulatedError, match="its worker was lost 3 times"):
        follow(*begun, ("over", None))


def test_a_worker_that_joined_later_with_other_sources_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dask_seeds, "inputs", lambda *_: "theirs")
    with pytest.raises(EngineError, match="this worker: its kernel, guest or Sojourn is not"):
        Simulation(SERVICES["youtube"], "ours")(one(tmp_path, 1), None, lambda *_: None)  # type: ignore[arg-type]
