# SPDX-License-Identifier: Apache-2.0
"""Record an X11 screen with ffmpeg, each frame with the wall-clock time at which it was grabbed.

While it records, the file is a fragmented mp4, readable at any moment and after any kill; at the end it is remuxed
losslessly to a plain mp4 with its index first. In real time, x11grab grabs the screen at a fixed rate; its timestamps
(the host's real-time clock just before the grab) are never rounded to the frame grid, so that late frames and gaps
show. In simulated time, `on_change` records a frame per change, at the time of the change.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from sojourn.hardware.confine.decoder import decoder, trusted_files
from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.hardware.machine.programs import find
from sojourn.hardware.machine.viewer import viewer
from sojourn.scoring.picture.recording import QUIET, frame_times, input_options

FPS = 60
"""Twice a film's frame rate: at the same rate, a frame shown between two grabs would be missed and look dropped."""
NEEDED_FPS = 30
"""Frames/s that the evidence must have: a longer gap counts as a missing frame."""
UNCHANGED_FPS = 2
"""Frames/s of an unchanged screen if only changes are recorded: they show that the recorder works."""
QUANTISER, FINE_QUANTISER = 24, 16
"""x264's constant quantiser: for a picture with a strip; and for a picture without one, which must preserve the traces
of upscaling, fainter than edges (scoring/picture/blind/resolution.py)."""
TIMESCALE = 90_000  # ticks per second of the file's timestamps
_ON_CHANGE = Path(__file__).with_name("on_change.py")
_START = re.compile(r"Duration: N/A, start: (\d+\.\d+)")


@dataclass(frozen=True)
class Screen:
    """screen.json. Frame i was grabbed at `start` + its pts; `missing` of `expected` slots of 1/30 s are empty.

    `width` and `height` are the recording's, in px. With `on_change`, every frame was grabbed when the screen changed
    to it, `fps` is that of an unchanged screen, and slots are 1/`fps` s long.
    """

    start: float  # Unix seconds of frame 0
    fps: int
    width: int
    height: int
    frames: int
    expected: int
    missing: int
    recorder: str = "ffmpeg"
    on_change: bool = False


class ScreenRecorder:
    """A running recording. Create one with `start`, end it with `stop`."""

    #: The recording program, for sojourn.hardware.machine.programs, and its package.
    program, package = "ffmpeg", "ffmpeg"

    def __init__(self, run: Path, process: Process, start: float) -> None:
        self.run, self.process, self.started = run, process, start

    @classmethod
    def check(cls) -> None:
        """Raise ProcessError with the fix if the recording program is missing."""
        if find(cls.program) is None:
            raise ProcessError(
                f"--recorder={cls.program}: {cls.program} is missing (apt install {cls.package})",
                code="missing-program",
            )

    @classmethod
    def start(
        cls,
        display: str,
        run: Path,
        *,
        place: Place = LOCAL,
        size: tuple[int, int] = (1280, 720),
        fps: int = FPS,
        quantiser: int = QUANTISER,
        on_change: bool = False,
        wrap: Sequence[str] = (),
        timeout: float = 15,
    ) -> ScreenRecorder:
        """Record `display` (":99") to run/screen.mp4; return once the first frame is encoded.

        `on_change` records a frame per change instead of `fps` frames/s; it requires simulated time.

        Raises ProcessError if ffmpeg cannot open the display or encodes nothing within `timeout` s.
        """
        width, height = size
        fps = UNCHANGED_FPS if on_change else fps
        before = (
            [sys.executable, "-P", str(_ON_CHANGE), display, str(width), str(height), str(fps)] if on_change else []
        )
        command = [*before, "ffmpeg", "-hide_banner", "-nostdin", "-loglevel", "info", "-nostats", "-y"]
        command += ["-progress", "pipe:1", "-stats_period", "0.25"]
        if on_change:
            command += ["-f", "ivf", "-i", "pipe:0", *encoding(FPS, quantiser)]
        else:
            command += ["-f", "x11grab", "-framerate", str(fps), "-video_size", f"{width}x{height}"]
            command += ["-draw_mouse", "0", "-thread_queue_size", "64", "-i", display, *encoding(fps, quantiser)]
        command += ["-fps_mode", "passthrough", "-enc_time_base", f"1:{TIMESCALE}"]
        command += ["-video_track_timescale", str(TIMESCALE), "-flush_packets", "1"]
        command += ["-movflags", "+frag_keyframe+empty_moov+default_base_moof", "-frag_duration", "1000000"]
        log = run / "screen.log"
        # The viewer cannot open the run's files, so the recorder inherits this one.
        with _part(run).open("wb") as part:
            process = Process.start(
                viewer(place),
                [*command, "-f", "mp4", f"pipe:{part.fileno()}"],
                stdout=progress_file(run),
                stderr=log,
                ready=r"^frame=[1-9]",
                ready_in="stdout",
                timeout=timeout,
                wrap=wrap,
                pass_fds=[part.fileno()],
            )
        opened = _START.search(log.read_text(errors="replace"))
        if opened is None:
            process.stop()
            raise ProcessError(f"{place.name}: ffmpeg printed no start time for {display}; see {log}")
        start = float(opened[1])
        # Written now, so that a killed run still has the times of its frames.
        write(run, Screen(start, fps, width, height, frames=0, expected=0, missing=0, on_change=on_change))
        return cls(run, process, start)

    def stop(self) -> Screen:
        """Stop the recording and return what was recorded. Raises RecordingError if the file cannot be read."""
        self.process.stop()
        return finish(self.run)


