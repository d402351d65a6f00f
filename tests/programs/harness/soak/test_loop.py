# SPDX-License-Identifier: Apache-2.0
"""A night goes on through void, failed, hanging and leaking runs, through its own death, and ends for one root cause.

Its runs are stand-ins that leave the files of a run; those that hang, leak, are killed or go in parallel are processes.
The files, locks and signals are real.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.subreaper import adopt_orphans
from sojourn.harness.bundle.archive import verify
from sojourn.harness.soak import leaks, loop, state, supervise
from sojourn.harness.soak.loop import SoakExit, begin
from sojourn.harness.soak.plan import PlanError, read_plan
from sojourn.harness.soak.state import Attempt, BatchDirectory
from sojourn.harness.soak.status import status
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.manifest import PARTIAL, StoreError
from sojourn.harness.store.reasons import Reason
from tests.processes import outliving
from tests.programs.harness.soak.soaks import CHILD, HEAD, soak
from tests.refusals import refusal

#: A soak as a process of its own, that can be killed.
SOAK = """
import sys
from pathlib import Path
from sojourn.harness.soak import state
from sojourn.harness.soak.loop import Soak, Stop, begin
from sojourn.harness.soak.plan import read_plan
plan = read_plan(Path(sys.argv[1]))
with state.held(plan.results):
    stop = Stop()
    stop.listen()
    print(Soak(plan, begin(plan, 1), print, stop, sys.argv[2:], lambda _: 1).run().code)
