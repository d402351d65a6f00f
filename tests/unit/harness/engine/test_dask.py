# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from distributed.comm import CommClosedError
from rich.console import Console

from sojourn.hardware.kernel_build.sources import Sources
from sojourn.hardware.machine.errors import Code
from sojourn.harness.bundle.archive import verify
from sojourn.harness.engine import dask
from sojourn.harness.engine.dask import DaskEngine, check_workers, packed, unpack
from sojourn.harness.engine.job import EngineError, Event
from sojourn.harness.experiment.concurrent_runs import side_by_side
from sojourn.harness.experiment.run import new_run
from sojourn.harness.experiment.series import SeriesOfRuns
from sojourn.harness.matrix import matrix_plan
from sojourn.harness.matrix.cells import simulated_call
from sojourn.harness.matrix.from_scenario import scenario_matrix
from sojourn.scoring.schema.scores import Scores
from tests.programs.harness.experiment.seed_runs import Filled, asked, jobs
from tests.refusals import refusal


class Client:
    """A cluster of workers that answer as told."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def run(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self.answers


def test_a_worker_that_is_not_as_this_machine_is_refused_by_name() -> None:
    check_workers(Client(one="same", two="same"), "same", str)
    with refusal(EngineError, "other-version", "--engine: worker two: "):
        check_workers(Client(one="same", two="other"), "same", str)
    with refusal(EngineError, "failed", "--engine: worker one ", "OSError: no space"):
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


def archive(packing: int = zipfile.ZIP_DEFLATED, **files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", packing) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return content.getvalue()


WHOLE = archive(flows=bytes(range(256)) * 40)
LINK = zipfile.ZipInfo("link")
LINK.external_attr = 0o120777 << 16


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (None, ("damaged",)),
        (["flows.csv"], ("damaged",)),
        (b"", ("damaged",)),
        (b"\0" * 4096, ("damaged",)),
        (WHOLE[:-30], ("damaged",)),
        (WHOLE[:40] + bytes(40) + WHOLE[80:], ("damaged",)),
        (archive(**{"../out": b""}), ("outside", "'../out'")),
        (archive(**{"a/../../out": b""}), ("outside",)),
        (archive(**{"/tmp/out": b""}), ("outside",)),
        (archive(**{"..\\out": b""}), ("outside",)),
        (archive(zeros=bytes(20 << 20)), ("too-large", "1 files of 20 MB", " 10 MB")),
        (archive(**{f"{n}": b"" for n in range(60)}), ("too-large", "60 files of 0 MB")),
        (archive(zipfile.ZIP_LZMA, flows=b"x" * 99), ("unsupported",)),
        (archive(zipfile.ZIP_BZIP2, flows=b"x" * 99), ("unsupported",)),
    ],
)
def test_what_is_no_folder_of_a_run_is_refused(
    returned: object, why: tuple[Code, *tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "_MOST_BYTES", 10 << 20)
    monkeypatch.setattr(dask, "_MOST_FILES", 50)
    (tmp_path / "run").mkdir()
    with refusal(EngineError, *why, "a worker returned "):
        unpack(returned, tmp_path / "run")
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 1 << 20
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_link_in_an_archive_comes_as_a_file(tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        made.writestr(LINK, "/etc/passwd")
    unpack(content.getvalue(), tmp_path)
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "link").read_text() == "/etc/passwd"


def test_a_matrix_of_calls_is_made_by_workers_with_its_own_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(matrix_plan, "_build", lambda *_: None)
    monkeypatch.setattr(simulated_call, "inputs", lambda sources: f"machine of {sources.kernel}")
    monkeypatch.setattr("sojourn.harness.engine.dask.DaskEngine", lambda *given, **_: given)
    (scenario := tmp_path / "call.toml").write_text('service = "call"\ncontenders = "cubic,prague"\n')
    matrix = scenario_matrix(scenario)
    plan = matrix_plan.MatrixPlan(matrix, matrix.cells, (1,), tmp_path, "tls://far:8786", kernel_source=Path(__file__))
    jobs, engine = matrix_plan.prepare(plan)
    machine = f"machine of {__file__}"
    address, inputs, digest, needed = cast(tuple[str, str, Callable[[], str], int], engine)
    assert (address, inputs, digest(), needed) == ("tls://far:8786", machine, machine, 4 << 30)
    assert {(job.inputs, job.run, job.endpoints) for job in jobs} == {(machine, simulated_call.run_cell, "iperf3")}
    assert {job.sources for job in jobs} == {Sources(Path(__file__))}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a scheduler with one worker of one thread."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None
    ) as made:
        yield made.scheduler_address


def engine(address: str, digest: Callable[[], str] = str) -> DaskEngine:
    return DaskEngine(address, "", digest, 1)


def filled(folder: Path, scores: Scores, seed: int, **does: Any) -> Filled:
    return Filled(folder, scores, asked(folder / "results", 1, seed), **does)


def heard(engine: DaskEngine, job: Filled, folder: Path) -> list[Any]:
    """All that a job reports, which runs in a new `folder`."""
    folder.mkdir()
    events: list[Event] = []
    with engine:
        assert engine.free(0) == 1
        engine.submit(job, folder)
        while not any(event.kind == "ended" for event in events):
            events += engine.events(5)
    return [(event.kind, event.what) for event in events]


def test_what_a_job_leaves_comes_whole_after_what_it_reports(cluster: str, scores: Scores, tmp_path: Path) -> None:
    reports = [("versions", {"kernel build": "theirs"}), ("line", "a phase is over"), ("done", 5.0), ("ended", "")]
    assert heard(engine(cluster), filled(tmp_path, scores, 1), tmp_path / "run") == reports
    assert (tmp_path / "run" / "deep" / "evidence").read_text() == "recorded"


def test_what_a_job_that_fails_has_recorded_comes_too(cluster: str, scores: Scores, tmp_path: Path) -> None:
    reports = heard(engine(cluster), filled(tmp_path, scores, 2, failing=(2,)), tmp_path / "run")
    assert reports[-1] == ("ended", "RuntimeError: no route")
    assert (tmp_path / "run" / "deep" / "evidence").read_text() == "recorded"


def test_a_run_there_is_committed_here(cluster: str, scores: Scores, tmp_path: Path) -> None:
    series, job = SeriesOfRuns({"": asked(tmp_path / "results", 1)}), jobs(tmp_path, scores)
    create = partial(new_run, "video-harm", command_line=("pytest",))
    (result,) = side_by_side(series, engine(cluster), job, create, Console(file=io.StringIO()))
    assert result.scores == scores and (result.path / "deep" / "evidence").read_text() == "recorded"
    manifest = verify(result.path)
    assert (manifest.seed, manifest.test, manifest.versions) == (1, "video-harm", {"kernel build": "theirs"})
    assert [path.name for path in result.path.parent.iterdir()] == [manifest.run]


def test_a_job_that_is_given_up_here_ends_there(cluster: str, scores: Scores, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with engine(cluster) as left:
        left.submit(filled(tmp_path, scores, 3, endless=(3,)), tmp_path / "run")
        while not left.events(5):
            pass
    deadline = time.monotonic() + 20
    while not (tmp_path / "undone-3").exists():
        assert time.monotonic() < deadline, "the worker goes on"
        time.sleep(0.1)


def reports(*news: tuple[str, object]) -> list[Event]:
    """What an engine makes of what workers send of a job."""
    made = object.__new__(DaskEngine)
    made._running, made._begun = {Path("run"): SimpleNamespace(cancel=lambda: None)}, Counter()
    return [event for kind, what in news for event in made._read(Path("run"), kind, what)]


def test_a_job_is_begun_three_times_at_most() -> None:
    begun = [("begun", f"tcp://{n}") for n in range(4)]
    again = "its worker was lost; begun again by tcp://"
    assert [event[1:] for event in reports(*begun[:3])] == [("line", f"{again}1"), ("line", f"{again}2")]
    assert reports(*begun)[-1][1:] == ("ended", "its worker was lost 3 times")


def test_what_a_worker_sends_that_is_no_report_is_passed_over() -> None:
    odd = [("line", 1), ("line", None), ("done", "1"), ("versions", ["a"]), ("ended", ""), ("begun", 1), ("x", "y")]
    assert reports(*odd) == []
    assert reports(("line", "\x1b[2J"), ("versions", {"a": "\x07"})) == [
        (Path("run"), "line", "\\x1b[2J"), (Path("run"), "versions", {"a": "\\x07"}),
    ]  # fmt: skip


def test_a_worker_that_joined_later_with_other_sources_is_refused(cluster: str, scores: Scores, tmp_path: Path) -> None:
    made = engine(cluster)
    made._digest = lambda: "theirs"
    (*_, end) = heard(made, filled(tmp_path, scores, 1), tmp_path / "run")
    assert end[1].startswith("EngineError: this worker: its kernel, guest or Sojourn differs")
    assert not (tmp_path / "begun-1").exists()
