# SPDX-License-Identifier: Apache-2.0
"""Signals that end a wait, and those that come while something is begun."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from sojourn.hardware.machine.signals import deferred_signals, ended_by_signals

WAITS = """
import threading
from sojourn.hardware.machine.signals import interruptible_waits
interruptible_waits()
print("waits", flush=True)
threading.Event().wait()
"""


def test_ctrl_c_ends_a_wait_without_a_limit() -> None:
    """Without interruptible_waits() this one goes on for ever."""
    process = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    try:
        assert "KeyboardInterrupt" in process.communicate(timeout=10)[1]
    finally:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_block(number: signal.Signals) -> None:
    def end(_number: int, _frame: object) -> None:
        raise SystemExit

    before, done = signal.signal(number, end), []
    try:
        with pytest.raises(SystemExit), deferred_signals():
            signal.raise_signal(number)
            done.append("the rest of the block")
        assert done and signal.getsignal(number) is end
        with pytest.raises(SystemExit):
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)


def test_a_block_that_fails_leaves_the_handlers_as_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="why"), deferred_signals():
        raise ValueError("why")
    assert signal.getsignal(signal.SIGTERM) is before


def test_another_thread_is_let_be() -> None:
    def work() -> int:
        with deferred_signals():
            return 1

    assert ThreadPoolExecutor(1).submit(work).result() == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_unwinds_and_an_ignored_hangup_stays_ignored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt, match=number.name), ended_by_signals():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, ignored)
