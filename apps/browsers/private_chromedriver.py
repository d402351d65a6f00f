# SPDX-License-Identifier: Apache-2.0
"""ChromeDriver where no other user can reach it, and Chromium at its normal host.

Whoever can connect to ChromeDriver can make it run any program. So it gets an empty network namespace and the viewer's
user. From there it could not start Chromium at its host: Sojourn starts Chromium and joins the pipes of the two.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from pathlib import Path

from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection
from selenium.webdriver.remote.client_config import ClientConfig
from urllib3 import HTTPConnectionPool, PoolManager
from urllib3.connection import HTTPConnection

from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.hardware.machine.viewer import alone, as_viewer, viewer_folder

CHROMEDRIVER = Path("/usr/bin/chromedriver")
_GATE = Path(__file__).with_name("driver_gate.py")
#: What ChromeDriver starts instead of Chromium: it writes its arguments, then relays descriptors 3 and 4 as long as
#: both sides live.
_STAND_IN = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
printf '%s\\0' "$@" >arguments
cat <&3 >to_chromium 3<&- 4>&- &
exec cat <to_chromedriver >&4 3<&- 4>&-
"""


class PrivateChromeDriver:
    """A running ChromeDriver and its Chromium."""

    def __init__(self, place: Place, chromium: Path, home: Path, log: Path) -> None:
        """Start ChromeDriver, and on its request Chromium at the viewer's `place`.

        The gate's socket is in `home`; Chromium's output goes to `log`. Raises ProcessError.
        """
        self._place, self._chromium, self._log = place, chromium, log
        self._socket = home / "gate"
        self._folder = viewer_folder("-driver")
        for pipe in ("arguments", "to_chromium", "to_chromedriver"):
            os.mkfifo(self._folder / pipe)
            (self._folder / pipe).chmod(0o666)  # in a folder that only the viewer can enter
        self.stand_in = self._folder / "chromium"
        self.stand_in.write_text(_STAND_IN)
        self.stand_in.chmod(0o755)
        self._browser: Process | None = None
        gate = [sys.executable, "-P", str(_GATE), str(self._socket)]
        driver = [*as_viewer(inside=True), str(CHROMEDRIVER), "--port=0"]
        self._gate = Process.start(alone(), [*gate, *driver], ready="^ready$")
        threading.Thread(target=self._start_chromium, name="chromium", daemon=True).start()

    def _start_chromium(self) -> None:
        arguments = (self._folder / "arguments").read_bytes().decode().split("\0")[:-1]
        if not arguments:  # `stop` closed the pipe
            return
        ends = f'exec "$@" 3<{self._folder}/to_chromium 4>{self._folder}/to_chromedriver'
        command = ["sh", "-c", ends, "sh", str(self._chromium), *arguments]
        self._browser = Process.start(self._place, command, stderr=self._log)
        with contextlib.suppress(ProcessError):
            self._browser.wait()  # it may end with the thread that started it

    def connection(self) -> ChromiumRemoteConnection:
        """Return Selenium's connection to it."""
        return _Connection(self._socket)

    def stop(self) -> None:
        """Stop both; safe to call twice."""
        with contextlib.suppress(OSError):  # nothing waits for arguments any more
            os.close(os.open(self._folder / "arguments", os.O_WRONLY | os.O_NONBLOCK))
        if self._browser:
            self._browser.stop()
        self._gate.stop()


class _Connection(ChromiumRemoteConnection):
    """Every connection goes through the gate."""

    def __init__(self, door: Path) -> None:
        self._door = door
        address = "http://127.0.0.1"
        super().__init__(address, "goog", "chrome", client_config=ClientConfig(address))

    def _get_connection_manager(self) -> PoolManager:
        door = str(self._door)

        class Connection(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                with socket.socket(socket.AF_UNIX) as asking:
                    asking.connect(door)
                    _, (descriptor,), _, _ = socket.recv_fds(asking, 1, 1)
                return socket.socket(fileno=descriptor)

        class Pool(HTTPConnectionPool):
            ConnectionCls = Connection

        manager = PoolManager(timeout=self._client_config.timeout)
        manager.pool_classes_by_scheme = {"http": Pool}
        return manager
