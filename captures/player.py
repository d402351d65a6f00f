# SPDX-License-Identifier: Apache-2.0
"""Player samples: the state of the page's player every 250 ms, written to player.jsonl."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from pathlib import Path
from typing import Any, Protocol, TextIO

from pydantic import BaseModel, ConfigDict

#: Injected into the page before its own scripts run.
SCRIPT = Path(__file__).with_name("player.js")
#: Injected after SCRIPT into the page of a call.
CALL_SCRIPT = Path(__file__).with_name("call.js")
#: Injected after SCRIPT into the page of a call with sound.
SOUND_SCRIPT = Path(__file__).with_name("sound.js")
#: Injected after SOUND_SCRIPT into the page of a call whose ends speak sentences.
SPEECH_SCRIPT = Path(__file__).with_name("speech.js")
#: Injected between SCRIPT and CALL_SCRIPT into the page of a call whose screens are not recorded.
PICTURES_SCRIPT = Path(__file__).with_name("pictures.js")
#: Injected after SCRIPT into the page of a stand-in video.
FRAMES_SCRIPT = Path(__file__).with_name("frames.js")
SOUND_PCM = "sound.pcm"
"""The samples of a call's sound as they were heard: 16 bit, little-endian, mono, at the rate that its lines have."""
DRAIN = "() => window.__sojourn ? window.__sojourn.drain() : []"
_MISSES = 3  # consecutive calls without an answer after which the page counts as lost
#: Longer than any pause of a live page, s.
_SILENT_S = 8.0
#: For the last samples, s.
_LAST_S = 10.0
_LOG = logging.getLogger("sojourn.player")


class PlayerSample(BaseModel):
    """One sample; times in Unix seconds (`t`) and film seconds (`currentTime`, `buffer` = ahead of it).

    `width`, `height` are the decoded picture's, in px; `place` is its position on the screen: x, y, width, height in
    px.
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
    """What the recorder needs from a browser; must be callable from any thread."""

    def evaluate(self, script: str) -> Any: ...


class PlayerRecorder:
    """A thread that fetches the page's samples once per second and appends them to a file."""

    def __init__(self, page: Page, path: Path, period: float = 1.0) -> None:
        """`period` (s): the interval of fetches, not of samples.

        The sound that a page hears (captures/sound.js) is appended to SOUND_PCM next to the file, not to its lines.
        """
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
        """The newest sample, at most `period` + 0.25 s old while the page responds."""
        return self._latest

    @property
    def waits(self) -> int:
        """How often the player has stopped to wait for data since it first played."""
        return self._waits

    @property
    def failure(self) -> str | None:
        """Why there are no more samples (page crashed or hangs, disk full); None while they arrive."""
        if self._failure is None and self._drained and time.monotonic() - self._drained > _SILENT_S:
            return f"the page did not answer for {_SILENT_S:g} s"
        return self._failure

    def _run(self) -> None:
        try:
            with self._path.open("a", buffering=1) as file:
                self._record(file)
        except Exception as error:  # of the page, the disk or a sample; recorded samples are kept
            self._fail(str(error).splitlines()[0] if str(error) else type(error).__name__)

    def _record(self, file: TextIO) -> None:
        """Append samples until the end. Raises the page's error when it has not answered _MISSES calls in a row."""
        misses = 0
        while True:
            last = self._ending.wait(self._period)
            try:
                lines = self._page.evaluate(DRAIN)
            except Exception:
                misses += 1  # a single miss: the page navigated during the call
                if misses == _MISSES:
                    raise
                continue
            misses, self._drained = 0, time.monotonic()
            for line in lines:
                if line.get("event") == "heard":
                    self._append(line["detail"].pop("pcm"))
                file.write(json.dumps(line) + "\n")
                self._note(line)
            if last:
                return

    def _fail(self, why: str) -> None:
        self._failure = why
        _LOG.warning("no more samples of the player: %s", why)

    def _append(self, samples: str) -> None:
        with self._path.with_name(SOUND_PCM).open("ab") as file:
            file.write(base64.b64decode(samples))

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
        """Fetch the remaining samples and close the file."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_S)
            if self._thread.is_alive():
                self._fail(f"the page did not answer for {_LAST_S:g} s")
