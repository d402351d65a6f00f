# SPDX-License-Identifier: Apache-2.0
"""The runner: runs in parallel, kept ones, several runners on one folder, failures, and what a killed one leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.matrix.cells.cell_run import CellJob, cache_state, perform, rescore, write_scores
from sojourn.harness.matrix.cells.simulated import CAPTURES
from sojourn.harness.matrix.complete import INTERRUPTED, JobOutcome, complete
from sojourn.harness.matrix.matrix import Matrix
from sojourn.harness.matrix.results import results, run_folder
from sojourn.harness.store.claim import claim
from sojourn.harness.store.manifest import REPORT, read_manifest, reseal, store_derived
from sojourn.scoring.schema.scores import SCORES
from sojourn.traffic.program import FOREIGN, PROGRAMS, Program
from sojourn.traffic.spec import Flow
from sojourn.traffic.user_program import UserProgram
from tests.processes import outliving
from tests.unit.harness.matrix.cell_runs import cell, engine, job


def run_all(jobs: list[CellJob], folder: Path, workers: int = 2, again: bool = False) -> dict[str, JobOutcome]:
    return {f"{it.job.cell.name} {it.job.seed}": it for it in complete(jobs, engine(workers), folder, again=again)}


def made(folder: Path) -> list[str]:
    return sorted((folder / "made").read_text().splitlines())


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_runs_are_scored_and_described(tmp_path: Path) -> None:
    jobs = [job("a", 1), job("a", 2), job("b")]
    outcomes = run_all(jobs, tmp_path)
    assert {it.status for it in outcomes.values()} == {"ran"} and len(outcomes) == 3
    for it in jobs:
        folder = run_folder(tmp_path, it.cell, it.seed)
        scores, manifest = json.loads((folder / SCORES).read_text()), read_manifest(folder)
        # seed · 10⁵ bytes each 0.1 s
        assert scores["flows"][0]["d_ss_mbps"] == pytest.approx(8 * it.seed)
        assert (manifest.cell, manifest.seed, manifest.status) == (it.cell.name, it.seed, "valid")
        assert manifest.cache and manifest.cache.inputs == "one" and manifest.command_line == sys.argv
        assert sorted(manifest.files) == ["cell.json", "flows.csv", SCORES] and manifest.required == ["flows.csv"]
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize(
    ("recorded", "down"),
    [
        ("t_s,talk,delay_us,bytes\n1,0,,1000\n", {"mbps": 0, "loss": 1, "p50_ms": "Infinity", "p99_ms": "Infinity"}),
        ("t_s,talk,bytes\n1,0,1000\n", {"mbps": pytest.approx(0.0016)}),
    ],
)
def test_a_call_that_lost_all_is_not_one_whose_delays_were_not_recorded(
    tmp_path: Path, recorded: str, down: dict[str, object]
) -> None:
    (tmp_path / "talks.csv").write_text(recorded)
    write_scores(job("a"), tmp_path)
    assert json.loads((tmp_path / SCORES).read_text())["call"] == [down, {"mbps": 0}]


def test_a_run_is_stale_when_a_program_of_another_package_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(text: str) -> CellJob:
        executable = tmp_path / f"copa-{text}"
        executable.write_text(text)
        program = Program("copa", "{program}", "{program}", lambda: executable)
        for known in (FOREIGN, PROGRAMS):
            monkeypatch.setitem(cast(dict[str, Program], known), "copa", program)
        flows = [Flow(contender="copa", rtt_us=0)]
        asked = Cell.model_validate(cell("a").model_copy(update={"flows": flows, "per_packet": True}))
        return replace(job("a"), cell=asked)

    wanted, folder = installed("1.0"), tmp_path / "matrix" / "run"
    folder.mkdir(parents=True)
    perform(wanted, folder)
    assert cache_state(wanted, folder) == "done"
    assert cache_state(installed("1.1"), folder) == "stale"
    assert cache_state(installed("1.0"), folder) == "done"


def test_a_run_is_stale_when_a_program_of_the_users_has_changed_and_names_it_in_its_manifest(tmp_path: Path) -> None:
    def brought(seal: str) -> CellJob:
        program = UserProgram(
            name="program_mine", server="./mine {port}", client="./mine {port}", sender="client", files={"mine": seal}
        )
        other = program.model_copy(update={"name": "program_other", "files": {"mine": seal * 2}})
        flows = [Flow(contender="program_mine", rtt_us=0)]
        asked = Cell.model_validate(cell("a").model_copy(update={"flows": flows}))
        return replace(job("a"), cell=asked, programs=(program, other))

    first, folder = brought("12+x"), tmp_path / "matrix" / "run"
    folder.mkdir(parents=True)
    perform(first, folder)
    assert cache_state(first, folder) == "done"
    assert cache_state(brought("34+x"), folder) == "stale"
    manifest = json.loads((folder / "manifest.json").read_text())
    digest = first.programs[0].digest
    assert manifest["cache"]["programs"] == {"program_mine": digest}
    versions = {name: text for name, text in manifest["versions"].items() if name.startswith("program")}
    assert versions == {"program mine": digest, "program mine: mine": "12"}
    made_of = json.loads((folder / "cell.json").read_text())["user_programs"]
    assert [UserProgram.model_validate(it) for it in made_of] == [first.programs[0]]
    matrix = Matrix(name="m", title="m", cells=(first.cell,), window_s=first.window_s, tail_s=first.tail_s)
    kept = run_folder(tmp_path / "m", first.cell, first.seed)
    kept.parent.mkdir(parents=True)
    folder.rename(kept)
    counts = [
        (len(found.runs.get("a", {})), found.left_out)
        for programs in (first.programs, ())
        if (found := results(matrix, tmp_path / "m", first.inputs, programs))
    ]
    assert counts == [(1, 0), (0, 1)]


def test_what_is_finished_is_kept_until_its_inputs_change(tmp_path: Path) -> None:
    run_all([job("a"), job("b")], tmp_path)
    assert {it.status for it in run_all([job("a"), job("b"), job("c")], tmp_path).values()} == {"kept", "ran"}
    assert len(made(tmp_path)) == 3
    assert run_all([job("a", inputs="two")], tmp_path)["a 1"].status == "ran"
    assert run_all([job("a", inputs="two")], tmp_path, again=True)["a 1"].status == "ran"
    assert len(made(tmp_path)) == 5
    assert not list(tmp_path.rglob("*.old"))


def test_a_finished_run_without_captures_is_made_again_where_they_are_asked_for(tmp_path: Path) -> None:
    (first,) = run_all([job("a")], tmp_path).values()
    assert cache_state(job("a", pcap=True), first.folder) == "stale"
    for name in CAPTURES:
        (first.folder / name).touch()
    assert cache_state(job("a", pcap=True), first.folder) == cache_state(job("a"), first.folder) == "done"


def test_other_parameters_of_the_scoring_renew_the_scores_only(tmp_path: Path) -> None:
    (whole,) = run_all([job("a")], tmp_path).values()
    page = store_derived(whole.folder, REPORT, b"the former scores")
    assert run_all([job("a", window_s=1)], tmp_path)["a 1"].status == "kept"
    assert len(made(tmp_path)) == 1
    folder = run_folder(tmp_path, job("a").cell, 1)
    assert json.loads((folder / SCORES).read_text())["window_s"] == [3.0, 4.0]
    assert not page.exists() and page.name not in read_manifest(folder).files


@pytest.mark.parametrize(("name", "status", "runs"), [(SCORES, "kept", 1), ("flows.csv", "ran", 2)])
def test_what_was_changed_since_is_no_result(tmp_path: Path, name: str, status: str, runs: int) -> None:
    """Scores are made again from the raw files, and those by another run."""
    (whole,) = run_all([job("a")], tmp_path).values()
    before = (whole.folder / SCORES).read_text()
    (whole.folder / name).write_text((whole.folder / name).read_text().replace("8", "9"))
    assert cache_state(job("a"), whole.folder) in ("unscored", "stale")
    assert run_all([job("a")], tmp_path)["a 1"].status == status
    assert len(made(tmp_path)) == runs and (whole.folder / SCORES).read_text() == before
    assert cache_state(job("a"), whole.folder) == "done"


def test_a_failure_is_told_kept_and_tried_again_while_the_others_run(tmp_path: Path) -> None:
    jobs = [job("fails"), job("a"), job("b")]
    outcomes = run_all(jobs, tmp_path)
    assert [outcomes[name].status for name in ("fails 1", "a 1", "b 1")] == ["failed", "ran", "ran"]
    failed = outcomes["fails 1"]
    assert failed.error == "RuntimeError: the guest fell over"
    assert (failed.folder / "err").read_text() == "what the guest said last\n"
    assert run_all(jobs, tmp_path)["fails 1"].status == "failed"
    assert len(made(tmp_path)) == 4


def test_a_worker_that_dies_takes_only_its_own_run_along(tmp_path: Path) -> None:
    outcomes = run_all([job("dies"), *(job("a", seed) for seed in range(1, 7))], tmp_path)
    assert outcomes["dies 1"].status == "failed" and "died 3 times" in outcomes["dies 1"].error
    assert sum(it.status == "ran" for it in outcomes.values()) == 6


def test_a_run_next_to_one_that_kills_its_worker_goes_on_and_that_one_has_its_last_try_alone(tmp_path: Path) -> None:
    outcomes = run_all([job("slow"), job("dies"), job("a")], tmp_path)
    assert {name: it.status for name, it in outcomes.items()} == {"slow 1": "ran", "dies 1": "failed", "a 1": "ran"}
    begun = (tmp_path / "made").read_text().splitlines()
    assert begun.count("slow 1") == 1 and begun.count("dies 1") == 3
    assert list(outcomes).index("slow 1") < list(outcomes).index("dies 1")
    assert not list(tmp_path.rglob("*.partial"))


def test_scores_that_cannot_be_renewed_fail_their_run_and_no_other(tmp_path: Path) -> None:
    run_all([job("a"), job("b")], tmp_path)
    damaged = run_folder(tmp_path, job("a").cell, 1)
    (damaged / "flows.csv").write_text("t_s\nx,y\n")
    reseal(damaged, "flows.csv")  # as if it was recorded so
    outcomes = run_all([job("a", window_s=1), job("b", window_s=1), job("c")], tmp_path)
    assert {name: it.status for name, it in outcomes.items()} == {"a 1": "failed", "b 1": "kept", "c 1": "ran"}
    assert "cannot be rescored" in outcomes["a 1"].error
    assert run_all([job("a", window_s=1)], tmp_path, again=True)["a 1"].status == "ran"


@pytest.mark.timeout(60)
def test_a_claimed_run_that_another_scorer_scored_is_scored_here(tmp_path: Path) -> None:
    """The runner holds the lock of the folder that it collects: waiting for that lock would be waiting for itself."""
    asked, final = job("a"), tmp_path / "m" / "a" / "seed-1"
    claimed = claim(final)
    assert claimed
    perform(replace(asked, tail_s=0), claimed.folder)
    assert cache_state(asked, claimed.folder) == "unscored"
    rescore(asked, claimed.folder)
    assert cache_state(asked, claimed.commit()) == "done"


def test_scores_are_renewed_under_the_claim(tmp_path: Path) -> None:
    run_all([job("a")], tmp_path)
    folder = run_folder(tmp_path, job("a").cell, 1)
    other = claim(folder)
    assert other
    running = complete([job("a", window_s=1), job("b")], engine(), tmp_path)
    assert next(running).job.cell.name == "b", "the other runner has it"
    assert json.loads((folder / SCORES).read_text())["window_s"] == [2.0, 4.0]
    other.release()
    assert [it.status for it in running] == ["kept"]
    assert json.loads((folder / SCORES).read_text())["window_s"] == [3.0, 4.0]


def test_a_run_that_is_given_up_leaves_no_process_and_nothing_partial(tmp_path: Path) -> None:
    running = complete([job("a"), job("blocks")], engine(), tmp_path)
    assert next(running).status == "ran"
    until(lambda: (tmp_path / "guest").exists() and len((tmp_path / "guest").read_text().split()) == 2)
    running.close()
    assert not outliving(int(pid) for pid in (tmp_path / "guest").read_text().split())
    assert not list(tmp_path.rglob("*.partial"))
    assert run_folder(tmp_path, job("a").cell, 1).exists()


def test_a_run_in_real_time_that_is_given_up_stays_as_a_failed_one(tmp_path: Path) -> None:
    running = complete([job("a"), job("blocks")], engine(), tmp_path, keep=True)
    assert next(running).status == "ran"
    until(lambda: (tmp_path / "guest").exists())
    (folder,) = tmp_path.rglob("*.partial")
    (folder / "evidence").write_text("what was recorded")
    running.close()
    kept = folder.with_suffix(".failed")
    assert (kept / "evidence").read_text() == "what was recorded"
    assert (kept / "error.txt").read_text() == f"{INTERRUPTED}\n" and not folder.exists()


def test_a_run_given_up_before_anything_was_recorded_leaves_the_failed_one_there(tmp_path: Path) -> None:
    class Starting(nullcontext[None]):
        def free(self, running: int) -> int:
            return 1 - running

        def submit(self, *_: object) -> None: ...

        def events(self, _timeout_s: float) -> NoReturn:
            raise KeyboardInterrupt

    earlier = claim(run_folder(tmp_path, job("a").cell, 1))
    assert earlier and (failed := earlier.fail("fell over"))
    with pytest.raises(KeyboardInterrupt):
        next(complete([job("a")], Starting(), tmp_path, keep=True))  # type: ignore[arg-type]
    assert (failed / "error.txt").read_text() == "fell over\n" and not list(tmp_path.rglob("*.partial"))


def runner(folder: Path, *names: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.unit.harness.matrix.cell_runs", str(folder), *names]
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)


def test_two_runners_share_the_work(tmp_path: Path) -> None:
    first = runner(tmp_path, "blocks", "a", "b")
    until(lambda: (tmp_path / "guest").exists())
    seen = [
        (tmp_path / "go").touch() if it.job.cell.name == "c" else it
        for it in complete([job(name) for name in ("blocks", "a", "b", "c")], engine(), tmp_path)
    ]
    assert len(seen) == 4
    told, _ = first.communicate(timeout=120)
    assert first.returncode == 0 and len(told.splitlines()) == 3
    assert [line.split()[0] for line in made(tmp_path)] == ["a", "b", "blocks", "c"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_work_of_a_killed_runner_is_taken_over(tmp_path: Path, how: signal.Signals) -> None:
    first = runner(tmp_path, "a", "blocks")
    assert first.stdout and first.stdout.readline() == "a ran\n"
    until(lambda: (tmp_path / "guest").exists() and len((tmp_path / "guest").read_text().split()) == 2)
    pids = [int(pid) for pid in (tmp_path / "guest").read_text().split()]
    first.send_signal(how)
    first.communicate(timeout=120)
    assert not outliving(pids)
    assert bool(list(tmp_path.rglob("*.partial"))) == (how == signal.SIGKILL)
    (tmp_path / "go").touch()
    outcomes = run_all([job("a"), job("blocks")], tmp_path)
    assert [outcomes[name].status for name in ("a 1", "blocks 1")] == ["kept", "ran"]
    assert not list(tmp_path.rglob("*.partial"))


def test_a_claim_is_exclusive_while_its_holder_lives(tmp_path: Path) -> None:
    mine = claim(tmp_path / "run")
    assert mine and claim(tmp_path / "run") is None
    (mine.folder / "file").write_text("text")
    assert (mine.commit() / "file").read_text() == "text"
    second = claim(tmp_path / "run")
    assert second and second.fail("fell over").exists() and (tmp_path / "run.failed").exists()
    third = claim(tmp_path / "run")
    assert third and third.commit().exists() and not (tmp_path / "run.failed").exists()
    fourth = claim(tmp_path / "run")
    assert fourth
    fourth.release()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
