# SPDX-License-Identifier: Apache-2.0
"""A program that records an X display with ffmpeg, one frame per change, until SIGINT or SIGTERM.

    python on_change.py DISPLAY WIDTH HEIGHT FPS COMMAND…

It runs at the display's host, with XAUTHORITY for the display. COMMAND, an ffmpeg, reads IVF from its standard input:
pictures in I420 with their Unix times in 1/90000 s. Both end together.

The X server reports a change (extension DAMAGE) and copies the screen to shared memory (MIT-SHM) as one request, so a
picture is never half of a drawing request. The first and the last moment are always recorded, and an unchanged screen
FPS times a second: "nothing changed" differs from "the recorder hangs". Those pictures also prove that no change went
unreported; otherwise the program fails.

It speaks X11 itself: xcffib, the library for these extensions, is published without wheels, and the locked environment
and the guest take only wheels.

Only for simulated time: computing takes no time there, so that a picture has the time of its change.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import cv2
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

SETTLE_S = 1e-4
"""Time for a program to finish drawing: in simulated time, all that it draws at once takes less."""
TICKS = 90_000  # per second
_PIPE_BYTES = 1 << 20
_COOKIE = b"MIT-MAGIC-COOKIE-1"
_ERROR, _REPLY = 0, 1
_QUERY_EXTENSION = 98
_ATTACH_FD, _GET_IMAGE = 6, 4
_QUERY_VERSION, _CREATE = 0, 1
_RAW_RECTANGLES = 0
"""DAMAGE's level that reports every drawing: the others omit what overlaps with an earlier one."""
_Z_PIXMAP, _ALL_PLANES = 2, 0xFFFFFFFF
_BYTES_A_PIXEL = 4


class WatchError(RuntimeError):
    """The display cannot be recorded; the message says why."""


class WatchedScreen:
    """A connection to an X server by X11, DAMAGE 1.1 and MIT-SHM 1.2, for `size` pixels of its first screen."""

    def __init__(self, name: str, size: tuple[int, int]) -> None:
        """Raises WatchError if there is no such display, or no such part of it."""
        self.damaged = False
        self._socket = _connected(name)
        self._root, self._ids, screen = self._set_up(name)
        if size[0] > screen[0] or size[1] > screen[1]:
            raise WatchError(f"display {name} has {screen[0]}x{screen[1]} px, not {size[0]}x{size[1]}")
        self.size = size
        self._damage, self._damage_event = self._extension(b"DAMAGE")
        self._shm, _ = self._extension(b"MIT-SHM")
        self._ask(self._damage, _QUERY_VERSION, struct.pack("<II", 1, 1))
        memory = os.memfd_create("screen")
        os.truncate(memory, size[0] * size[1] * _BYTES_A_PIXEL)
        self._send(self._shm, _ATTACH_FD, struct.pack("<IB3x", self._ids, 0), memory)
        self._send(self._damage, _CREATE, struct.pack("<IIB3x", self._ids + 1, self._root, _RAW_RECTANGLES))
        pixels = np.frombuffer(mmap.mmap(memory, 0), np.uint8)
        os.close(memory)
        self.pixels: Pixels = pixels.reshape(size[1], size[0], _BYTES_A_PIXEL)

    def fileno(self) -> int:
        """Return the descriptor that is readable once something changed."""
        return self._socket.fileno()

    def grab(self) -> bool:
        """Copy the screen to `pixels`; return whether the server had reported a change since the last call."""
        part = struct.pack("<I4HIB3xII", self._root, 0, 0, *self.size, _ALL_PLANES, _Z_PIXMAP, self._ids, 0)
        self._ask(self._shm, _GET_IMAGE, part)
        damaged, self.damaged = self.damaged, False
        return damaged

    def _set_up(self, name: str) -> tuple[int, int, tuple[int, int]]:
        """Return the root window, the first free id, and the first screen's size."""
        cookie = _cookie(Path(os.environ.get("XAUTHORITY", os.devnull)))
        scheme = _COOKIE if cookie else b""
        hello = struct.pack("<BxHHHH2x", ord("l"), 11, 0, len(scheme), len(cookie))
        self._socket.sendall(hello + _padded(scheme) + _padded(cookie))
        accepted, said, length = struct.unpack("<BB4xH", self._read(8))
        answer = self._read(4 * length)
        if accepted != 1:
            raise WatchError(f"display {name} refused the recorder: {answer[:said].decode(errors='replace').strip()}")
        ids, vendor, formats = struct.unpack_from("<4xI8xH3xB", answer)
        at = 32 + len(_padded(bytes(vendor))) + 8 * formats
        root, width, height = struct.unpack_from("<I16xHH", answer, at)
        return root, ids, (width, height)

    def _extension(self, name: bytes) -> tuple[int, int]:
        """Return the opcode of an extension's requests and the number of its first event."""
        answer = self._ask(_QUERY_EXTENSION, 0, struct.pack("<H2x", len(name)) + _padded(name))
        present, opcode, event = struct.unpack_from("<8xBBB", answer)
        if not present:
            raise WatchError(f"the X server has no extension {name.decode()}")
        return opcode, event

    def _send(self, opcode: int, minor: int, body: bytes, *descriptors: int) -> None:
        request = struct.pack("<BBH", opcode, minor, 1 + len(body) // 4) + body
        try:
            socket.send_fds(self._socket, [request], descriptors)
        except OSError as error:
            raise WatchError(f"the X server has ended: {error.strerror}") from error

    def _ask(self, opcode: int, minor: int, body: bytes) -> bytes:
        """Send a request and return its reply; events before it are noted."""
        self._send(opcode, minor, body)
        while True:
            message = self._read(32)
            kind = message[0] & 0x7F
            if kind == _ERROR:
                raise WatchError(f"the X server refused request {message[10]}.{message[8]}: error {message[1]}")
            if kind == _REPLY:
                return message + self._read(4 * struct.unpack_from("<I", message, 4)[0])
            if kind == self._damage_event:
                self.damaged = True

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self._socket.recv(count - len(data))
            except OSError as error:
                raise WatchError(f"the X server has ended: {error.strerror}") from error
            if not more:
                raise WatchError("the X server has ended")
            data += more
        return data


def _connected(name: str) -> socket.socket:
    number = name.removeprefix(":").partition(".")[0]
    path = f"/tmp/.X11-unix/X{number}"
    for address in (f"\0{path}", path):
        channel = socket.socket(socket.AF_UNIX)
        try:
            channel.connect(address)
            return channel
        except OSError as error:
            channel.close()
            refused = error
    raise WatchError(f"cannot open display {name}: {refused.strerror}")


def _cookie(authority: Path) -> bytes:
    """Return the first MIT-MAGIC-COOKIE-1 of an Xauthority file; empty without one."""
    data, at = authority.read_bytes(), 0
    while at < len(data):
        fields, at = [], at + 2
        for _ in range(4):
            (length,) = struct.unpack_from(">H", data, at)
            fields.append(data[at + 2 : at + 2 + length])
            at += 2 + length
        if fields[2] == _COOKIE:
            return fields[3]
    return b""


def _padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % 4)