"""


def outcomes(folder: BatchDirectory, cell: str) -> list[str]:
    return [attempt.outcome for attempt in folder.attempts() if attempt.cell == cell]


def test_every_cell_valid_is_0_and_all_runs_verify(soak_place: Path) -> None:
    folder, batch = soak(
        soak_place, "[cells.a]\nbuffer = 2\n[cells.b]\nbuffer = 2\nrate = '5mbit'\n", "rounds = 2\n", processes=True
    )
    assert (batch.code, batch.cause, len(folder.attempts())) == (SoakExit.ALL_VALID, "", 4)
    for attempt in folder.attempts():
        assert attempt.run and verify(folder.path / attempt.run).seed == attempt.seed == attempt.round
        assert attempt.headline == "Beside cubic the picture keeps 720p." and attempt.memory_mb and attempt.free_gb
        assert (attempt.reasons, attempt.leaks) == ([], [])


def test_void_and_failed_runs_are_made_again_then_their_cells_are_left_out(soak_place: Path) -> None:
    cells = "[cells.good]\nbuffer = 2\n[cells.void]\nbuffer = 3\n[cells.fails]\nbuffer = 4\n"
    folder, batch = soak(soak_place, cells, "rounds = 2\nquarantine = 2\n")
    assert batch.code == SoakExit.SOME_NOT
    assert outcomes(folder, "good") == ["valid"] * 2
    assert outcomes(folder, "void") == ["void"] * 2 and outcomes(folder, "fails") == ["failed"] * 2
    by_cell = {attempt.cell: attempt for attempt in folder.attempts()}
    assert by_cell["void"].reasons[0].code == "host-stalls"
    assert by_cell["fails"].reasons == [Reason.of("failed", "RouterError: no answer from the router")]
    assert by_cell["fails"].run is None


def test_runs_go_side_by_side_and_each_is_told_by_its_own_directory(soak_place: Path) -> None:
    cells = "[cells.a]\nbuffer = 10\n[cells.b]\nbuffer = 10\nrate = '5mbit'\n"
    cells += "[cells.void]\nbuffer = 3\n[cells.fails]\nbuffer = 4\n"
    folder, batch = soak(soak_place, cells, "rounds = 1\nretries = 0\n", most=4, processes=True)
    attempts = {attempt.cell: attempt for attempt in folder.attempts()}
    assert batch.code == SoakExit.SOME_NOT and len(attempts) == len(folder.attempts()) == 4
    assert {name: it.outcome for name, it in attempts.items()} == {
        "a": "valid", "b": "valid", "void": "void", "fails": "failed",
    }  # fmt: skip
    for name in ("a", "b", "void"):
        run = folder.path / (attempts[name].run or "")
        assert verify(run).command_line == attempts[name].command_line
        assert attempts[name].command_line == ["sojourn", "soak", str(soak_place / "plan.toml"), f"cell={name}"]
        assert json.loads((run / "options.json").read_text())["rate_down_bps"] == (5e6 if name == "b" else 1e7)


def test_a_broken_lab_ends_the_night_with_its_one_cause(soak_place: Path) -> None:
    folder, batch = soak(soak_place, "[cells.a]\nbuffer = 7\n[cells.b]\nbuffer = 7\nrate = '5mbit'\n", processes=True)
    assert batch.code == SoakExit.LAB_BROKEN and len(folder.attempts()) == 1
    assert batch.cause == "the sim lab does not work: VirtualLabError: router: the console ends with a panic"


def test_a_lab_that_is_broken_from_the_start_gets_no_run_and_the_night_goes_on_once_it_works(soak_place: Path) -> None:
    (soak_place / "broken").touch()
    folder, batch = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    assert (batch.code, folder.attempts()) == (SoakExit.LAB_BROKEN, [])
    (soak_place / "broken").unlink()
    again, batch = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    assert again.path == folder.path and (batch.code, batch.cause) == (SoakExit.ALL_VALID, "")


def test_a_physical_router_that_was_lost_in_a_run_may_come_back(
    soak_place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "_RECHECK_S", 0.1)
    cells = "[cells.lost]\nbuffer = 9\nlab = 'apu'\n[cells.good]\nbuffer = 2\nlab = 'apu'\n"
    folder, batch = soak(soak_place, cells)
    assert batch.code == SoakExit.SOME_NOT and batch.cause == ""
    assert outcomes(folder, "lost") == ["failed"] * 2 and outcomes(folder, "good") == ["valid"]
    assert capsys.readouterr().out.count("the apu lab does not work yet: RouterError: no answer") == 2
    monkeypatch.setattr(loop, "_BACK_S", 0)
    folder, batch = soak(soak_place, cells)
    assert batch.code == SoakExit.LAB_BROKEN
    assert batch.cause == "the apu lab does not work: RouterError: no answer from the router yet"


def test_a_resumed_night_waits_for_a_router_that_boots_after_the_same_power_cut(
    soak_place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "_RECHECK_S", 0.1)
    cells = "[cells.good]\nbuffer = 2\nlab = 'apu'\n"
    (soak_place / "lost").touch()
    folder, batch = soak(soak_place, cells)
    assert (batch.code, folder.attempts()) == (SoakExit.LAB_BROKEN, []), "a lab that never worked is not waited for"
    folder.record(Attempt(number=1, round=1, cell="good", seed=1, begun=1.0))
    (soak_place / "lost").touch()
    resumed, batch = soak(soak_place, cells)
    assert resumed.path == folder.path and (batch.code, batch.cause) == (SoakExit.ALL_VALID, "")
    assert capsys.readouterr().out.count("the apu lab does not work yet: RouterError: no answer") == 1


def test_a_run_that_hangs_is_ended_at_its_limit_and_keeps_what_it_recorded(
    soak_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time begins once it hangs: a busy host takes longer to begin it than a test likes to wait."""
    hangs = []

    def clock() -> float:
        if not hangs and (soak_place / "begun").exists():
            hangs.append(time.monotonic())
        return time.monotonic() - hangs[0] if hangs else 0.0

    monkeypatch.setattr(supervise, "time", SimpleNamespace(monotonic=clock, time=time.time))
    folder, batch = soak(
        soak_place, "[cells.a]\nbuffer = 5\n", "rounds = 1\nretries = 0\nlimit_min = 0.05\n", processes=True
    )
    (attempt,) = folder.attempts()
    assert batch.code == SoakExit.SOME_NOT and attempt.outcome == "failed"
    assert [reason.code for reason in attempt.reasons] == ["time-limit"] and "3 s" in str(attempt.reasons[0])
    assert attempt.run and attempt.run.endswith(PARTIAL) and (folder.path / attempt.run / "options.json").exists()


