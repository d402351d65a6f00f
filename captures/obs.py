# SPDX-License-Identifier: Apache-2.0
"""Record an X11 screen with OBS Studio; what is left is the same as captures/screen.py leaves.

OBS writes at a steady rate: in place of a frame that it could not draw in time (lagged) or encode (skipped) stands the
one before it once more. So frame i belongs to `start` + its pts whatever happened, and `missing` is what OBS counted.
`start` comes from the slate with which the recording begins (captures/obs_control.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.captures.screen import QUANTISER, Screen, ScreenRecorder, progress_file, remux, write
from sojourn.hardware.confine.decoder import decoder, our_own
from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.viewer import alone, as_viewer, viewer_folder
from sojourn.scoring.picture.frames import QUIET, RecordingError, frame_times, recording

CONTROL = Path(__file__).with_name("obs_control.py")
Edge = tuple[bool, float, float]
"""The slate was shown or taken away; Unix times before and after."""
_SLATE_RGB, _NEAR = (255, 0, 255), 60
#: OBS draws in software where there is no graphics card: at 1280x720 that takes 0.8 of a core, at half of it 0.3. With
#: fewer cores than these it records at half the display's size.
FULL_SIZE_CORES = 3
_SEARCH_S, _STEP_S = 1.0, 0.0005
#: Share of the slate's frames that must show what was asked.
_AGREE = 0.8


@dataclass(frozen=True)
class ObsScreen(Screen):
    """screen.json of OBS: `start` is known to `start_error` s; `missing` were lagged or skipped since the slate."""

    recorder: str = "obs"
    start_error: float = 0.0
    lagged: int = 0
    skipped: int = 0
    slate: Sequence[Edge] = ()


class ObsRecorder(ScreenRecorder):
    """A running recording by OBS."""

    program, package = "obs", "obs-studio"

    def __init__(self, run: Path, process: Process, start: float, scratch: Path) -> None:
        super().__init__(run, process, start)
        self._scratch = scratch

    @classmethod
    def start(
        cls,
        display: str,
        run: Path,
        *,
        place: Place = LOCAL,
        size: tuple[int, int] = (1280, 720),
        fps: int = 30,
        quantiser: int = QUANTISER,
        wrap: Sequence[str] = (),
        timeout: float = 45,
    ) -> ObsRecorder:
        """Record `display` into run/screen.mp4; return once frames are written and their times can be known.

        `wrap` should give it a real-time priority: a frame that OBS draws some ms late shows the film's next one, if
        that is due then, and misses one (of 30 it saw 24 beside a browser).

        Raises ProcessError when OBS does not start or writes nothing within `timeout` seconds.
        """
        scale = 1.0 if len(os.sched_getaffinity(0)) >= FULL_SIZE_CORES else 0.5
        scratch = viewer_folder("-obs")
        # OBS answers at every address of its namespace: in one of its own that is the loopback. In a lab's it must
        # stay, as the display is reached there alone; that one has no way out.
        in_lab = "nsenter" in place.prefix
        command = [sys.executable, "-P", str(CONTROL), display, str(scratch), str(_part(run)), str(progress_file(run))]
        command += [f"{size[0]}x{size[1]}", str(scale), str(fps), str(quantiser)]
        command += as_viewer(inside=not in_lab or "--user" in place.prefix)
        try:
            process = Process.start(
                place if in_lab else alone(),
                command,
                stderr=run / "screen.log",
                ready="^recording$",
                timeout=timeout,
                wrap=wrap,
            )
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        slate = [tuple(edge) for edge in _told(run)["slate"]]
        width, height = (round(side * scale) for side in size)
        # Known now, so that a killed run still knows when its frames were shown.
        write(run, ObsScreen(slate[0][1], fps, width, height, frames=0, expected=0, missing=0, slate=slate))
        return cls(run, process, slate[0][1], scratch)

    def stop(self) -> ObsScreen:
        """End the recording and say what was recorded; errors as finish()."""
        try:
            self.process.stop(grace=30)
            return finish(self.run)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)


def finish(run: Path) -> ObsScreen:
    """Turn what OBS wrote in `run` into screen.mp4 and complete screen.json; also for an OBS that was killed.

    FileNotFoundError when nothing was recorded, ProcessError or RecordingError when it cannot be read or its slate
    cannot be found.
    """
    begun = json.loads((run / "screen.json").read_text())
    whole, slate = run / "screen.mp4", begun["slate"]
    with our_own():
        if _part(run).exists():
            remux(_part(run), whole)
            _part(run).parent.rmdir()
        facts = _told(run)
        progress_file(run).unlink(missing_ok=True)
        times = frame_times(whole)
        seen = slate_seen(whole, slate[-1][2] - slate[0][1] + 2 * _SEARCH_S)
    start, error = first_frame(times[: len(seen)], seen, slate)
    lost = {name: facts.get(name, begun[name]) for name in ("lagged", "skipped")}
    screen = ObsScreen(
        **begun
        | lost
        | {
            "start": start,
            "start_error": error,
            "frames": len(times),
            "expected": len(times),
            "missing": sum(lost.values()),
        }
    )
    write(run, screen)
    return screen


def first_frame(times: Sequence[float], seen: npt.NDArray[np.bool_], slate: Sequence[Edge]) -> tuple[float, float]:
    """Unix time of the recording's time 0, and by how much it may be wrong, in s.

    `times` are those of its first frames, `seen` says which show the slate. The answer is where most frames show what
    was shown then. Raises RecordingError when too few do.
    """
    if not seen.any():
        raise RecordingError("the recording of OBS begins with no slate: the times of its frames are not known")
    shown, before, after = (np.array(column) for column in zip(*slate, strict=True))
    t = np.array(times)
    guess = before[0] - t[seen.argmax()]
    starts = guess + np.arange(-_SEARCH_S, _SEARCH_S, _STEP_S)
    at = starts[:, None] + t[None, :]
    asked, done = np.searchsorted(before, at), np.searchsorted(after, at)  # changes until then
    state = np.concatenate([[False], shown])[done]
    right = ((asked != done) | (state == seen)).mean(axis=1)
    if right.max() < _AGREE:
        raise RecordingError(
            f"the slate of OBS is read in {right.max():.0%} of its frames, too few to know their times"
        )
    best = starts[right == right.max()]
    return float(best.min() + best.max()) / 2, float(best.max() - best.min()) / 2


def slate_seen(video: Path, seconds: float) -> npt.NDArray[np.bool_]:
    """Which of the first frames show the slate alone. Raises RecordingError."""
    size = 16, 9
    with decoder("ffmpeg", [video]) as ready:
        command = [*ready.command, *QUIET, "-nostdin", "-t", f"{seconds:.3f}", *recording(ready.names[video])]
        command += ["-vf", f"scale={size[0]}:{size[1]}:flags=area", "-fps_mode", "passthrough"]
        command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"]
        done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise RecordingError(f"recording {video} cannot be read: {done.stderr.decode(errors='replace').strip()}")
    pixels = np.frombuffer(done.stdout, np.uint8).reshape(-1, size[0] * size[1], 3).astype(int)
    return np.asarray((np.abs(pixels - _SLATE_RGB) < _NEAR).all(axis=(1, 2)))


def _part(run: Path) -> Path:
    return run / "obs" / "screen.part.mkv"


def _told(run: Path) -> dict[str, Any]:
    """What obs_control.py has told so far; of each thing the newest."""
    facts: dict[str, Any] = {}
    file = progress_file(run)
    for line in file.read_text().splitlines(keepends=True) if file.exists() else []:
        if line.endswith("\n"):
            facts |= json.loads(line)
    return facts
