# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from sojourn.hardware import simulation
from sojourn.hardware.build_tool import call
from sojourn.hardware.images.desktop import Desktop
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.experiment import guest_job, guest_main, simulated
from sojourn.harness.experiment.simulated import SimulatedClock, SimulatedError, all_at_once
from sojourn.harness.store.runs import RunStore


class Display:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.phases = ["solo", "cubic"]

    def say(self, text: str) -> None:
        self.said.append(text)

    def phase(self, index: int) -> None:
        self.said.append(index)

    def update(self, **known: Any) -> None:
        self.said.append(known)


def test_news_come_line_by_line_and_set_the_clock(tmp_path: Path) -> None:
    display, clock, file = Display(), SimulatedClock(), tmp_path / "news"
    news = simulated._News(file, display, clock)  # type: ignore[arg-type]
    news.pass_on()
    lines = [json.dumps(it) for it in ([1.5, "say", "warming up"], [2.0, "phase", 0], [2.5, "update", {"stalls": 1}])]
    file.write_text(lines[0] + "\n" + lines[1][:5])
    news.pass_on()
    assert (display.said, clock.now) == (["warming up"], 1.5)
    with file.open("a") as out:
        out.write(lines[1][5:] + "\n" + lines[2] + "\n")
    news.pass_on()
    assert (display.said, clock()) == (["warming up", 0, {"stalls": 1}], 2.5)


def test_what_the_inside_tells_is_understood_outside(tmp_path: Path) -> None:
    display, clock = Display(), SimulatedClock()
    with (tmp_path / "news").open("w") as out:
        inner = guest_main._News(out)
        inner.say("two\nlines")
        inner.phase(1)
        inner.update(victim_bps=4e6, quality="hd720", playing=None)
        begun = time.monotonic()
        simulated._News(tmp_path / "news", display, clock).pass_on()  # type: ignore[arg-type]
    assert display.said == ["two\nlines", 1, {"victim_bps": 4e6, "quality": "hd720", "playing": None}]
    assert begun - 5 < clock.now <= begun


@pytest.mark.parametrize(("failure", "code"), [(None, 0), (RuntimeError("no route"), 1), (OSError("disk"), 1)])
def test_what_stops_the_inside_is_one_line_for_the_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception | None, code: int
) -> None:
    def experiment(job: Path) -> None:
        assert job == tmp_path
        if failure:
            raise failure

    monkeypatch.setattr(guest_main, "experiment", experiment)
    monkeypatch.setattr(sys, "argv", ["guest_main", str(tmp_path)])
    assert guest_main.main() == code
    assert (tmp_path / guest_job.ERROR).exists() == bool(failure)
    if failure:
        assert (tmp_path / guest_job.ERROR).read_text() == f"{type(failure).__name__}: {failure}"


def test_a_machine_that_tells_nothing_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    news = simulated._News(tmp_path / "news", Display(), SimulatedClock())  # type: ignore[arg-type]
    monkeypatch.setattr(simulated, "_SILENCE_S", -1.0)
    with pytest.raises(SimulatedError, match="hangs: it has told nothing for 0 s"):
        news.pass_on()


