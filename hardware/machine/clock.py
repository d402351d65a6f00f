# SPDX-License-Identifier: Apache-2.0
"""The offset between a place's clock and this host's."""

from __future__ import annotations

import select
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process, ProcessError

DATE_LOOP = "while read -r _; do date +%s.%N; done"
"""A shell loop that answers every line with the time."""
_TRIES = 5
_SILENCE_S = 10.0


@dataclass(frozen=True)
class Offset:
    """The clock there is `seconds` ahead of this host's, ± `error` (s)."""

    seconds: float
    error: float

    @property
    def correction(self) -> float:
        """Seconds to subtract from times there; 0 if the clocks may agree."""
        return self.seconds if abs(self.seconds) > self.error else 0.0


def clock_offset(place: Place) -> Offset:
    """Query the clock of `place` a few times; the shortest exchange is the most precise, to half its duration.

    Raises `sojourn.hardware.machine.process.ProcessError`, also if its `date` has no fractions of a second: packets
    captured there would be up to 1 s from where they belong among those captured here.
    """
    shell = Process.start(place, ["sh", "-c", DATE_LOOP], stdin=True, stdout="pipe")
    try:
        return min((_sampled_offset(shell) for _ in range(_TRIES)), key=lambda offset: offset.error)
    finally:
        assert shell.popen.stdin is not None
        with suppress(OSError, ProcessError):  # the first failure counts
            shell.popen.stdin.close()
            shell.wait(_SILENCE_S)
        shell.stop()


def clock_offsets(places: Iterable[Place]) -> dict[Place, Offset]:
    """Measure the clock of every place once, so that two points at one place agree. Raises as clock_offset does."""
    return {place: clock_offset(place) for place in dict.fromkeys(places)}


def seconds(said: bytes) -> float:
    """Parse a clock's answer; a `date` without nanoseconds prints the format."""
    return float(said.decode().strip().removesuffix("%N"))


def _sampled_offset(shell: Process) -> Offset:
    stdin, stdout = shell.popen.stdin, shell.popen.stdout
    assert stdin is not None and stdout is not None
    sent = time.time()
    try:
        stdin.write(b"\n")
        stdin.flush()
        answer = stdout.readline() if select.select([stdout], [], [], _SILENCE_S)[0] else b""
        answered = time.time()
        if answer.strip().removesuffix(b"%N").endswith(b"."):
            raise ProcessError(
                f"{shell.place.name}: its `date` prints whole seconds; install one that prints nanoseconds (coreutils; "
                "for OpenWrt, coreutils-date)",
                code="missing-program",
            )
        there = seconds(answer)
    except (OSError, ValueError) as failed:
        raise ProcessError(
            f"{shell.place.name}: its clock gave no answer: {shell.log_tail() or failed}", code="no-answer"
        ) from failed
    return Offset(there - (sent + answered) / 2, (answered - sent) / 2)