def encoding(fps: int, quantiser: int) -> list[str]:
    """Return ffmpeg's encoding options for a screen of `fps` frames/s."""
    # One thread and no B-frames: nothing waits in the encoder, and packets are in display order.
    options = ["-c:v", "libx264", "-preset", "superfast", "-bf", "0", "-threads", "1"]
    # One quantiser for all frames, and no size optimisation: a third of the encoder's CPU time.
    options += ["-qp", str(quantiser), "-x264-params", f"fps={fps}:cabac=0:weightp=0:scenecut=0"]
    # The colour of every second pixel instead of the mean of two saves a seventh of the recorder's CPU time.
    options += ["-sws_flags", "neighbor", "-pix_fmt", "yuv420p", "-g", str(5 * fps)]
    # Key frames also by time: on a host too slow for all frames, the key frames that scoring seeks to would be rare.
    return [*options, "-force_key_frames", "expr:gte(t,n_forced*5)"]


def finish(run: Path) -> Screen:
    """Convert the recording in `run` to screen.mp4 and complete screen.json, also after a killed recorder.

    Raises FileNotFoundError if nothing was recorded, ProcessError or RecordingError if ffmpeg cannot read it.
    """
    begun = json.loads((run / "screen.json").read_text())
    part, whole = _part(run), run / "screen.mp4"
    with trusted_files():
        if part.exists():
            remux(part, whole)
            progress_file(run).unlink(missing_ok=True)
        times = frame_times(whole)
    expected, missing = count_missing(times, min(begun["fps"], NEEDED_FPS))
    screen = Screen(**{**begun, "frames": len(times), "expected": expected, "missing": missing})
    write(run, screen)
    return screen


def remux(part: Path, whole: Path) -> None:
    """Move the pictures of `part` to the mp4 `whole` losslessly. Raises ProcessError if ffmpeg cannot read it."""
    with decoder("ffmpeg", [part], [whole]) as ready:
        command = [*ready.command, *QUIET, "-nostdin", "-y", *input_options(ready.names[part]), "-map", "0:v"]
        command += ["-c", "copy", "-video_track_timescale", str(TIMESCALE)]
        command += ["-movflags", "+faststart", ready.names[whole]]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        whole.unlink(missing_ok=True)  # a broken copy (disk full) next to the readable part would mislead
        raise ProcessError(f"cannot remux the screen recording {part}: {done.stderr.strip()}")
    part.unlink()


def count_missing(times: Sequence[float], fps: float) -> tuple[int, int]:
    """Return (expected, missing) frames: a gap of n frame times misses n - 1, even if as many follow quickly."""
    if not times:
        return 0, 0
    missing = sum(max(0, round((b - a) * fps) - 1) for a, b in pairwise(times))
    return round((times[-1] - times[0]) * fps) + 1, missing


def _part(run: Path) -> Path:
    return run / "screen.part.mp4"


def progress_file(run: Path) -> Path:
    """Return the file with the recorder's progress."""
    return run / "screen.progress"


def write(run: Path, screen: Screen) -> None:
    """Write screen.json."""
    (run / "screen.json").write_text(json.dumps(asdict(screen), indent=1) + "\n")
