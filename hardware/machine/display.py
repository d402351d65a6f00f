# SPDX-License-Identifier: Apache-2.0
"""The virtual screen for the browser, which the recorder records."""

from __future__ import annotations

import re
from pathlib import Path

from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.viewer import authority, viewer

SIZE = (1280, 720)


class Display:
    """An Xvfb at a place, 1280x720x24, private to the place and the viewer; `name` is the value of DISPLAY."""

    def __init__(self, process: Process, name: str) -> None:
        self.process, self.name = process, name

    @classmethod
    def start(cls, place: Place, log: Path, size: tuple[int, int] = SIZE) -> Display:
        """Start Xvfb and return once it prints its display number. Raises ProcessError if it does not."""
        width, height = size
        # In a network namespace, the abstract socket is private, so no file in /tmp is needed or left behind.
        private = ["-nolock", "-nolisten", "unix"] if "nsenter" in place.prefix else []
        number = log.with_suffix(".number")
        command = ["Xvfb", "-displayfd", "1", "-screen", "0", f"{width}x{height}x24", "-auth", str(authority())]
        process = Process.start(
            viewer(place),
            [*command, "-nolisten", "tcp", "-noreset", *private],
            stdout=number,
            stderr=log,
            ready=r"^\d+$",
            ready_in="stdout",
        )
        digits = re.search(r"\d+", number.read_text())
        number.unlink()
        return cls(process, f":{digits[0] if digits else 0}")

    def stop(self) -> None:
        """Stop the screen."""
        self.process.stop(sig=15)
