# SPDX-License-Identifier: Apache-2.0
"""Player samples: what the page's player says of itself, every 250 ms, written to player.jsonl."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

#: To be added to the page before its own scripts run.
SCRIPT = Path(__file__).with_name("player.js")
#: The same for a page that calls, after SCRIPT.
CALL_SCRIPT = Path(__file__).with_name("call.js")
DRAIN = "() => window.__sojourn ? window.__sojourn.drain() : []"
_MISSES = 3  # calls in a row without an answer after which the page counts as lost
#: Longer than any pause of a page that still lives.
_SILENT_S = 8.0
_LOG = logging.getLogger("sojourn.player")


class PlayerSample(BaseModel):
    """One sample; times in Unix seconds (`t`) and film seconds (`currentTime`, `buffer` = ahead of it).

    `width`, `height` are the decoded picture's, in px; `place` is where it is on the screen: x, y, width, height in px.
    """

    model_config = ConfigDict(frozen=True)

    t: float
    playing: bool
    quality: str
    width: int
    height: int
    place: tuple[int, int, int, int] | None = None
    currentTime: float
    buffer: float
    readyState: int
    totalFrames: int
    droppedFrames: int
    waiting: bool


class Page(Protocol):
    """What the recorder needs of a browser; to be safe to call from any thread."""

    def evaluate(self, script: str) -> Any: ...


class PlayerRecorder:
    """Fetches the samples that the page keeps and appends them to a file, once a second, in a thread."""

    def __init__(self, page: Page, path: Path, period: float = 1.0) -> None:
        """`period` in seconds: how often the page is asked, not how often it samples."""
        self._page, self._path, self._period = page, path, period
        self._latest: PlayerSample | None = None
        self._waits = 0
        self._played = False
        self._failure: str | None = None
        self._drained = 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="player-samples", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def latest(self) -> PlayerSample | None:
        """The newest sample, at most `period` + 0.25 s old while the page answers."""
        return self._latest

    @property
    def waits(self) -> int:
        """How often the player has stopped to wait for data since it first played."""
        return self._waits

    @property
    def failure(self) -> str | None:
        """Why there are no more samples (page crashed or hangs, disk full); None while they come."""
        if self._failure is None and self._drained and time.monotonic() - self._drained > _SILENT_S:
            return f"the page has not answered for {_SILENT_S:g} s"
        return self._failure

    def _run(self) -> None:
        with self._path.open("a", buffering=1) as file:
            misses = 0
            while True:
                last = self._ending.wait(self._period)
                try:
                    lines = self._page.evaluate(DRAIN)
                    misses, self._drained = 0, time.monotonic()
                except Exception as error:  # a crashed page must not take what was recorded with it
                    lines = []
                    misses += 1  # one alone: the page went on to another while it was asked
                    if misses == _MISSES:
                        self._failure = str(error).splitlines()[0]
                        _LOG.warning("the page no longer answers: %s", self._failure)
                        return
                for line in lines:
                    file.write(json.dumps(line) + "\n")
                    self._note(line)
                if last:
                    return

    def _note(self, line: dict[str, Any]) -> None:
        event = line.get("event")
        if event is None:
            self._latest = PlayerSample.model_validate(line)
        elif event == "playing":
            self._played = True
        elif event == "waiting" and self._played:
            self._waits += 1
        elif event == "failed":
            self._failure = str(line["detail"])

    def stop(self) -> None:
        """Fetch what is left and close the file."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