def test_what_a_run_leaves_behind_is_told_and_ended(soak_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_GRACE_S", 0.5)
    folder, batch = soak(soak_place, "[cells.a]\nbuffer = 6\n", processes=True)
    (attempt,) = folder.attempts()
    assert batch.code == SoakExit.ALL_VALID
    assert attempt.leaks == ["1 process left running (sleep 600), in 2 namespaces of their own; killed"]


def test_what_hides_its_environment_is_known_as_an_orphan(soak_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_GRACE_S", 0.5)
    adopt_orphans()
    folder, _ = soak(soak_place, "[cells.a]\nbuffer = 8\n", processes=True)
    (attempt,) = folder.attempts()
    assert attempt.leaks == ["1 process left running (sleep 600); killed"]


def test_a_lab_whose_dead_we_adopted_ends_without_being_told_as_left(tmp_path: Path) -> None:
    """The first process of its pid namespace stays until the last zombie in it is let go of, and that is our child."""
    script = """
import os, subprocess, sys
from pathlib import Path
from sojourn.hardware.machine.namespaces import Namespaces
from sojourn.hardware.machine.place import ENVIRONMENT
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.subreaper import adopt_orphans
from sojourn.harness.soak import leaks
adopt_orphans()
ENVIRONMENT[leaks.MARK] = mark = f"test-{os.getpid()}"
with Namespaces(["client"]) as spaces:
    inside = Process.start(spaces["client"], ["sh", "-c", "echo here; exec sleep 600"],
                           stdout=Path(sys.argv[1]), ready="here", ready_in="stdout")
    inside.popen.kill()  # nsenter, and not what it started
    inside.popen.wait()
    assert len(leaks.marked(mark)) > 3
print(leaks.clean(mark, leaks.mounts(), Path("/nowhere")), leaks.marked(mark))
"""
    command = [sys.executable, "-c", script, str(tmp_path / "said")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert done.stdout == "[] []\n"


@pytest.mark.parametrize(
    ("name", "shown"), [("a b", "a b"), ("m\\ěř\n7", "m\\ěř\\n7"), ("M\udcfcller\r", "M\\udcfcller\\r")]
)
def test_a_mount_of_ours_is_undone_and_another_one_left_alone(tmp_path: Path, name: str, shown: str) -> None:
    """In a mount namespace of its own, as a plain user may."""
    script = f"""
import subprocess
from pathlib import Path
from sojourn.harness.soak import leaks
before = leaks.mounts()
for name in ("ours", "theirs"):
    (where := Path({str(tmp_path)!r}, name, {name!a})).mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", where], check=True)
print(leaks.clean("nobody", before, Path({str(tmp_path)!r}, "ours")))
print(ascii(leaks.mounts() - before))
"""
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=CHECKOUT
    )
    told = [f"left mounted: {tmp_path}/ours/{shown}; unmounted now"]
    assert done.stdout.splitlines() == [str(told), ascii({f"{tmp_path}/theirs/{name}"})]


def until(what: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def start(place: Path, cells: str) -> subprocess.Popen[str]:
    (place / "plan.toml").write_text("rounds = 1\n" + HEAD + cells)
    command = [sys.executable, "-c", SOAK, str(place / "plan.toml"), *CHILD]
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)


CELLS = "[cells.good]\nbuffer = 2\n[cells.hangs]\nbuffer = 5\n"


def test_a_killed_soak_takes_its_run_along_and_is_resumed_without_losing_one(soak_place: Path) -> None:
    process = start(soak_place, CELLS)
    until((soak_place / "begun").exists)
    (folder,) = state.batches(soak_place / "soak")
    running = leaks.marked(str(folder.path))
    before = {it.number: it for it in folder.attempts() if it.outcome != "running"}
    kept = {path: path.stat().st_mtime_ns for path in folder.path.glob("*/*") if path.parent.suffix != PARTIAL}
    assert running and state.is_held(soak_place / "soak")
    process.kill()
    process.communicate()
    assert not outliving(running) and not state.is_held(soak_place / "soak")

    # The cell goes on as long as before, and is told to end.
    (soak_place / "begun").unlink()
    process = start(soak_place, CELLS)
    until((soak_place / "begun").exists)
    attempts = folder.attempts()
    killed = next(it for it in attempts if it.cell == "hangs")
    assert (killed.outcome, [reason.code for reason in killed.reasons]) == ("killed", ["killed"])
    assert killed.run and (folder.path / killed.run / "options.json").exists()
    assert {it.number: it for it in attempts if it.number in before} == before
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert said.splitlines()[-1] == str(128 + signal.SIGTERM)
    assert folder.attempts()[-1].outcome == "stopped" and folder.batch.cause == "stopped by SIGTERM"
    assert {path: path.stat().st_mtime_ns for path in kept if path.parent.name != "attempts"}.items() <= kept.items()
    assert len(state.batches(soak_place / "soak")) == 1


def test_a_run_that_was_committed_before_the_soak_died_counts(soak_place: Path) -> None:
    folder, _ = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    (attempt,) = folder.attempts()
    unknown = {"ended": None, "outcome": "running", "run": None, "headline": ""}
    folder.record(attempt.model_copy(update=unknown))
    folder.save(folder.batch.model_copy(update={"ended": None, "code": None}))
    again, batch = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    assert again.path == folder.path and batch.code == SoakExit.ALL_VALID
    assert [(it.outcome, it.run) for it in folder.attempts()] == [("valid", attempt.run)]


def test_a_night_whose_runs_did_not_report_themselves_goes_on(soak_place: Path) -> None:
    """As nights of earlier versions, of which only finished attempts name their runs."""
    folder, _ = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    (attempt,) = folder.attempts()
    folder.file(1, state.RUN).unlink()
    assert status(folder).cells[0].valid == 1
    folder.record(attempt.model_copy(update={"ended": None, "outcome": "running", "run": None}))
    folder.save(folder.batch.model_copy(update={"ended": None, "code": None}))
    _, batch = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    assert batch.code == SoakExit.ALL_VALID and outcomes(folder, "a") == ["killed", "valid"]


def test_a_run_that_a_power_cut_damaged_is_made_again_and_not_counted(soak_place: Path) -> None:
    folder, _ = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    (attempt,) = folder.attempts()
    assert attempt.outcome == "valid" and attempt.run
    (folder.path / attempt.run / "options.json").write_bytes(b"\0" * 5)
    folder.save(folder.batch.model_copy(update={"ended": None, "code": None}))
    again, batch = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    assert again.path == folder.path and batch.code == SoakExit.ALL_VALID
    damaged, fresh = folder.attempts()
    assert (damaged.outcome, damaged.reasons[0].code) == ("stopped", "altered")
    assert "options.json" in damaged.reasons[0].text
    assert fresh.outcome == "valid" and (fresh.round, fresh.cell) == (damaged.round, damaged.cell)
    kept = folder.path / (attempt.run + PARTIAL)
    assert damaged.run == kept.name and kept.exists()
    with refusal(StoreError, "unfinished"):
        load_run(kept)


#: By how much the clock is set after the first run, how long each later one would take, and how many there are then.
STEPS = {"back, and no time is left": (-3600, 3650, 1), "on": (3600, 60, 3), "years on": (50 * 365 * 86400, 60, 3)}


@pytest.mark.parametrize("name", STEPS)
def test_a_clock_that_is_set_in_the_night_neither_ends_it_nor_makes_it_longer(
    soak_place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    step_s, needed_s, runs = STEPS[name]
    now = time.time

    def tell(said: str) -> None:
        if said.startswith("run 1: valid"):
            monkeypatch.setattr(time, "time", lambda: now() + step_s)
            monkeypatch.setattr(loop, "expected_s", lambda *_: needed_s)

    folder, batch = soak(soak_place, "[cells.a]\nbuffer = 2\n", "rounds = 3\n", tell=tell)
    assert (batch.code, outcomes(folder, "a")) == (SoakExit.ALL_VALID, ["valid"] * runs)


def test_a_board_that_came_up_in_1970_does_not_soak_for_fifty_years(
    soak_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = soak(soak_place, "[cells.a]\nbuffer = 2\n", "rounds = 2\n")
    folder.file(2, ".json").unlink()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 50 * 365 * 86400)
    monkeypatch.setattr(loop, "expected_s", lambda *_: 3700.0)  # more than the night is long
    folder.save(folder.batch.model_copy(update={"ended": None, "code": None}))
    again, _ = soak(soak_place, "[cells.a]\nbuffer = 2\n", "rounds = 2\n")
    assert again.path == folder.path and len(again.attempts()) == 1


def test_damage_of_many_runs_leaves_out_no_cell(soak_place: Path) -> None:
    folder, _ = soak(soak_place, "[cells.a]\nbuffer = 2\n", "rounds = 6\n")
    assert [one.outcome for one in folder.attempts()] == ["valid"] * 6
    for attempt in folder.attempts()[:5]:
        (folder.path / str(attempt.run) / "options.json").write_bytes(b"\0")
    folder.save(folder.batch.model_copy(update={"ended": None, "code": None}))
    _, batch = soak(soak_place, "[cells.a]\nbuffer = 2\n", "rounds = 6\n")
    assert batch.code == SoakExit.ALL_VALID
    assert Counter(one.outcome for one in folder.attempts()) == {"stopped": 5, "valid": 6}


def test_a_terminal_that_is_closed_does_not_end_a_soak_under_nohup() -> None:
    script = """
import os, signal, sys
from sojourn.harness.soak.loop import Stop
signal.signal(signal.SIGHUP, signal.Handlers[sys.argv[1]])
stop = Stop()
stop.listen()
os.kill(os.getpid(), signal.SIGHUP)
print(stop())
"""
    for found, stopped in ("SIG_IGN", "False"), ("SIG_DFL", "True"):
        done = subprocess.run([sys.executable, "-c", script, found], capture_output=True, text=True, cwd=CHECKOUT)
        assert done.stdout.strip() == stopped


def test_a_second_soak_in_the_same_folder_is_refused(soak_place: Path) -> None:
    refused = refusal(state.BusyError, "in-use", f"{soak_place}: ")
    with state.held(soak_place), refused, state.held(soak_place):
        pass
    assert not state.is_held(soak_place)


def test_a_link_in_place_of_the_lock_is_refused_and_its_target_stays(soak_place: Path) -> None:
    (precious := soak_place / "precious").write_text("kept")
    (soak_place / ".lock").symlink_to(precious)
    with pytest.raises(OSError, match=rf"{soak_place}/\.lock"), state.held(soak_place):
        pass
    assert precious.read_text() == "kept"


def test_a_night_that_is_over_is_followed_by_another_one_unless_only_resuming(soak_place: Path) -> None:
    folder, _ = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    plan = read_plan(soak_place / "plan.toml")
    assert begin(plan, None) is None
    folder.save(folder.batch.model_copy(update={"code": None}))
    assert (again := begin(plan, None)) and again.path == folder.path
    (soak_place / "plan.toml").write_text(HEAD + "[cells.b]\nbuffer = 3\n")
    other = read_plan(soak_place / "plan.toml")
    with refusal(PlanError, "conflict", "plan.toml: "):
        begin(other, 1)
    folder.save(folder.batch.model_copy(update={"until": time.time()}))
    assert (next_one := begin(other, 1)) and next_one.path != folder.path
    with refusal(PlanError, "out-of-range", " 1 cells", " 0.025 h", "--hours", " 0.02"):
        begin(other, 0.02, new=True)


def test_the_disk_is_pruned_by_the_plan_alone_and_the_night_ends_before_it_is_full(soak_place: Path) -> None:
    """The floor is put above and below what is free, beyond what other programs write meanwhile."""
    free_gb = shutil.disk_usage(soak_place).free / 1e9
    rules = '[[disk.prune]]\nfile = "screen.mp4"\nolder_than_days = {}\n'
    cells = "[cells.a]\nbuffer = 2\n"
    folder, batch = soak(soak_place, cells)
    (run,) = (attempt.run or "" for attempt in folder.attempts())
    disk = f"[disk]\nkeep_free_gb = {free_gb + 10:.3f}\n"
    for days, pruned in ((1, []), (0, [f"{folder.path.name}/{run}/screen.mp4"])):
        full, batch = soak(soak_place, cells + disk + rules.format(days))
        assert batch.code == SoakExit.DISK_FULL and "keep_free_gb need" in batch.cause and full.attempts() == []
        assert batch.pruned == pruned
        full.save(batch.model_copy(update={"until": time.time()}))
    manifest = verify(folder.path / run)
    assert set(manifest.pruned) == {"screen.mp4"} and "screen.mp4" not in manifest.files
    assert not (folder.path / run / "screen.mp4").exists()


def on_a_full_disk(place: Path, before: str, then: str) -> subprocess.CompletedProcess[str]:
    """Run Python with a new night, `folder`, on a tmpfs: `before`, then `then` once it is filled."""
    script = f"""
import subprocess
from pathlib import Path
disk = Path({str(place)!r})
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", disk], check=True)
(disk / "plan.toml").write_text('results = "nights"\\n[cells.a]\\n')
from sojourn.harness.bundle.archive import verify
from sojourn.harness.soak import state
from sojourn.harness.soak.disk import make_room
from sojourn.harness.soak.plan import Prune, read_plan
from sojourn.harness.store.runs import RunStore
folder = state.create(read_plan(disk / "plan.toml"), 1)
{before}
try:
    with (disk / "filler").open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
except OSError:
    pass
{then}
"""
    command = ["unshare", "-Urm", sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT)


def test_the_state_can_be_written_when_the_disk_is_full(tmp_path: Path) -> None:
    """On a tmpfs that is filled to the last byte the night's records go where its ballast was."""
    then = """
folder.save(folder.batch.model_copy(update={"cause": "full " * 5000}))
print(len(folder.batch.cause))
"""
    done = on_a_full_disk(tmp_path, "", then)
    assert done.stdout.strip() == "25000", done.stderr


def test_a_full_disk_is_pruned_by_the_room_of_the_ballast(tmp_path: Path) -> None:
    before = """
runs = []
for _ in range(2):
    with RunStore(folder.path).create("video-harm", "a", needed=0) as run:
        (run.path / "screen.mp4").write_bytes(bytes(2 << 20))
        runs.append(run.commit())
(runs[0] / "manifest.json").write_bytes((runs[0] / "manifest.json").read_bytes().replace(b"screen.mp4", b"screen.mp5"))
"""
    then = """
print(make_room(folder, 5 << 20, [Prune(file="screen.mp4", older_than_days=0)], print) == [
    f"{folder.path.name}/{runs[1].name}/screen.mp4"])
print(*verify(runs[1]).pruned, (runs[1] / "screen.mp4").exists())
"""
    done = on_a_full_disk(tmp_path, before, then)
    told, *others = done.stdout.splitlines() or [done.stderr]
    assert re.match("cannot remove .*/screen.mp4 to free space: .*screen.mp4: not in the manifest", told), told
    assert others == ["True", "screen.mp4 False"], done.stderr


def test_a_damaged_file_is_named(soak_place: Path) -> None:
    folder, _ = soak(soak_place, "[cells.a]\nbuffer = 2\n")
    folder.file(1, ".json").write_text('{"number": "one"}')
    with refusal(state.StateError, "damaged", "attempts/0001.json: number: "):
        folder.attempts()
