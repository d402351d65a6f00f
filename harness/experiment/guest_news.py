# SPDX-License-Identifier: Apache-2.0
"""What the experiment inside a simulated machine tells, passed on to the display outside."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sojourn.hardware.machine.files import read_foreign
from sojourn.hardware.machine.messages import printable
from sojourn.harness.experiment.progress import ExperimentProgress
from sojourn.harness.lab.machine import SimulatedError

#: The machine reports twice per simulated second while it records; its set-up takes longest.
SILENCE_S = 300.0
#: Bytes of news read at once, and of a line; maximum for a run: a day has 40 MB.
_MOST_NEWS, _ALL_NEWS = 64 << 10, 256 << 20
#: Characters of what is no news.
_LONGEST = 80


def _shown(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


_Line = Annotated[str, Field(max_length=1000), AfterValidator(_shown)]
#: Limits of a display's values; none is infinite.
_Number = Annotated[float, Field(ge=-1e15, le=1e15)]
_Seconds = Annotated[float, Field(ge=0, le=1e9)]


class _Known(TypedDict, total=False):
    """What a display shows (`sojourn.harness.experiment.progress.Sample`), as a machine tells it."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    victim_bps: _Number | None
    contender_bps: _Number | None
    quality: Annotated[str, Field(max_length=100), AfterValidator(printable)] | None
    playing: bool | None
    buffer_s: _Number | None
    stalls: Annotated[int, Field(ge=0, lt=1 << 53)]


_NewsLine = (
    tuple[_Seconds, Literal["say"], _Line]
    | tuple[_Seconds, Literal["phase"], Annotated[int, Field(ge=0)]]
    | tuple[_Seconds, Literal["update"], _Known]
)
_NEWS: TypeAdapter[_NewsLine] = TypeAdapter(_NewsLine)
#: Looks come several a second: what is longer, we were stopped ourselves, and the machine with us.
_LOOK_S = 1.0


class SimulatedClock:
    """Seconds of simulated time, as last reported."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class GuestNews:
    """Reads the machine's news, and forwards it to the display."""

    def __init__(self, file: Path, progress: ExperimentProgress, clock: SimulatedClock) -> None:
        self._file, self._progress, self._clock = file, progress, clock
        self._phases = len(progress.phases)
        self._read, self._rest, self._silent_s, self._looked = 0, b"", 0.0, time.monotonic()

    def pass_on(self) -> None:
        """Forward new events. Raises SimulatedError if the machine has been silent for too long."""
        now = time.monotonic()
        self._silent_s += min(now - self._looked, _LOOK_S)
        self._looked = now
        with suppress(FileNotFoundError):
            if self._file.lstat().st_size > _ALL_NEWS:
                raise SimulatedError(
                    f"{self._file.name}: the simulated machine wrote more than {_ALL_NEWS >> 20} MiB", code="too-large"
                )
        if fresh := _more(self._file, self._read):
            self._read += len(fresh)
            *lines, self._rest = (self._rest + fresh).split(b"\n")
            for line in lines:
                self._silent_s = 0.0
                self._forward(line)
            if len(self._rest) > _MOST_NEWS:
                raise SimulatedError(
                    f"{self._file.name}: the simulated machine wrote an endless line", code="too-large"
                )
        if self._silent_s > SILENCE_S:
            raise SimulatedError(f"the simulated machine hangs: no news for {self._silent_s:.0f} s", code="no-answer")

    def _forward(self, line: bytes) -> None:
        """Forward a line. Raises SimulatedError for invalid news."""
        try:
            now, _, what = _NEWS.validate_json(line)
        except ValidationError as wrong:
            raise SimulatedError(f"{self._file.name}: no news: {line[:_LONGEST]!r}", code="damaged") from wrong
        self._clock.now = now
        if isinstance(what, dict):
            self._progress.update(**what)
        elif isinstance(what, str):
            self._progress.say(what)
        elif what < self._phases:
            self._progress.phase(what)
        else:
            raise SimulatedError(f"{self._file.name}: no news: phase {what} of {self._phases}", code="damaged")


def _more(file: Path, start: int) -> bytes:
    """Return what a machine wrote to a file after `start`, at most _MOST_NEWS bytes.

    Raises SimulatedError if it is not a file.
    """
    try:
        return read_foreign(file, _MOST_NEWS, start)
    except BlockingIOError:  # a lease of the machine's, which silence ends
        return b""
    except OSError as error:
        raise SimulatedError(
            f"{file.name}: {error.strerror}; the simulated machine did not write a file there", code="not-a-file"
        ) from error
