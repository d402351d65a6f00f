# SPDX-License-Identifier: Apache-2.0
"""What a machine reaches whose kernel was taken over: a program of the test's stands where the kernel stands."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from sojourn.hardware import build_tool, simulation
from sojourn.hardware.confine import confinement
from sojourn.hardware.confine.confinement import Confinement, ConfinementError, Jail, settle
from sojourn.hardware.machine.files import remove_tree
from tests.processes import outliving
from tests.refusals import refusal

ATTACK = Path(__file__).parent / "taken_over"
CONFINED = [Confinement.NAMESPACES, Confinement.LANDLOCK]
MEMORY = 4 << 20
#: Ends with 7 by the signal that it shall not get.
_VICTIM = (
    "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))\n"
    "print('up', flush=True)\nsignal.pause()\n"
)


@dataclass(frozen=True)
class Host:
    """What is there to be found, all of the test's own."""

    secret: Path
    folder: Path
    victim: subprocess.Popen[str]
    name: str
    port: int

    @property
    def words(self) -> list[str]:
        return [str(self.secret), str(self.folder), str(self.victim.pid), self.name, str(self.port)]


@pytest.fixture(autouse=True)
def _as_here() -> Iterator[None]:
    """What a test makes of this host is forgotten."""
    yield
    confinement.confinement.cache_clear()


@pytest.fixture
def attack(tmp_path: Path) -> Path:
    program = tmp_path / "attack"
    shutil.copy(build_tool.ensure_program("attack", ATTACK), program)
    return program


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    (folder := tmp_path / "host").mkdir()
    (secret := folder / "secret").write_text("canary")
    secret.chmod(0o600)
    (folder / "kept").touch()
    name = f"sojourn-test-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        abstract.bind(f"\0{name}")
        abstract.listen()
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        victim = subprocess.Popen([sys.executable, "-c", _VICTIM], stdout=subprocess.PIPE, text=True)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        assert victim.stdout and victim.stdout.readline() == "up\n"
        yield Host(secret, folder, victim, name, tcp.getsockname()[1])


@contextmanager
def jail(attack: Path, folder: Path, kind: Confinement, **how: bool) -> Iterator[Jail]:
    for name in ("job", "root"):
        (folder / name).mkdir()
    (folder / "root" / "kept").touch()
    for path in (folder / "root", folder / "root" / "kept"):
        path.chmod(0o777)  # nothing but the jail protects it, also from the other user that root's machines are
    with Jail({"linux": attack, "root": folder / "root"}, {"job": folder / "job"}, MEMORY, kind=kind, **how) as made:
        yield made