def record(display: WatchedScreen, ivf: IO[bytes], at_least_fps: float, ending: int) -> None:
    """Write every new picture of the display to `ivf`, and at least so many, until the descriptor `ending` is readable.

    Raises WatchError, OSError.
    """
    width, height = display.size
    picture, last = (np.zeros((height * 3 // 2, width), np.uint8) for _ in range(2))
    ivf.write(struct.pack("<4sHH4sHHII8x", b"DKIF", 0, 32, b"I420", width, height, TICKS, 1))
    ended, due, tick = False, 0.0, 0
    while not ended:
        ready, _, _ = select.select([display.fileno(), ending], [], [], max(0.0, due - time.monotonic()))
        ended, now = ending in ready, time.time()
        if display.fileno() in ready:
            time.sleep(SETTLE_S)
        reported = display.grab()
        cv2.cvtColor(display.pixels, cv2.COLOR_BGRA2YUV_I420, dst=picture)
        # Two pictures of a film differ in nearly every row: one row in sixteen decides soon.
        changed = not (np.array_equal(picture[::16], last[::16]) and np.array_equal(picture, last))
        if changed and tick and not reported:
            raise WatchError("the screen changed, and the X server reported nothing")
        if changed or ended or time.monotonic() >= due:
            tick = max(tick + 1, round(now * TICKS))
            ivf.write(struct.pack("<IQ", picture.size, tick))
            ivf.write(picture.data)
            ivf.flush()
            due = time.monotonic() + 1 / at_least_fps
            picture, last = last, picture


def main(display: str, width: str, height: str, fps: str, *command: str) -> None:
    """See the module's docstring."""
    ending, stop = os.pipe2(os.O_NONBLOCK)
    signal.set_wakeup_fd(stop)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    # If this program is killed, ffmpeg must not go on writing what is being read.
    words = ["setpriv", "--pdeathsig", "KILL", "--", *command]
    try:
        screen = WatchedScreen(display, (int(width), int(height)))
        ffmpeg = subprocess.Popen(words, stdin=subprocess.PIPE, close_fds=False)
    except (WatchError, OSError) as error:
        raise SystemExit(str(error)) from error
    assert ffmpeg.stdin
    fcntl.fcntl(ffmpeg.stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    failed = ""
    try:
        with ffmpeg.stdin:
            record(screen, ffmpeg.stdin, float(fps), ending)
    except BrokenPipeError:
        failed = "ffmpeg ended"
    except WatchError as error:
        failed = str(error)
    code = ffmpeg.wait()
    if failed or code:
        raise SystemExit(f"{failed or 'ffmpeg failed'}, exit code {code}")


if __name__ == "__main__":
    main(*sys.argv[1:])