@pytest.mark.parametrize("kind", ["pipe", "link", "sparse file"])
def test_what_a_machine_puts_in_place_of_its_news_holds_nobody_up(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "news"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/etc/passwd")
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    news = simulated._News(file, Display(), SimulatedClock())  # type: ignore[arg-type]
    with pytest.raises(SimulatedError, match="news: "):
        for _ in range(2):
            news.pass_on()


def test_a_lease_of_the_machines_holds_nobody_up(tmp_path: Path) -> None:
    """Who opens such a file waits for 45 s, once for each look."""
    (file := tmp_path / "news").touch()
    display = Display()
    news = simulated._News(file, display, SimulatedClock())  # type: ignore[arg-type]
    with file.open("r+") as out:
        fcntl.fcntl(out, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        before = signal.signal(signal.SIGIO, signal.SIG_IGN)
        try:
            begun = time.monotonic()
            news.pass_on()
            assert time.monotonic() - begun < 5 and display.said == []
            fcntl.fcntl(out, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        finally:
            signal.signal(signal.SIGIO, before)
        out.write('[1.0, "say", "free"]\n')
    news.pass_on()
    assert display.said == ["free"]


@pytest.mark.parametrize(
    "line",
    [
        "", "x", "[1]", "{}", '[1, "phase", 2]', '[1, "phase", -1]', '[1, "__init__", "x"]',
        "[" * 9999, '[NaN, "say", "x"]', '[1e999, "say", "x"]', '[-1, "say", "x"]',
        '[1, "say", {}]', '[1, "update", {"console": 1}]',
        '["x", "say", "x"]', '[1, "update", {"stalls": "many"}]',
        '[1, "update", {"victim_bps": Infinity}]', f'[1, "say", "{"x" * 2000}"]',
        f'[1, "update", {{"stalls": {10**400}}}]',
    ],
)  # fmt: skip
def test_news_that_say_nothing_end_the_machine_in_one_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "news").write_text(line + "\n")
    display = Display()
    with pytest.raises(SimulatedError, match=r"^news: no news: ") as refused:
        simulated._News(tmp_path / "news", display, SimulatedClock()).pass_on()  # type: ignore[arg-type]
    assert str(refused.value).isprintable() and len(str(refused.value)) < 400 and display.said == []


def test_news_do_not_move_the_terminal(tmp_path: Path) -> None:
    display = Display()
    lines = [[1, "say", "a\x1b[2Jb\rc"], [1, "update", {"quality": "\x1b]0;t\x07"}]]
    (tmp_path / "news").write_text("".join(json.dumps(line) + "\n" for line in lines))
    simulated._News(tmp_path / "news", display, SimulatedClock()).pass_on()  # type: ignore[arg-type]
    assert display.said == ["a\\x1b[2Jb\\rc", {"quality": "\\x1b]0;t\\x07"}]


@pytest.mark.parametrize("name", [guest_job.ERROR, guest_job.VERSIONS, "err", "status"])
@pytest.mark.parametrize("kind", ["pipe", "sparse file", "link", "folder"])
def test_nothing_that_a_machine_left_is_read_whole(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that ended early, each of these is read."""
    (console := tmp_path / "said").write_text("Kernel panic - not syncing\n")
    (job := tmp_path / "job").mkdir()
    if kind == "pipe":
        os.mkfifo(job / name)
    elif kind == "link":
        (job / name).symlink_to("/dev/zero")
    elif kind == "folder":
        (job / name).mkdir()
    else:
        (job / name).touch()
        os.truncate(job / name, 1 << 42)

    def ends(_kernel: Any, _guest: Any, folder: Path, **_: Any) -> None:
        simulation._judge(folder, console, 1)

    monkeypatch.setattr(simulation, "run", ends)
    monkeypatch.setattr(simulated, "_lent", dict)
    with RunStore(tmp_path / "results").create("t", "c") as run, suppress(SimulatedError):
        (run.path / "recorded").write_text("x")
        simulated._add_versions(run, job, {})
    machine = SimpleNamespace(kernel=None, desktop=SimpleNamespace(sources=tmp_path), memory="1M", untrusted=False)
    with pytest.raises(SimulatedError) as stopped:
        simulated.start(machine, job, "true", evidence=run.path)  # type: ignore[arg-type]
    assert len(str(stopped.value)) < 10_000


def test_what_is_known_of_a_machine_is_not_for_it_to_say(tmp_path: Path) -> None:
    (tmp_path / guest_job.VERSIONS).write_text('{"confined by": "nothing", "player": "9"}')
    with RunStore(tmp_path / "results").create("t", "c") as run:
        simulated._add_versions(run, tmp_path, {"confined by": "namespaces"})
        assert run.manifest.versions == {"confined by": "namespaces", "player": "9"}


def test_news_without_end_end_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "_ALL_NEWS", 1000)
    (tmp_path / "news").write_text('[1.0, "say", "again"]\n' * 100)
    with pytest.raises(SimulatedError, match="news: the simulated machine tells more than 0 MiB"):
        simulated._News(tmp_path / "news", Display(), SimulatedClock()).pass_on()  # type: ignore[arg-type]


def test_each_whole_line_is_a_sign_of_life_and_half_a_line_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(simulated.time, "monotonic", lambda: now)
    display, file = Display(), tmp_path / "news"
    news = simulated._News(file, display, SimulatedClock())  # type: ignore[arg-type]
    line = json.dumps([1.0, "say", "é"], ensure_ascii=False).encode()
    cut = line.index("é".encode()) + 1

    def look_on(seconds: float) -> None:
        nonlocal now
        for _ in range(int(seconds / 0.5)):
            now += 0.5
            news.pass_on()

    file.write_bytes(line[:cut])
    look_on(simulated._SILENCE_S)
    with file.open("ab") as out:
        out.write(line[cut:] + b"\n" + line[:cut])
    news.pass_on()
    look_on(simulated._SILENCE_S)
    assert display.said == ["é"]
    with pytest.raises(SimulatedError, match=r"hangs: it has told nothing for 30[01] s"):
        look_on(1)


def test_a_time_in_which_all_stood_still_is_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(simulated.time, "monotonic", lambda: now)
    news = simulated._News(tmp_path / "news", Display(), SimulatedClock())  # type: ignore[arg-type]
    now += 10 * simulated._SILENCE_S
    news.pass_on()


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("LabError: no route", "LabError: no route"),
        (None, "the machine ended early: it said nothing"),
    ],
)
def test_what_the_inside_says_comes_before_how_the_machine_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | None, says: str
) -> None:
    def fail(_kernel: object, _guest: object, job: Path, **_: Any) -> None:
        if told:
            (job / "error").write_text(told)
        raise SimulationError(f"{job}: the machine ended early: it said nothing")

    monkeypatch.setattr(simulated.simulation, "run", fail)
    machine = SimpleNamespace(kernel=None, desktop=SimpleNamespace(sources=tmp_path), memory="4G", untrusted=False)
    with pytest.raises(SimulatedError) as failed:
        simulated.start(machine, tmp_path, "exec true", evidence=tmp_path)  # type: ignore[arg-type]
    assert str(failed.value) == says


def test_a_machine_is_named_by_what_decides_its_bytes() -> None:
    desktop = Desktop(Path("/r"), Path("/s"), {"chromium": "140", "python numpy": "2"}, "d", "c")
    kernel = Kernel(Path("/l"), Path("/c"), "7.2", "tarball", "k")
    assert simulated.Machine(kernel, desktop).versions == {
        "kernel source": "tarball", "kernel build": "k", "guest": "d", "sources": "c", "system calls": "seccomp",
        "guest chromium": "140", "guest python numpy": "2",
    }  # fmt: skip
    assert simulated.Machine(kernel, desktop, untrusted=True).versions["system calls"] == "ptrace"


@pytest.mark.parametrize(("fitting", "at_once"), [(2, 2), (1, 1), (0, 1)])
def test_a_process_has_no_more_machines_at_once_than_memory_holds(
    monkeypatch: pytest.MonkeyPatch, fitting: int, at_once: int
) -> None:
    monkeypatch.setattr(simulated.simulation, "fitting", lambda memory: fitting)
    running, most = [0], [0]

    def run() -> None:
        with simulated.place(SimpleNamespace(memory="4G")):  # type: ignore[arg-type]
            running[0] += 1
            most[0] = max(most[0], running[0])
            time.sleep(0.2)
            running[0] -= 1

    all_at_once(run, run, run)
    assert (running, most) == ([0], [at_once])


def test_makers_work_at_once_and_answer_in_order() -> None:
    begun = time.monotonic()
    assert all_at_once(lambda: time.sleep(0.5) or "a", lambda: time.sleep(0.5) or "b") == ["a", "b"]
    assert time.monotonic() - begun < 0.95


def test_what_fails_first_ends_the_others_programs() -> None:
    def fail() -> None:
        while not [it for it in psutil.Process().children() if "import time; time.sleep(60)" in it.cmdline()]:
            time.sleep(0.01)
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        all_at_once(lambda: subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"]) and None, fail)


def test_what_stops_a_set_up_ends_the_tools_that_build_and_starts_no_other() -> None:
    """A tool has a session of its own, so that a terminal's Ctrl-C does not reach it."""
    refused: list[str] = []

    def builds() -> None:
        for _ in range(2):
            try:
                call(["sleep", "120"])
            except BuildError as why:
                refused.append(str(why))

    def stopped() -> None:
        while not [it for it in psutil.Process().children(recursive=True) if it.cmdline() == ["sleep", "120"]]:
            time.sleep(0.01)
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        all_at_once(builds, stopped)
    assert time.monotonic() - begun < 60
    assert len(refused) == 2 and refused[1] == "another part of the set-up failed or was stopped"
    assert not [it for it in psutil.Process().children(recursive=True) if it.cmdline() == ["sleep", "120"]]


@pytest.mark.parametrize("given", ["url", "script", "clip", ""])
def test_what_a_user_brings_is_trusted_nowhere(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a run of this process nor in one of a cluster's worker."""
    asked = {"url": "", "script": None, "clip": None, "second_video": False, "recorder": "", "driver": ""}
    options: Any = SimpleNamespace(kernel_source=None, **asked | ({given: "mine"} if given else {}))
    for name in ("ensure_kernel", "ensure_desktop"):
        monkeypatch.setattr(simulated, name, lambda *_: None)
    service: Any = SimpleNamespace(prepare=lambda _: None)
    machines = [simulated.machine_of(options), simulated.prepare(options, service, lambda _: lambda *_: None)]
    assert [machine.untrusted for machine in machines] == [bool(given)] * 2
