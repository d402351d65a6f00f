# SPDX-License-Identifier: Apache-2.0
"""A job, which fills a folder and reports how far it is, and the engines that run jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

from sojourn.hardware.machine.errors import CodedError


class EngineError(CodedError):
    """An engine cannot run jobs; one line that says why."""


class Channel:
    """What a running job reports to the process that waits for it."""

    def __init__(self, send: Callable[[str, Any], None], check: Callable[[], None] = lambda: None) -> None:
        """`check` raises where nobody waits for the job any more; other engines end the job's process instead."""
        self._send, self.check = send, check

    def line(self, text: str) -> None:
        """Report a line for the user."""
        self._send("line", text)

    def done(self, seconds: float) -> None:
        """Report how many seconds of the experiment are over."""
        self._send("done", seconds)

    def versions(self, versions: Mapping[str, str]) -> None:
        """Report versions for the run's manifest."""
        self._send("versions", dict(versions))


class Job(Protocol):
    """One run to be made; engines pickle it. It may be begun again in the same folder where its worker is lost."""

    def __call__(self, folder: Path, channel: Channel) -> None:
        """Fill `folder`, which exists. Raises RuntimeError or OSError, in one line, when the run fails."""


class Event(NamedTuple):
    """What an engine reports of the job that fills `folder`."""

    folder: Path
    kind: Literal["line", "done", "versions", "ended"]
    what: Any
    """As `Channel` sends it; of a job that has ended: why it failed, in one line, or an empty text."""


Digest = Callable[[], str]
"""Computes a digest of everything that determines the runs, where it is called; can be pickled."""


class Engine(Protocol):
    """Runs jobs. Leaving it as a context ends every job that still runs."""

    def free(self, running: int) -> int:
        """Return how many more jobs may begin now, next to `running` others. Raises EngineError."""

    def submit(self, job: Job, folder: Path) -> None:
        """Begin a job in `folder`, which no other job of the engine has."""

    def events(self, timeout_s: float) -> list[Event]:
        """Return what jobs report, waiting at most `timeout_s` for it; `ended` is a job's last. Raises EngineError."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def failure(error: BaseException) -> str:
    """Return why a job failed, in one line."""
    return f"{type(error).__name__}: {error}"
