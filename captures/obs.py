# SPDX-License-Identifier: Apache-2.0
"""Record an X11 screen with OBS Studio, with the same result as captures/screen.py.

OBS writes at a constant rate: a frame that it could not draw (lagged) or encode (skipped) in time is replaced by the
previous one. So frame i always belongs to `start` + its pts, and `missing` is OBS's count. `start` is derived from the
slate at the beginning of the recording (captures/obs_control.py).
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
from sojourn.hardware.confine.decoder import decoder, trusted_files
from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.viewer import alone, as_viewer, viewer_folder
from sojourn.scoring.picture.recording import QUIET, RecordingError, frame_times, input_options

CONTROL = Path(__file__).with_name("obs_control.py")
Edge = tuple[bool, float, float]
"""The slate was shown (True) or removed; Unix times before and after."""
_SLATE_RGB, _NEAR = (255, 0, 255), 60
#: OBS draws in software without a graphics card: at 1280x720 that takes 0.8 of a core, at half that size 0.3. With
#: fewer cores than these it records at half the display's size.
FULL_SIZE_CORES = 3
_SEARCH_S, _STEP_S = 1.0, 0.0005
#: Share of frames that must show the requested state of the slate.
_AGREE = 0.8


@dataclass(frozen=True)
class ObsScreen(Screen):
    """screen.json of OBS: `start` is exact to `start_error` s; `missing` were lagged or skipped since the slate."""

    recorder: str = "obs"
    start_error: float = 0.0
    lagged: int = 0
    skipped: int = 0
    slate: Sequence[Edge] = ()


class ObsRecorder(ScreenRecorder):
    """A running OBS recording."""

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
        on_change: bool = False,
        wrap: Sequence[str] = (),
        timeout: float = 45,
    ) -> ObsRecorder:
        """Record `display` to run/screen.mp4; return once frames are written and their times can be determined.

        `wrap` should give OBS a real-time priority: a frame that OBS draws some ms late shows the film's next frame if
        that is due, and misses one (it recorded 24 of 30 next to a browser).

        Raises ProcessError if OBS does not start or writes nothing within `timeout` s.
        """
        scale = 1.0 if len(os.sched_getaffinity(0)) >= FULL_SIZE_CORES else 0.5
        scratch = viewer_folder("-obs")
        # OBS listens on every address of its namespace: in a namespace of its own, that is the loopback. In a lab's it
        # must stay, because the display is reachable only there; a lab's namespace has no way out.
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
        slate = [tuple(edge) for edge in _facts(run)["slate"]]
        width, height = (round(side * scale) for side in size)
        # Written now, so that a killed run still has the times of its frames.
        write(run, ObsScreen(slate[0][1], fps, width, height, frames=0, expected=0, missing=0, slate=slate))
        return cls(run, process, slate[0][1], scratch)

    def stop(self) -> ObsScreen:
        """Stop the recording and return what was recorded; errors as in finish()."""
        try:
            self.process.stop(grace=30)
            return finish(self.run)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)


def finish(run: Path) -> ObsScreen:
    """Convert OBS's recording in `run` to screen.mp4 and complete screen.json, also after OBS was killed.

    Raises FileNotFoundError if nothing was recorded, ProcessError or RecordingError if it cannot be read or its slate
    cannot be found.
    """
    begun = json.loads((run / "screen.json").read_text())
    whole, slate = run / "screen.mp4", begun["slate"]
    with trusted_files():
        if _part(run).exists():
            remux(_part(run), whole)
            _part(run).parent.rmdir()
        facts = _facts(run)
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
    """Return the Unix time of the recording's time 0, and its maximum error, in s.

    `times` are those of its first frames, `seen` says which show the slate. The result is the offset at which most
    frames show the expected state of the slate. Raises RecordingError if too few do.
    """
    if not seen.any():
        raise RecordingError("the OBS recording does not begin with a slate, so the times of its frames are unknown")
    shown, before, after = (np.array(column) for column in zip(*slate, strict=True))
    t = np.array(times)
    guess = before[0] - t[seen.argmax()]
    starts = guess + np.arange(-_SEARCH_S, _SEARCH_S, _STEP_S)
    at = starts[:, None] + t[None, :]
    requested, done = np.searchsorted(before, at), np.searchsorted(after, at)  # changes up to then
    state = np.concatenate([[False], shown])[done]
    right = ((requested != done) | (state == seen)).mean(axis=1)
    if right.max() < _AGREE:
        raise RecordingError(
            f"the OBS slate is as expected in {right.max():.0%} of its frames, too few to determine their times"
        )
    best = starts[right == right.max()]
    return float(best.min() + best.max()) / 2, float(best.max() - best.min()) / 2


def slate_seen(video: Path, seconds: float) -> npt.NDArray[np.bool_]:
    """Return which of the first frames show only the slate. Raises RecordingError."""
    size = 16, 9
    with decoder("ffmpeg", [video]) as ready:
        command = [*ready.command, *QUIET, "-nostdin", "-t", f"{seconds:.3f}", *input_options(ready.names[video])]
        command += ["-vf", f"scale={size[0]}:{size[1]}:flags=area", "-fps_mode", "passthrough"]
        command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise RecordingError(f"cannot read the recording {video}: {done.stderr.decode(errors='replace').strip()}")
    pixels = np.frombuffer(done.stdout, np.uint8).reshape(-1, size[0] * size[1], 3).astype(int)
    return np.asarray((np.abs(pixels - _SLATE_RGB) < _NEAR).all(axis=(1, 2)))


def _part(run: Path) -> Path:
    return run / "obs" / "screen.part.mkv"


def _facts(run: Path) -> dict[str, Any]:
    """Return the newest value of every key that obs_control.py has written."""
    facts: dict[str, Any] = {}
    file = progress_file(run)
    for line in file.read_text().splitlines(keepends=True) if file.exists() else []:
        if line.endswith("\n"):
            facts |= json.loads(line)
    return facts