def came_of(attack: Path, folder: Path, kind: Confinement, host: Host, **how: bool) -> dict[str, str]:
    """What the attack prints, by its attempts."""
    if refused := confinement.refusal(kind):
        pytest.skip(refused)
    calls = [] if kind is Confinement.NONE else ["calls"]
    with jail(attack, folder, kind, **how) as made:
        done = subprocess.run(
            made.argv(["./linux", *host.words, *calls], {}), capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_unconfined_it_would_find_the_host(attack: Path, tmp_path: Path, host: Host) -> None:
    """Else the other tests would show nothing."""
    told = came_of(attack, tmp_path, Confinement.NONE, host)
    reached = {"read", "read/proc-self-root", "read/link", "read/proc-process-environ", "list", "create", "mkdir"}
    reached |= {"symlink", "write", "unlink", "rename", "signal", "abstract", "tcp", "netlink"}
    reached |= {"read-only/create", "read-only/write", "datagrams", "datagrams/raw"}
    assert {name for name in reached if told[name] != "ok"} == set()
    assert host.victim.wait(10) == 7


@pytest.mark.parametrize("kind", CONFINED)
def test_it_finds_and_changes_nothing_of_the_host(kind: Confinement, attack: Path, tmp_path: Path, host: Host) -> None:
    before = host.secret.stat()
    told = came_of(attack, tmp_path, kind, host)
    user, privileges = told.pop("user"), told.pop("privileges")
    calls = {name: told.pop(name) for name in list(told) if name.startswith("call/")}
    needed = {name: told.pop(name) for name in list(told) if name.startswith("needed/")}
    assert needed and set(needed.values()) == {"ok"}
    if kind is Confinement.LANDLOCK and landlock_abi() < 6:
        told.pop("signal")  # by the kernel's own rules: to who is the same user
    assert {name for name, what in told.items() if what == "ok"} == set()
    refused = {f"no {errno.ENOSYS}", f"no {errno.EPERM}"}
    assert len(calls) > 40 and {name: what for name, what in calls.items() if what not in refused} == {}
    after = host.secret.stat()
    for kept in ("st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_size", "st_nlink"):
        assert getattr(after, kept) == getattr(before, kept), kept
    assert sorted(path.name for path in host.folder.iterdir()) == ["kept", "secret"] and host.victim.poll() is None
    assert privileges == "1 2"  # no_new_privs, a filter
    uid, pid = user.split()
    if os.geteuid() == 0:
        assert int(uid) == confinement.UID
    if kind is Confinement.NAMESPACES:
        assert pid == "2"  # the first one is ours
        assert told["top/create"] == f"no {errno.EROFS}"  # not merely as another user's folder


def landlock_abi() -> int:
    done = subprocess.run(
        [sys.executable, "-c", "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout)


@pytest.mark.parametrize("kind", CONFINED)
def test_only_seccomp_off_allows_ptrace(kind: Confinement, attack: Path, tmp_path: Path, host: Host) -> None:
    told = came_of(attack, tmp_path, kind, host, trace=True)
    assert told["call/ptrace"] == "ok" and told["trace"].startswith("no")


@pytest.mark.parametrize("kind", [*CONFINED, Confinement.NONE])
def test_it_has_no_environment_of_the_host(kind: Confinement, attack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CANARY", "seen")
    with Jail({"linux": attack}, {}, MEMORY, kind=kind) as made:
        words = made.argv(["./linux", "environment"], {"ONE": "1"})
        assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "ONE=1\n"


@pytest.mark.parametrize("kind", [*CONFINED, Confinement.NONE])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_who_started_it(kind: Confinement, number: signal.Signals, attack: Path) -> None:
    """After SIGKILL of the harness nothing runs on; SIGTERM to what it has started reaches the kernel."""
    script = (
        "import os, subprocess, sys\nfrom pathlib import Path\n"
        "from sojourn.hardware.confine.confinement import Confinement, Jail\n"
        "with Jail({'linux': Path(sys.argv[1])}, {}, 4096, kind=Confinement(sys.argv[2])) as made:\n"
        "    words = made.argv(['./linux', 'wait'], {}, parent=os.getpid())\n"
        "    machine = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)\n"
        "    machine.stdout.readline()\n    print(machine.pid, flush=True)\n    print(machine.wait())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, attack, kind], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout
        launcher = psutil.Process(int(harness.stdout.readline()))
        whole = [launcher, *launcher.children(recursive=True)]
        assert len(whole) == 3
        os.kill(harness.pid if number is signal.SIGKILL else launcher.pid, number)
        assert not outliving(whole)
        assert harness.stdout.read() == ("" if number is signal.SIGKILL else f"{signal.SIGTERM:d}\n")


#: Runs a program in the kernel's place that tries to stay; prints when it is up, and then what is left once it ended.
_HARNESS = """
import sys
from pathlib import Path
from types import SimpleNamespace
from sojourn.hardware import simulation
from sojourn.hardware.confine.confinement import Confinement
linux, folder, kind, stay, start, timeout = sys.argv[1:]
folder, told = Path(folder), []
def watch():
    if (folder / "up").exists() and not told:
        print("up", flush=told.append("up") is None)
try:
    simulation.run(
        SimpleNamespace(linux=Path(linux), tc=None), SimpleNamespace(root=folder.parent / "root"), folder, memory="4M",
        environment={"STAY": stay}, start_ns=int(start), timeout=float(timeout), watch=watch,
        confinement=Confinement(kind),
    )
except (simulation.SimulationError, KeyboardInterrupt) as stopped:
    print(type(stopped).__name__, stopped)
"""


@pytest.mark.parametrize("kind", [*CONFINED, Confinement.NONE])
@pytest.mark.parametrize("way", ["end", "timeout", "Ctrl-C", "SIGKILL", "SIGKILL of the keeper"])
def test_nothing_outlives_its_run(kind: Confinement, way: str, attack: Path, tmp_path: Path) -> None:
    """It forgets who its parent is, leaves its group and session, and forks on."""
    for name in ("job", "root"):
        (tmp_path / name).mkdir()
    start = str(secrets.randbelow(1 << 60))  # by which its processes are found, wherever they have gone
    stay, timeout = "end" if way == "end" else "stay", "2" if way == "timeout" else "30"
    words = [sys.executable, "-c", _HARNESS, attack, tmp_path / "job", kind, stay, start, timeout]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout
        if way not in ("end", "timeout"):
            assert harness.stdout.readline() == "up\n"
            before = of_run(start)
            assert len(before) > 4
            if way == "SIGKILL of the keeper":
                launcher = next(process for process in before if process.ppid() == harness.pid)
                launcher.children()[0].kill()
            else:
                harness.send_signal(signal.SIGINT if way == "Ctrl-C" else signal.SIGKILL)
        said = harness.stdout.read().splitlines()
    if way == "SIGKILL":
        assert not outliving(before)
    assert of_run(start) == []
    what = {"end": "ended early", "timeout": "not finished within 2 s", "Ctrl-C": "Keyboard", "SIGKILL": ""}
    assert what.get(way, "the machine was killed from outside") in said[-1] if said else way == "SIGKILL"


def of_run(start: str) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if f"time-travel-start={start}" in (process.info["cmdline"] or ())]


@pytest.mark.parametrize("kind", CONFINED)
def test_what_still_runs_keeps_its_folders(
    kind: Confinement, attack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for no launcher reads nothing either."""
    monkeypatch.setattr(confinement, "_END_S", 0.1)
    with (
        refusal(ConfinementError, "not-ended", " 0.1 s ", "/job"),
        jail(attack, tmp_path, kind) as made,
    ):
        machine = subprocess.Popen(made.argv(["./linux", "wait"], {}), stdout=subprocess.PIPE, text=True)
        (tmp_path / "job" / "link").symlink_to("/")
        assert machine.stdout and machine.stdout.readline() == "waits ok\n"
    try:
        assert (tmp_path / "job" / "link").is_symlink()
    finally:
        machine.kill()
        machine.communicate()


@pytest.mark.parametrize("kind", CONFINED)
def test_who_waits_sees_that_it_was_killed(kind: Confinement, attack: Path) -> None:
    with Jail({"linux": attack}, {}, MEMORY, kind=kind) as made:
        with subprocess.Popen(made.argv(["./linux", "wait"], {}), stdout=subprocess.PIPE, text=True) as machine:
            assert machine.stdout and machine.stdout.readline() == "waits ok\n"
            psutil.Process(machine.pid).children(recursive=True)[-1].kill()
        assert machine.returncode == -signal.SIGKILL


def test_what_it_left_is_ours_and_leads_nowhere(tmp_path: Path) -> None:
    (folder := tmp_path / "left").mkdir()
    (secret := tmp_path / "secret").write_text("canary")
    (inner := folder / "closed" / "inner").mkdir(parents=True)
    (folder / "kept").write_text("kept")
    (folder / "manifest.json.new").symlink_to(secret)
    (inner / "link").symlink_to(tmp_path)
    os.mkfifo(inner / "pipe")
    inner.parent.chmod(0)
    if os.geteuid() == 0:
        confinement.lend(folder, confinement.UID)
    with refusal(ConfinementError, "not-a-file", " closed/inner/link, closed/inner/pipe, manifest.json.new: "):
        settle(folder, (os.geteuid(), os.getegid()))
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == ["closed", "closed/inner", "kept"]
    assert {path.stat().st_uid for path in (folder, *folder.rglob("*"))} == {os.geteuid()}
    assert secret.read_text() == "canary"
    assert stat.S_IMODE((folder / "closed").stat().st_mode) == 0o700, "also for a user who is not root"
    settle(folder)


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2775])
def test_nobody_may_do_more_with_what_it_left_than_with_its_folder(mode: int, tmp_path: Path) -> None:
    """It may give its files any mode: as a plain user's they would be programs that others run as that user."""
    (folder := tmp_path / "left").mkdir()
    (folder / "inner").mkdir()
    left = {"program": 0o6777, "inner/program": 0o4755, "closed": 0, "open": 0o666}
    for name, one in {**left, "inner": 0o7777, ".": 0o7777}.items():
        (folder / name).touch()
        (folder / name).chmod(one)
    settle(folder, None, mode)
    for name, one in left.items():
        assert (folder / name).stat().st_mode & 0o7777 == (one | 0o600) & 0o777 & (mode | 0o700), name
    assert {(folder / name).stat().st_mode & 0o7777 for name in ("", "inner")} == {mode}


def test_what_no_terminal_can_show_and_what_holds_nothing_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "_HOLE_BYTES", 3 << 20)
    (folder := tmp_path / "left").mkdir()
    for name, size in (("kept", 2 << 20), ("large", 1 << 40), ("also kept", 1 << 20)):
        (folder / name).touch()
        os.truncate(folder / name, size)
    (folder / "full").write_bytes(b"x" * (8 << 20))
    (folder / "a\nb").touch()
    (folder / "\x1b[31m").mkdir()
    (folder / "\x1b[31m" / "x").touch()
    with open(os.fsencode(folder) + b"/\xff\x1b]0;t\x07", "w"):
        pass
    with refusal(ConfinementError, "not-a-file", "a\\nb, large (1099511627776 bytes, ") as odd:
        settle(folder)
    assert str(odd.value).isprintable()
    assert sorted(path.name for path in folder.iterdir()) == ["also kept", "full", "kept"]


@pytest.mark.parametrize("kind", CONFINED)
def test_a_machine_cannot_fork_without_end(kind: Confinement, attack: Path) -> None:
    if refused := confinement.refusal(kind):
        pytest.skip(refused)
    with Jail({"linux": Path(shutil.which("prlimit") or "")}, {}, MEMORY, kind=kind) as made:
        words = made.argv(["./linux", "--nproc", "--noheadings", "--output=SOFT,HARD"], {})
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert all(int(limit) <= max(8192, 1024 * (os.cpu_count() or 1)) for limit in said) and len(said) == 2


def test_a_link_in_place_of_a_folder_that_was_looked_at_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inner := tmp_path / "left" / "inner").mkdir(parents=True)
    (target := tmp_path / "host").mkdir()
    (target / "link").symlink_to("/")
    os.mkfifo(target / "pipe")
    before = {path.name: path.lstat() for path in (target, *target.iterdir())}

    def swapped(real: Any) -> Any:
        def enter(name: Any, *rest: Any, **how: Any) -> Any:
            if str(name).endswith("inner") and not inner.is_symlink():
                inner.rmdir()
                inner.symlink_to(target)
            return real(name, *rest, **how)

        return enter

    with monkeypatch.context() as patched:
        for call in ("open", "scandir"):
            patched.setattr(os, call, swapped(getattr(os, call)))
        with refusal(ConfinementError, "not-a-file", " inner (Not a directory)"):
            settle(tmp_path / "left", (os.geteuid(), os.getegid()))
    assert inner.is_symlink()
    assert {path.name: path.lstat() for path in (target, *target.iterdir())} == before


def test_folders_without_end_are_removed(tmp_path: Path) -> None:
    (folder := tmp_path / "left").mkdir()
    (secret := tmp_path / "secret").write_text("canary")
    held = os.open(folder, os.O_RDONLY)
    for _ in range(3000):  # more than a path can name
        os.mkdir("d", dir_fd=held)
        inner = os.open("d", os.O_RDONLY, dir_fd=held)
        os.symlink(secret, "link", dir_fd=inner)
        os.close(held)
        held = inner
    os.close(held)
    try:
        with refusal(ConfinementError, "not-a-file", " 16 nested folders)"):
            settle(folder)
        assert [path.name for path in folder.rglob("*")] == ["d"] * confinement.DEPTH and secret.read_text() == "canary"
    finally:
        remove_tree(folder)  # else pytest fails at it, in each later session


def test_without_anything_that_confines_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "refusal", lambda kind: f"no {kind} here")
    monkeypatch.delenv(confinement.VARIABLE, raising=False)
    confinement.confinement.cache_clear()
    with pytest.raises(ConfinementError) as refused:
        confinement.confinement()
    assert str(refused.value) == (
        "a machine cannot be confined here (namespaces: no namespaces here; landlock: no landlock here): allow user "
        "namespaces or Landlock; or, if everything that will run in it is trusted, set SOJOURN_CONFINEMENT=none"
    )
    monkeypatch.setenv(confinement.VARIABLE, "some")
    with refusal(ConfinementError, "unknown-value", "SOJOURN_CONFINEMENT=some ", "namespaces, landlock, none"):
        confinement.confinement()


def test_landlock_is_taken_where_namespaces_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "refusal", lambda kind: "no" if kind is Confinement.NAMESPACES else "")
    monkeypatch.delenv(confinement.VARIABLE, raising=False)
    confinement.confinement.cache_clear()
    assert confinement.confinement() is Confinement.LANDLOCK


def test_a_job_that_fills_the_disk_ends(attack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where jobs lie, others write too; of a run's folder it is the run that looks."""
    for name in ("job", "root"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(simulation, "_FLOOR_BYTES", 1 << 60)
    with refusal(simulation.SimulationError, "disk-full", "/job: "):
        simulation.run(
            SimpleNamespace(linux=attack, tc=None), SimpleNamespace(root=tmp_path / "root"), tmp_path / "job",  # type: ignore[arg-type]
            memory="4M", environment={"STAY": "stay"}, timeout=30,
        )  # fmt: skip


@pytest.mark.parametrize("kind", [*CONFINED, Confinement.NONE])
def test_where_memory_is_used_up_it_ends_first(kind: Confinement) -> None:
    sleep = {"linux": Path(shutil.which("sleep") or "")}
    with (
        Jail(sleep, {}, MEMORY, kind=kind) as made,
        subprocess.Popen(made.argv(["./linux", "60"], {})) as machine,
    ):
        while len(below := psutil.Process(machine.pid).children(recursive=True)) < 2:
            assert machine.poll() is None
        scores = [Path(f"/proc/{it.pid}/oom_score_adj").read_text() for it in below]
        machine.kill()
    assert scores == ["500\n"] * 2
