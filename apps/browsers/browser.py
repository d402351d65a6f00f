# SPDX-License-Identifier: Apache-2.0
"""A real Chromium on a given X display and host, driven through a few calls (see drivers.py)."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import psutil

from sojourn.apps.browsers import account, shown
from sojourn.apps.browsers.profile import ProfileError, check_profile, copy_profile
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.ip import as_host
from sojourn.hardware.machine.place import LOCAL, CommandError, Place
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.hardware.machine.viewer import sandbox_refusal, viewer, viewer_folder

CHROMIUM = Path("/usr/bin/chromium")
_ANSWER = Path(__file__).with_name("answer.js")
T = TypeVar("T")
_CLOSE_S = 15
#: Longer than any answer of a live page; and the extra time for Chromium to start on a busy host.
_ANSWER_S, _START_S = 20.0, 70.0
_LOG = logging.getLogger("sojourn.browser")


class BrowserError(CodedError):
    """The browser is missing, did not start, or could not load a page."""


class BrowserEndedError(BrowserError):
    """The browser is closed, or was killed because its page hung: it answers no further call."""


class Driver(Protocol):
    """What services need from a browser; calls may come from any thread."""

    def open(self, url: str, timeout: float | None = None) -> None: ...

    def evaluate(self, script: str) -> Any: ...

    def click(self, selector: str, timeout: float = 2) -> bool: ...

    def fill(self, selector: str, text: str, timeout: float = 2) -> bool: ...

    def fill_secret(self, selector: str, text: str, origins: Collection[str]) -> bool: ...

    def set_cookies(self, url: str, cookie: str) -> None: ...

    def keep_state(self, state: account.StorageState, origins: Collection[str]) -> None: ...

    def allow(self, origin: str, what: Collection[str]) -> None: ...

    def keep_shown(self, run: Path, of: str = "", secrets: Collection[str] = ()) -> str: ...

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

    `hosts` maps names to addresses, `spki` is the trusted public key (base64 SHA-256), `quic` the
    host:port that the browser contacts only by HTTP/3.
    """
    chosen = [
        "--kiosk",
        # Without a window manager a window as large as the screen is 1 px too small: request 1 px more.
        "--window-position=0,0",
        f"--window-size={width + 1},{height + 1}",
        "--force-device-scale-factor=1",
        "--disable-gpu",  # the software compositor costs a quarter of GL in software
        "--autoplay-policy=no-user-gesture-required",
        "--disable-background-timer-throttling",
        "--mute-audio",
        "--no-proxy-server",  # ignore the user's proxy: the video must cross the bottleneck
        "--noerrdialogs",
        "--test-type",  # no warning bar about unusual flags above the page
        "--hide-crash-restore-bubble",  # for a profile whose browser was killed
        "--lang=en-US",  # adapters know the pages' English texts
        "--accept-lang=en-US",
    ]
    if hosts:
        chosen.append("--host-resolver-rules=" + ",".join(f"MAP {name} {as_host(to)}" for name, to in hosts.items()))
    if spki:
        chosen.append(f"--ignore-certificate-errors-spki-list={spki}")
    if quic:
        chosen.append(f"--origin-to-force-quic-on={quic}")
    return chosen


def named(program: Path) -> str:
    """Return a browser's name and version, such as Google Chrome 143.0.7499.40.

    Raises BrowserError for a program that the viewer cannot run, and for a browser that is not based on Chromium: only
    those support the protocol that every driver here uses.
    """
    try:
        said = viewer(LOCAL).run([str(program), "--version"])
    except CommandError as error:
        raise BrowserError(
            f"--browser={program}: does not run as the viewer, who is not a user of this machine ({error}); give one "
            "that everybody can read and run, such as /usr/bin/google-chrome",
            code="not-executable",
        ) from error
    if not (name := re.search(r"^\s*(\S.*?) (\d+(?:\.\d+){3})", said, re.MULTILINE)):
        raise BrowserError(
            f"--browser={program}: is not Chromium, it prints {said.strip()[:80] or 'nothing'!r}; give Chrome, Edge or "
            "another Chromium-based browser: Firefox has no protocol to set cameras, accounts and certificates",
            code="unsupported",
        )
    return f"{name[1]} {name[2]}"


