# SPDX-License-Identifier: Apache-2.0
"""A clock's offset: its own clock agrees with itself, another one's is told with its error, silence is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.machine import clock
from sojourn.hardware.machine.clock import Offset, clock_offset, seconds
from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.hardware.machine.process import ProcessError
from tests.refusals import refusal


def with_date(folder: Path, script: str) -> Place:
    """A place whose date is another program."""
    (date := folder / "date").write_text(f"#!/bin/sh\n{script}\n")
    date.chmod(0o755)
    return Place("apu", ("env", f"PATH={folder}:/usr/bin:/bin"))


def test_our_own_clock_needs_no_correction() -> None:
    offset = clock_offset(LOCAL)
    assert abs(offset.seconds) <= offset.error < 0.5 and offset.correction == 0


def test_a_clock_five_minutes_ahead_is_corrected(tmp_path: Path) -> None:
    offset = clock_offset(with_date(tmp_path, 'exec /bin/date -d "+300 seconds" "$@"'))
    assert offset.seconds == offset.correction == pytest.approx(300, abs=offset.error + 1e-6)


def test_a_date_without_nanoseconds_is_read() -> None:
    assert seconds(b"1700000000.%N\n") == 1_700_000_000 and seconds(b"5.25\n") == 5.25


@pytest.mark.parametrize("said", ["1700000000.%N", "1700000000."])
def test_an_offset_to_a_clock_of_whole_seconds_is_refused(tmp_path: Path, said: str) -> None:
    with refusal(ProcessError, "missing-program", "apu: ", "coreutils"):
        clock_offset(with_date(tmp_path, f"echo {said}"))


def test_clocks_that_may_agree_are_left_alone() -> None:
    assert Offset(0.004, 0.005).correction == 0 and Offset(-0.006, 0.005).correction == -0.006


@pytest.mark.parametrize("script", ["exit 1", "echo noon"])
def test_a_place_that_tells_no_time_is_named(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_SILENCE_S", 1.0)
    with refusal(ProcessError, "no-answer", "apu: "):
        clock_offset(with_date(tmp_path, script))
