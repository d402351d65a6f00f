# SPDX-License-Identifier: Apache-2.0
"""A real Chromium on a given X display at a given place, driven through a handful of calls (see drivers.py)."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import psutil

from hardware.machine.place import ENVIRONMENT, Place
from hardware.machine.scratch import scratch_folder

CHROMIUM = Path("/usr/bin/chromium")
T = TypeVar("T")
_CLOSE_S = 15
_LOG = logging.getLogger("sojourn.browser")


class BrowserError(RuntimeError):
    """The browser is missing, did not start, or could not load a page."""


class Driver(Protocol):
    """What services need of a browser; every call may come from any thread."""

    def open(self, url: str, timeout: float = 30) -> None: ...

    def evaluate(self, script: str) -> Any: ...

    def click(self, selector: str, timeout: float = 2) -> bool: ...

    def fill(self, selector: str, text: str, timeout: float = 2) -> bool: ...

    def screenshot(self, path: Path) -> None: ...

    @property
    def version(self) -> str: ...

    def close(self) -> None: ...


def flags(
    *,
    width: int,
    height: int,
    hosts: Mapping[str, str] | None = None,
    spki: str | None = None,
    quic: str | None = None,
) -> list[str]:
    """Chromium's command line: a kiosk window of `width` x `height` px with software rendering.

    `hosts` maps names to addresses, `spki` is the public key (base64 SHA-256) that is trusted, `quic` the
    host:port that is spoken to by HTTP/3 only.
    """
    chosen = [
        "--kiosk",
        # Without a window manager a window as large as the screen comes out 1 px short: ask for 1 px more.
        "--window-position=0,0",
        f"--window-size={width + 1},{height + 1}",
        "--force-device-scale-factor=1",
        "--disable-gpu",  # the software compositor: a quarter of what GL in software costs
        "--autoplay-policy=no-user-gesture-required",
        "--disable-background-timer-throttling",
        "--mute-audio",
        "--noerrdialogs",
        "--test-type",  # no bar that warns of unusual flags above the page
    ]
    if hosts:
        chosen.append("--host-resolver-rules=" + ",".join(f"MAP {name} {to}" for name, to in hosts.items()))
    if spki:
        chosen.append(f"--ignore-certificate-errors-spki-list={spki}")
    if quic:
        chosen.append(f"--origin-to-force-quic-on={quic}")
    return chosen


class Browser(ABC):
    """Chromium with a fresh profile and a driver that stays in the thread that made it."""

    #: What the driver raises.
    errors: ClassVar[tuple[type[Exception], ...]]

    def __init__(self, place: Place, display: str, arguments: list[str], *, scripts: Sequence[Path] = ()) -> None:
        """Start the browser; `scripts` are run in every page, in order, before the page's own.

        Raises BrowserError when Chromium or the driver is missing or does not start.
        """
        self.check()
        self._home = scratch_folder("-browser")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="browser")
        self._closed = False
        try:
            self._do(lambda: self._start(place, display, arguments, scripts))
        except self.errors as error:
            said = _reason(error, self._log.read_text(errors="replace"))
            self.close()
            raise BrowserError(f"Chromium did not start on display {display}: {said}") from error
        except BaseException:
            self.close()
            raise

    @classmethod
    def check(cls) -> None:
        """Raise BrowserError with the fix when Chromium is missing, or what drives it."""
        if not os.access(CHROMIUM, os.X_OK):
            raise BrowserError(f"the browser is missing: {CHROMIUM} (apt install chromium)")

    def _start(self, place: Place, display: str, arguments: list[str], scripts: Sequence[Path]) -> None:
        wrapper = self._home / "chromium"
        self._log.touch()
        # exec keeps the descriptors 3 and 4, through which the driver talks to the browser: it has no port.
        command = shlex.join(place.argv([str(CHROMIUM)]))
        wrapper.write_text(f'#!/bin/sh\nexec {command} "$@" 2>>{shlex.quote(str(self._log))}\n')
        wrapper.chmod(0o700)
        root = place.run(["id", "-u"]).strip() == "0"  # Chromium refuses its sandbox to root
        environment = {**ENVIRONMENT, "DISPLAY": display, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
        self._launch(wrapper, arguments, environment, scripts, sandbox=not root)

    @abstractmethod
    def _launch(
        self,
        chromium: Path,
        arguments: list[str],
        environment: dict[str, str],
        scripts: Sequence[Path],
        *,
        sandbox: bool,
    ) -> None:
        """Start the driver and by it the program `chromium`, its profile in `_home`/profile."""

    @abstractmethod
    def _goto(self, url: str, timeout: float) -> None:
        """Load `url` until its document is there, for `timeout` s at most."""

    @abstractmethod
    def _evaluate(self, script: str) -> Any:
        """What the JavaScript function gives in the page, or its promise; None for undefined."""

    @abstractmethod
    def _click(self, selector: str, timeout: float) -> None:
        """Click the first visible match with the pointer; one of `errors` without one within `timeout` s."""

    @abstractmethod
    def _fill(self, selector: str, text: str, timeout: float) -> None:
        """Put `text` into the first visible match, in place of what it holds; errors as `_click`."""

    @abstractmethod
    def _screenshot(self, path: Path) -> None:
        """Save what the page shows as PNG."""

    @abstractmethod
    def _version(self) -> str:
        """The browser's version, digits and dots."""

    @abstractmethod
    def _end(self) -> None:
        """End browser and driver."""

    @property
    @abstractmethod
    def driver(self) -> str:
        """Name and version of what drives the browser."""

    @property
    def _log(self) -> Path:
        return self._home / "chromium.log"

    def _do(self, job: Callable[[], T]) -> T:
        if self._closed:
            raise BrowserError("the browser is closed")
        return self._thread.submit(job).result()

    def open(self, url: str, timeout: float = 30) -> None:
        """Load `url`; returns once its document is there. Raises BrowserError with the network's reason."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._do(lambda: self._goto(url, timeout))
                return
            except self.errors as error:
                # A new lab's interfaces still get their addresses; Chromium then drops what it loads.
                again = "ERR_NETWORK_CHANGED" in str(error) or "chrome-error://" in str(error)
                if again and time.monotonic() < deadline:
                    time.sleep(0.3)
                    continue
                raise BrowserError(f"{url} is not reachable: {_reason(error)}") from error

    def evaluate(self, script: str) -> Any:
        """Run a JavaScript function in the page and return its JSON-like result. Raises BrowserError."""
        try:
            return self._do(lambda: self._evaluate(script))
        except self.errors as error:
            raise BrowserError(f"the page did not answer: {_reason(error)}") from error

    def click(self, selector: str, timeout: float = 2) -> bool:
        """Click the first visible match with the real pointer; False without one within `timeout` s."""
        try:
            self._do(lambda: self._click(selector, timeout))
        except self.errors:
            return False
        return True

    def fill(self, selector: str, text: str, timeout: float = 2) -> bool:
        """Type `text` into the first visible match; False without one. `text` may be secret: no error shows it."""
        try:
            self._do(lambda: self._fill(selector, text, timeout))
        except self.errors:
            return False
        return True

    def screenshot(self, path: Path) -> None:
        """Save what the page shows as PNG (for errors; evidence is recorded from the display)."""
        self._do(lambda: self._screenshot(path))

    @property
    def version(self) -> str:
        """Chromium's version."""
        return f"Chromium {self._do(self._version)}"

    def close(self) -> None:
        """End the browser and remove its profile; may be called twice."""
        if self._closed:
            return
        self._closed = True
        ending = self._thread.submit(self._end)
        try:
            ending.result(_CLOSE_S)
        except TimeoutError:  # a page that hangs: without its browser every call comes back
            self._kill_rest()
            wait([ending], _CLOSE_S)
        except Exception as error:  # it had crashed, or Ctrl-C took the driver; the rest ends below
            _LOG.info("the browser did not close by itself: %s", error)
        self._thread.shutdown(wait=False)
        self._kill_rest()
        shutil.rmtree(self._home, ignore_errors=True)

    def _kill_rest(self) -> None:
        """End what still runs with our profile, known by its path."""
        ours = f"--user-data-dir={self._home}"
        rest = []
        for process in psutil.process_iter(["cmdline"]):
            if any(argument.startswith(ours) for argument in process.info["cmdline"] or ()):
                with contextlib.suppress(psutil.NoSuchProcess):  # it may be going by itself
                    process.kill()
                rest.append(process)
        psutil.wait_procs(rest, timeout=5)


def _reason(error: Exception, log: str = "") -> str:
    """The first line of the driver's message, or Chromium's own complaint about the display, from its `log`."""
    chromium = [line.strip() for line in log.splitlines() if "Missing X server" in line]
    said = str(error).removeprefix("Message: ")  # Selenium's
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return (chromium or lines or [type(error).__name__])[0]