class Browser(ABC):
    """Chromium with its own profile and a driver that stays in the thread that created it."""

    #: The driver's exceptions.
    errors: ClassVar[tuple[type[Exception], ...]]

    def __init__(
        self,
        place: Place,
        display: str,
        arguments: list[str],
        *,
        scripts: Sequence[Path] = (),
        program: Path | None = None,
        profile: Path | None = None,
        load_s: float = 30,
    ) -> None:
        """Start the browser; `scripts` run in every page, in this order, before the page's scripts.

        `program` is another Chromium-based browser; `profile` initialises its profile; `load_s` is the time limit of
        `open`. Raises BrowserError if Chromium or the driver is missing or does not start.
        """
        self.check(program=program, profile=profile)
        self._program, self._name = program or CHROMIUM, named(program).rpartition(" ")[0] if program else "Chromium"
        self._home, self._profile = scratch_folder("-browser"), viewer_folder("-profile")
        self._load_s = load_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="browser")
        self._closed, self._hung, self._turn = False, "", threading.Lock()
        try:
            if profile:
                copy_profile(profile, self._profile)
            self._do(lambda: self._start(place, display, arguments, scripts), _START_S)
        except self.errors as error:
            said = _reason(error, self._log.read_text(errors="replace"))
            self.close()
            raise BrowserError(
                f"{self._name} did not start on display {display}: {said}", code="not-started"
            ) from error
        except ProfileError as error:
            self.close()
            raise BrowserError(str(error), code=error.code) from error
        except BaseException:
            self.close()
            raise

    @classmethod
    def check(cls, *, stranger: bool = False, program: Path | None = None, profile: Path | None = None) -> None:
        """Raise BrowserError with the fix if a browser or its driver is missing.

        `stranger`: also if its sandbox is missing, which it needs to open third-party pages. `program`, `profile`: see
        `__init__`.
        """
        if program:
            named(program)
        elif not os.access(CHROMIUM, os.X_OK):
            raise BrowserError(f"the browser is missing: {CHROMIUM} (apt install chromium)", code="missing-program")
        if profile:
            try:
                check_profile(profile)
            except ProfileError as error:
                raise BrowserError(str(error), code=error.code) from error
        if stranger and (refusal := sandbox_refusal()):
            raise BrowserError(
                f"--live, --url=https://…: {refusal}; allow them, or run on a machine that does", code="insecure"
            )

    def _start(self, place: Place, display: str, arguments: list[str], scripts: Sequence[Path]) -> None:
        self._log.touch()
        self._launch(
            viewer(place, DISPLAY=display, DBUS_SESSION_BUS_ADDRESS="disabled:"),
            [*arguments, *([] if sandbox_refusal() is None else ["--no-sandbox"])],
            [_ANSWER, *scripts],
        )

    @abstractmethod
    def _launch(self, place: Place, arguments: list[str], scripts: Sequence[Path]) -> None:
        """Start the driver, which starts Chromium at the viewer's `place` with the profile in `_profile`."""

    @abstractmethod
    def _goto(self, url: str, timeout: float) -> None:
        """Load `url` until its document is there, within `timeout` s."""

    @abstractmethod
    def _evaluate(self, script: str) -> Any:
        """Run a JavaScript function in the page; return its result or its promise's; None for undefined."""

    @abstractmethod
    def _click(self, selector: str, timeout: float) -> None:
        """Click the first visible match with the pointer. Raises one of `errors` without a match within `timeout` s."""

    @abstractmethod
    def _fill(self, selector: str, text: str, timeout: float) -> None:
        """Replace the text of the first visible match by `text`; errors as in `_click`."""

    @abstractmethod
    def _command(self, method: str, parameters: dict[str, Any]) -> Mapping[str, Any]:
        """Send a command of the DevTools protocol to the page and return its result."""

    @abstractmethod
    def _version(self) -> str:
        """The browser's version, digits and dots."""

    @abstractmethod
    def _end(self) -> None:
        """Stop browser and driver."""

    @property
    @abstractmethod
    def driver(self) -> str:
        """Name and version of the driver."""

    @property
    def _log(self) -> Path:
        return self._home / "chromium.log"

    def _do(self, job: Callable[[], T], more: float = 0.0) -> T:
        """Run `job` in the browser's thread, one at a time; after the time limit plus `more` s, kill the browser."""
        limit = _ANSWER_S + more
        with self._turn:
            if self._closed or self._hung:
                raise BrowserEndedError(
                    self._hung or "the browser is closed", code="no-answer" if self._hung else "closed"
                )
            pending = self._thread.submit(job)
            if not wait([pending], limit).done:
                self._hung = f"the page did not answer for {limit:g} s, so its browser was killed"
                _LOG.warning("%s", self._hung)
                self._kill_rest()
                raise BrowserEndedError(self._hung, code="no-answer")
            return pending.result()

    def open(self, url: str, timeout: float | None = None) -> None:
        """Load `url` within `timeout` s (default: `load_s`); returns once its document is there.

        Raises BrowserError with the network's reason.
        """
        limit = self._load_s if timeout is None else timeout
        deadline = time.monotonic() + limit
        while True:
            try:
                self._do(lambda: self._goto(url, limit), limit)
                return
            except self.errors as error:
                # While a new lab's interfaces get their addresses, Chromium aborts what it loads.
                again = "ERR_NETWORK_CHANGED" in str(error) or "chrome-error://" in str(error)
                if again and time.monotonic() < deadline:
                    time.sleep(0.3)
                    continue
                raise BrowserError(f"{url} is not reachable: {_reason(error)}", code="unreachable") from error

    def evaluate(self, script: str) -> Any:
        """Run a JavaScript function in the page and return its JSON-like result.

        Raises BrowserError, also during a navigation, and BrowserEndedError.
        """
        try:
            answer = self._do(lambda: self._evaluate(f"async () => __sojournAnswer(await (\n{script}\n)())"))
            return json.loads(answer)
        except self.errors as error:
            raise BrowserError(f"the page did not answer: {_reason(error)}", code="no-answer") from error
        except (TypeError, ValueError, RecursionError) as error:  # the page changed the prototypes of its answers
            raise BrowserError(f"the page's answer is not JSON: {_reason(error)}", code="damaged") from error

    def click(self, selector: str, timeout: float = 2) -> bool:
        """Click the first visible match with the real pointer; return False without a match within `timeout` s."""
        try:
            self._do(lambda: self._click(selector, timeout), timeout)
        except self.errors:
            return False
        return True

    def fill(self, selector: str, text: str, timeout: float = 2) -> bool:
        """Type `text`, which must not be a secret, into the first visible match; return False without a match."""
        try:
            self._do(lambda: self._fill(selector, text, timeout), timeout)
        except self.errors:
            return False
        return True

    def fill_secret(self, selector: str, text: str, origins: Collection[str]) -> bool:
        """Fill in a secret if `account.fill_secret` permits; no error shows it.

        Raises AccountError, BrowserError.
        """
        return self._secretly(lambda: account.fill_secret(self._command, selector, text, origins))

    def set_cookies(self, url: str, cookie: str) -> None:
        """Set the session cookies of `url`'s site, see `account.set_cookies`. Raises AccountError, BrowserError."""
        self._secretly(lambda: account.set_cookies(self._command, url, cookie))

    def keep_state(self, state: account.StorageState, origins: Collection[str]) -> None:
        """Load stored state of `origins`, `account.keep_state`. Raises AccountError, BrowserError."""
        self._secretly(lambda: account.keep_state(self._command, state, origins))

    def allow(self, origin: str, what: Collection[str]) -> None:
        """Grant permissions to an origin, by their names in the DevTools protocol.

        Raises BrowserError.
        """
        try:
            self._do(lambda: self._command("Browser.grantPermissions", {"origin": origin, "permissions": list(what)}))
        except self.errors as error:
            raise BrowserError(f"the browser grants no permissions to {origin}: {_reason(error)}") from error

    def _secretly(self, job: Callable[[], T]) -> T:
        try:
            return self._do(job)
        except self.errors:  # its message may show the secret
            raise BrowserError("the page closed while the account was filled in", code="closed") from None

    def keep_shown(self, run: Path, of: str = "", secrets: Collection[str] = ()) -> str:
        """Save what the page shows, to diagnose a failure, see `shown.keep_shown`; never raises."""
        expected: tuple[type[Exception], ...] = (BrowserError, OSError, *self.errors)
        try:
            return self._do(lambda: shown.keep_shown(self._command, run, of, secrets))
        except expected as error:  # its message may show a secret
            _LOG.info("cannot save what the page shows: %s", type(error).__name__)
            return ""

    @property
    def version(self) -> str:
        """Name and version of the browser."""
        return f"{self._name} {self._do(self._version)}"

    def close(self) -> None:
        """Close the browser and remove its profile; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        ending = self._thread.submit(self._end)
        try:
            ending.result(_CLOSE_S)
        except TimeoutError:  # the page hangs; killing the browser ends all calls
            self._kill_rest()
            wait([ending], _CLOSE_S)
        except Exception as error:  # it crashed, or Ctrl-C ended the driver; the rest ends below
            _LOG.info("the browser did not close cleanly: %s", error)
        self._thread.shutdown(wait=False)
        self._kill_rest()
        for folder in (self._home, self._profile):
            shutil.rmtree(folder, ignore_errors=True)

    def _kill_rest(self) -> None:
        """Kill processes that still run with this profile's path."""
        ours = f"--user-data-dir={self._profile}"
        rest = []
        for process in psutil.process_iter(["cmdline"]):
            if any(argument.startswith(ours) for argument in process.info["cmdline"] or ()):
                with contextlib.suppress(psutil.NoSuchProcess):  # it may be ending already
                    process.kill()
                rest.append(process)
        psutil.wait_procs(rest, timeout=5)


def _reason(error: Exception, log: str = "") -> str:
    """The first line of the driver's message, or Chromium's own complaint about the display, from its `log`."""
    chromium = [line.strip() for line in log.splitlines() if "Missing X server" in line]
    said = str(error).removeprefix("Message: ")  # Selenium's
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return (chromium or lines or [type(error).__name__])[0]
