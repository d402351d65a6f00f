# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from sojourn.hardware.machine.place import LOCAL, CommandError, Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.hardware.machine.signals import unignore_sigint
from tests.processes import of_command, outliving
from tests.refusals import refusal


def test_run_returns_output_and_feeds_input() -> None:
    assert LOCAL.run(["cat"], input="over the wire\n") == "over the wire\n"


def test_failed_command_says_where_what_and_why() -> None:
    with pytest.raises(CommandError, match="local: sh -c 'echo no >&2; exit 3': no") as failed:
        LOCAL.run(["sh", "-c", "echo no >&2; exit 3"])
    assert failed.value.returncode == 3
    assert LOCAL.run(["sh", "-c", "exit 3"], check=False) == ""
    with pytest.raises(CommandError, match="no-such-program"):
        LOCAL.run(["no-such-program"])
    with pytest.raises(CommandError, match=r"within 0\.1 s"):
        LOCAL.run(["sleep", "9"], timeout=0.1)


def test_quoting_place_hands_one_argument_over() -> None:
    shell = Place("shell", ("sh", "-c"), remote=True)
    assert shell.run(["echo", "a b", "$HOME"]) == "a b $HOME\n"


def test_start_returns_when_ready_and_stop_gives_the_exit_code() -> None:
    script = "trap 'exit 7' INT; echo listening on 7 >&2; while :; do sleep 0.01; done"
    process = Process.start(LOCAL, ["sh", "-c", script], ready="listening on")
    assert process.alive()
    log = process.stderr_path
    assert process.stop() == 7
    assert not process.alive()
    assert not log.exists(), "a temporary log is left"


def test_stop_kills_what_ignores_the_signal_with_its_children() -> None:
    script = "trap '' INT; sleep 600 & echo ready >&2; wait; wait"
    process = Process.start(LOCAL, ["sh", "-c", script], ready="ready")
    (child,) = psutil.Process(process.popen.pid).children()
    assert process.stop(grace=0.2) == -signal.SIGKILL
    assert not outliving([child])


def test_early_death_and_lateness_are_told_with_the_last_words(tmp_path: Path) -> None:
    with refusal(ProcessError, "not-started", " 4 ", ": no such device"):
        Process.start(LOCAL, ["sh", "-c", "echo no such device >&2; exit 4"], ready="never")
    with refusal(ProcessError, "no-answer", " 2 s: still thinking"):
        Process.start(LOCAL, ["sh", "-c", "echo still thinking >&2; sleep 60"], ready="never", timeout=2)
    with refusal(ProcessError, "missing-program", "no-such-program"):
        Process.start(Place("here"), ["no-such-program"], stdout=tmp_path / "out")


def test_process_of_a_quoting_place_is_signalled_by_its_own_pid() -> None:
    remote = Place("remote", ("sh", "-c"), remote=True)
    script = "trap 'echo done >&2; exit 5' INT; echo ready >&2; while :; do sleep 0.01; done"
    process = Process.start(remote, ["sh", "-c", script], ready="ready")
    assert process.stop() == 5


def test_a_program_of_a_background_job_is_told_to_end() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        unignore_sigint()
        process = Process.start(LOCAL, ["sleep", "60"])
        assert process.stop(grace=5) == -signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_program_is_stopped_if_the_wait_for_it_is_interrupted() -> None:
    number = signal.signal(signal.SIGALRM, lambda *_: signal.default_int_handler(signal.SIGINT, None))
    signal.setitimer(signal.ITIMER_REAL, 2)  # by when a busy host waits, too
    try:
        with pytest.raises(KeyboardInterrupt):
            Process.start(LOCAL, ["sleep", "9753"], ready="never")
    finally:
        signal.signal(signal.SIGALRM, number)
    assert not of_command(psutil.Process().children(recursive=True), "9753")
