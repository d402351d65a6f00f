# SPDX-License-Identifier: Apache-2.0
"""A program that records an X display with OBS Studio, controlled by its websocket, until SIGINT.

    python obs_control.py DISPLAY SCRATCH FILE.mkv PROGRESS WIDTHxHEIGHT SCALE FPS QUANTISER WORDS…

Runs at the display's host. Records the display of WIDTHxHEIGHT px at SCALE times its size. WORDS are a prefix to OBS's
command and make it run as the user of SCRATCH, who can reach FILE only because OBS is started in its folder.

Writes lines of JSON to PROGRESS: first, once OBS records, `{"obs": version, "slate": [[shown, before, after], …]}`,
then every second `{"frames": …, "lagged": …, "skipped": …}`, the last two since the slate. After the first line it
prints "recording" to stderr. If OBS ends by itself, it ends too, with one line on stderr.

OBS gives its frames no time of day. So the recording begins with a slate: a coloured source with which OBS covers and
uncovers the recorded picture (not the display) at known times that are spread over the frame interval.
captures/obs.py finds them in the file.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import socket
import string
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

import psutil
from obsws_python import ReqClient  # type: ignore[import-untyped]
from obsws_python.error import OBSSDKError  # type: ignore[import-untyped]
from websocket import WebSocketException

NAME = "Sojourn"
"""The scene in `obs_studio/`; its item `SLATE` is the slate."""
SLATE = 2
#: Magenta, in OBS's order: alpha, blue, green, red.
SLATE_ABGR = 0xFFFF00FF
#: The number of slate changes and the frames between two; the fraction shifts every change by one step.
EDGES, STAYS = 12, 4
_READY_S, _STOP_S, _REPORT_S, _REAPED_S = 20.0, 10.0, 1.0, 1.0
#: OBS's configuration files, with `$NAME` for the values of a recording.
_CONFIGURATION = Path(__file__).with_name("obs_studio")


class ObsError(RuntimeError):
    """OBS did not start, or has stopped recording."""


def files(
    *, part: Path, size: tuple[int, int], scale: float, fps: int, quantiser: int, port: int, password: str
) -> Mapping[str, str]:
    """Return OBS's configuration: path below its folder → text. It records to `part` as captures/screen.py does.

    `size` is the display's size in px; the recording has `scale` times that.
    """
    width, height = (round(side * scale) for side in size)
    values = {
        "folder": part.parent, "stem": part.stem, "width": width, "height": height, "scale": scale, "fps": fps,
        "quantiser": quantiser, "port": port, "password": password, "slate": SLATE, "slate_abgr": SLATE_ABGR,
    }  # fmt: skip
    return {
        str(file.relative_to(_CONFIGURATION)): string.Template(file.read_text()).substitute(values)
        for file in sorted(_CONFIGURATION.rglob("*"))
        if file.is_file()
    }


def start(
    display: str, scratch: Path, config: Mapping[str, str], folder: Path, words: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Start OBS on `display` with `config`, in `folder`, without a visible window; it ends with this process."""
    for name, text in config.items():
        (file := scratch / "obs-studio" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    owner = scratch.stat()
    for path in scratch.rglob("*"):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    environment = {
        **dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"), str(scratch)),
        "DISPLAY": display,
        "DBUS_SESSION_BUS_ADDRESS": "disabled:",
        # Its window would be visible on the recorded display.
        "QT_QPA_PLATFORM": "offscreen",
        "LIBGL_ALWAYS_SOFTWARE": "1",
    }
    own = (f"{name}={value}" for name, value in environment.items())
    program = [*words, *own, "obs", "--multi", "--disable-updater"]
    return subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=sys.stderr, cwd=folder)


