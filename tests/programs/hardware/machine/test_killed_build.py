# SPDX-License-Identifier: Apache-2.0
"""A build that is killed, by whatever signal at whatever step, leaves no process and nothing that holds up the next."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn.hardware.build_tool import call
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.place import ENVIRONMENT
from sojourn.harness.soak.leaks import MARK, marked
from tests.processes import outliving

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
#: Without `nightly` every so manyeth step.
_STRIDE = 9
# One grandchild in the tool's session, one in its own whose parent has ended; both write in the scratch directory.
_TOOL = """
write() { sh -c 'while :; do echo >"$0/$1.new"; mv "$0/$1.new" "$0/$1"; done' "$1" "$2"; }
write "$1" near &
(setsid sh -c 'while :; do echo >"$0/far.new"; mv "$0/far.new" "$0/far"; done' "$1" &)
until [ -e "$1/near" ] && [ -e "$1/far" ]; do :; done
if [ -n "$2" ]; then echo >"$2"; wait; fi
"""


def _forked(run: Callable[[], object]) -> int:
    """Run something in a child that hears signals as a program does that a terminal starts; return its pid."""
    if child := os.fork():
        return child
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        run()
        os._exit(0)
    except BaseException:
        os._exit(1)


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _build(tmp_path: Path, hangs: Path | None = None) -> Callable[[Path], None]:
    def build(scratch: Path) -> None:
        (scratch / "made").write_text("half")
        words = ["sh", "-c", _TOOL, "sh", str(scratch), str(hangs or "")]
        call(words, env={**ENVIRONMENT, MARK: str(tmp_path)})
        for left in ("near", "far", "near.new", "far.new"):  # the same steps, whatever the tool was at as it ended
            (scratch / left).unlink(missing_ok=True)
        (scratch / "made").write_text("whole")

    return build


def _steps(entry: Path, each: Callable[[int], None]) -> None:
    """Call `each` with the number of every access to the folder of an entry that this process makes from now on."""
    count = 0

    def look(_event: str, words: tuple[Any, ...]) -> None:
        nonlocal count
        if any(str(entry.parent) in str(word) for word in words):
            count += 1
            each(count)

    sys.addaudithook(look)


def _check(tmp_path: Path, entry: Path) -> None:
    """Nothing runs on, the entry is absent or whole, and the next call builds it."""
    assert not outliving(marked(str(tmp_path)))
    assert not entry.exists() or (entry / "made").read_text() == "whole"
    assert (cache.build_once(entry, _build(tmp_path)) / "made").read_text() == "whole"
    assert [path.name for path in entry.iterdir()] == ["made"]
    assert not [*entry.parent.glob(".*.partial"), *entry.parent.glob(".*.damaged")]


def _at_each_step(tmp_path: Path, number: signal.Signals, stride: int) -> int:
    """Kill a build at every `stride`th step; return the number of steps."""
    counted = tmp_path / "counted"

    def count() -> None:
        _steps(tmp_path / "all" / "entry", lambda step: os.write(file, b"."))
        cache.build_once(tmp_path / "all" / "entry", _build(tmp_path))

    file = os.open(counted, os.O_WRONLY | os.O_CREAT)
    assert _ended(_forked(count)) == 0
    os.close(file)
    steps = counted.stat().st_size
    for at in range(1, steps + 1, stride):
        entry = tmp_path / str(at) / "entry"

        def killed(at: int = at, entry: Path = entry) -> None:
            _steps(entry, lambda step: os.kill(os.getpid(), number) if step == at else None)
            cache.build_once(entry, _build(tmp_path))

        assert _ended(_forked(killed)) in (-number, 1)
        _check(tmp_path, entry)
    return steps


@pytest.mark.parametrize("number", _SIGNALS, ids=lambda number: number.name)
def test_a_build_killed_at_some_steps(tmp_path: Path, number: signal.Signals) -> None:
    assert _at_each_step(tmp_path, number, _STRIDE) > 3 * _STRIDE


@pytest.mark.nightly
@pytest.mark.parametrize("number", _SIGNALS, ids=lambda number: number.name)
def test_a_build_killed_at_each_step(tmp_path: Path, number: signal.Signals) -> None:
    assert _at_each_step(tmp_path, number, 1) > 3 * _STRIDE


@pytest.mark.parametrize("number", _SIGNALS, ids=lambda number: number.name)
def test_a_build_killed_while_its_tool_runs_ends_with_all_that_the_tool_started(
    tmp_path: Path, number: signal.Signals
) -> None:
    entry, ready = tmp_path / "cache" / "entry", tmp_path / "ready"
    os.mkfifo(ready)
    builder = _forked(lambda: cache.build_once(entry, _build(tmp_path, hangs=ready)))
    ready.read_text()
    assert len(marked(str(tmp_path))) >= 3
    os.kill(builder, number)
    assert _ended(builder) in (-number, 1)
    _check(tmp_path, entry)


def test_who_waits_for_a_killed_builder_begins_once_the_last_of_its_tools_is_gone(tmp_path: Path) -> None:
    entry, ready = tmp_path / "cache" / "entry", tmp_path / "ready"
    os.mkfifo(ready)
    first = _forked(lambda: cache.build_once(entry, _build(tmp_path, hangs=ready)))
    ready.read_text()

    def wait() -> None:
        def build(scratch: Path) -> None:
            assert not marked(str(tmp_path))
            (scratch / "made").write_text("whole")

        cache.build_once(entry, build)

    second = _forked(wait)
    os.kill(first, signal.SIGKILL)
    assert (_ended(first), _ended(second)) == (-signal.SIGKILL, 0)
    _check(tmp_path, entry)