def connect(obs: subprocess.Popen[bytes], port: int, password: str) -> ReqClient:
    """Return a client once OBS accepts requests."""
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            client = ReqClient(host="127.0.0.1", port=port, password=password, timeout=5)
            client.get_stats()  # refused until everything is loaded
            return client
        except (OSError, WebSocketException, OBSSDKError) as error:
            if obs.poll() is not None:
                raise
            if time.monotonic() > deadline:
                raise ObsError(f"OBS accepted no requests within {_READY_S:g} s: {error}") from error
            time.sleep(0.05)


def await_frames(client: ReqClient) -> None:
    """Return once OBS has written frames."""
    deadline = time.monotonic() + _READY_S
    while not client.get_record_status().output_duration:
        if time.monotonic() > deadline:
            raise ObsError(f"OBS wrote no frame within {_READY_S:g} s")
        time.sleep(0.02)


def clap(client: ReqClient, fps: int) -> list[tuple[bool, float, float]]:
    """Show and remove the slate several times; return each change with the Unix times before and after it."""
    edges = []
    begin = time.monotonic()
    for number in range(EDGES):
        shown = number % 2 == 0
        time.sleep(max(0.0, begin + number * (STAYS + 1 / EDGES) / fps - time.monotonic()))
        before = time.time()
        client.set_scene_item_enabled(NAME, SLATE, shown)
        edges.append((shown, before, time.time()))
    return edges


def record(client: ReqClient, fps: int, ending: threading.Event, progress: TextIO) -> None:
    """Record until `ending` is set and write `progress`. Raises ObsError if OBS stops before that."""

    def write_facts(**what: object) -> None:
        progress.write(json.dumps(what) + "\n")

    def write_frame_count() -> None:
        stats = client.get_stats()
        lost = {
            "lagged": stats.render_skipped_frames - before.render_skipped_frames,
            "skipped": stats.output_skipped_frames - before.output_skipped_frames,
        }
        write_facts(frames=stats.output_total_frames, **lost)

    client.start_record()
    await_frames(client)
    write_facts(obs=client.get_version().obs_version, slate=clap(client, fps))
    before = client.get_stats()
    print("recording", file=sys.stderr)
    while not ending.wait(_REPORT_S):
        if not client.get_record_status().output_active:
            raise ObsError("OBS has stopped recording")
        write_frame_count()
    write_frame_count()
    client.stop_record()
    deadline = time.monotonic() + _STOP_S
    while client.get_record_status().output_active and time.monotonic() < deadline:
        time.sleep(0.05)


def main(
    display: str, scratch: str, part: str, progress: str, size: str, scale: str, fps: str, quantiser: str, *words: str
) -> None:
    """See the module's docstring."""
    ending = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: ending.set())
    logging.getLogger("obsws_python").setLevel(logging.CRITICAL)  # it logs the password and every attempt to connect
    width, height = map(int, size.split("x"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    password = secrets.token_urlsafe(24)
    (folder := Path(part).parent).mkdir()
    folder.chmod(0o777)  # its parents are closed to others
    config = files(
        part=Path(Path(part).name), size=(width, height), scale=float(scale), fps=int(fps), quantiser=int(quantiser),
        port=port, password=password,
    )  # fmt: skip
    obs = start(display, Path(scratch), config, folder, words)
    writers: list[psutil.Process] = []
    try:
        with connect(obs, port, password) as client, open(progress, "w", buffering=1) as file:
            record(client, int(fps), ending, file)
    except (ObsError, OSError, WebSocketException, OBSSDKError) as error:
        code = _ended(obs)
        raise SystemExit(str(error) if code is None else f"OBS has ended, exit code {code}") from error
    finally:
        if obs.poll() is None:
            writers = psutil.Process(obs.pid).children(recursive=True)
            obs.terminate()
            obs.wait()
        psutil.wait_procs(writers, timeout=_STOP_S)


def _ended(obs: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of OBS; None while it runs. Its socket may break just before it can be reaped."""
    try:
        return obs.wait(_REAPED_S)
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    main(*sys.argv[1:])
