# SPDX-License-Identifier: Apache-2.0
"""What all calls share: Chromiums with fake cameras on both sides of the router, and the far end's screen."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from sojourn.apps.base import Service, ServiceError, Stage
from sojourn.apps.browsed import stopped_on_failure
from sojourn.apps.browsers.browser import Browser, flags
from sojourn.apps.browsers.drivers import DRIVERS
from sojourn.apps.browsers.shown import kept_as
from sojourn.apps.credentials import Credentials
from sojourn.apps.standins.call.camera import Camera
from sojourn.captures.player import CALL_SCRIPT, PICTURES_SCRIPT, SCRIPT, SOUND_SCRIPT, PlayerRecorder, PlayerSample
from sojourn.captures.recorders import RECORDERS
from sojourn.captures.sound import pack_sound
from sojourn.hardware.machine.display import Display
from sojourn.hardware.machine.files import log_file
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.viewer import for_viewer

FAR = "far"
"""The folder of the run with the recording and logs of the far end, on the server's side."""
START_S, POLL_S = 30.0, 0.25
_STATE = "() => window.__sojourn.state()"
_PATH = "() => window.__sojourn.path"


@dataclass(frozen=True)
class Seat:
    """Where the browser of one end runs: names, host, screen and its size in px, and the folder of its recordings."""

    name: str
    of: str  # used in file names
    place: Place
    display: str
    size: tuple[int, int]
    folder: Path
    arguments: tuple[str, ...] = ()


@dataclass
class Party:
    """One end of the call while it is up."""

    name: str
    of: str  # used in file names
    browser: Browser
    recorder: PlayerRecorder
    folder: Path  # of its recordings and logs

    def stop(self) -> None:
        with contextlib.ExitStack() as last_first:
            last_first.callback(self.browser.close)
            last_first.callback(pack_sound, self.folder)
            last_first.callback(self.recorder.stop)

    @property
    def frames(self) -> int:
        """Frames displayed so far."""
        sample = self.recorder.latest
        return sample.totalFrames - sample.droppedFrames if sample else 0


class TwoParty(Service):
    """Two people see each other; the viewer on the client is the victim."""

    ladder = ("180p", "270p", "360p", "540p", "720p")
    #: The other end's screen in px.
    far_size: ClassVar[tuple[int, int]] = (1280, 720)
    #: Further arguments of both browsers.
    arguments: tuple[str, ...] = ()
    #: Scripts that are injected last into both pages.
    scripts: tuple[Path, ...] = ()
    #: Whether each page reports when the other end's frames reach it.
    pictures = False
    credentials: Credentials | None = None

    def __init__(
        self,
        *,
        driver: str = "playwright",
        recorder: str | None = "ffmpeg",
        browser: Path | None = None,
        profile: Path | None = None,
    ) -> None:
        """`driver` drives both browsers; `recorder` records the other end's screen; None: it is not recorded.

        `browser` and `profile` apply to both browsers: their program and their initial profile; None: the default.
        """
        self.browser, self.profile = browser, profile
        self._driver, self._recorder = DRIVERS[driver], RECORDERS[recorder] if recorder else None
        #: The other end and the client, in the order in which they start.
        self._ends: list[Party] = []
        #: Further parties of a room, on the other end's side.
        self._others: list[Party] = []
        #: The cameras' clips, created by `prepare`.
        self._cameras: list[Camera] = []
        #: What both speak, a WAV file; None: no sound.
        self._voice: Path | None = None
        self._stack = contextlib.ExitStack()
        self._processes: dict[str, Process] = {}

    @property
    def prepared(self) -> dict[str, Any]:
        return {"cameras": [asdict(camera) for camera in self._cameras], "voice": self._voice}

    def take(self, prepared: Mapping[str, Any]) -> None:
        self._cameras = TypeAdapter(list[Camera]).validate_python(prepared["cameras"])
        self._voice = Path(prepared["voice"]) if prepared["voice"] else None

    def start(self, stage: Stage) -> None:
        if not self._cameras:
            self.prepare()
        for file in (*(camera.file for camera in self._cameras), *([self._voice] if self._voice else [])):
            if not file.is_file():
                raise ServiceError(
                    f"the call's clip is missing: {file}; remove its folder to make it again", code="missing"
                )
        self._run = stage.run
        with stopped_on_failure(self):
            self.call(stage)

    @abstractmethod
    def call(self, stage: Stage) -> None:
        """Start both ends and return when each shows the other. Raises ServiceError if they do not."""

    def enter(self, end: Party, url: str) -> None:
        """Open the page of the call at one end and complete its steps."""
        end.browser.open(url)
        end.recorder.start()

    def _keep(self, name: str, process: Process, stop: Callable[[], Any] | None = None) -> None:
        self._processes[name] = process
        self._stack.callback(stop or process.stop)

    def _open_far_screen(self, stage: Stage) -> None:
        self._far = stage.run / FAR
        self._far.mkdir(exist_ok=True)
        screen = Display.start(far_place(stage), log_file(stage.run, "xvfb-far"), self.far_size)
        self._far_display = screen.name
        self._keep("the other end's screen", screen.process, screen.stop)
        if self._recorder:
            recorder = self._recorder.start(
                screen.name,
                self._far,
                place=far_place(stage),
                size=self.far_size,
                on_change=not stage.real_time,
                wrap=stage.on_time,
            )
            self._keep("the other end's recorder", recorder.process, recorder.stop)

    def _dial(self, stage: Stage, camera: Camera, url: str, **trusted: Any) -> None:
        """Start both ends at `url`; `trusted` as for `flags`. Return when each shows the other."""
        for seat in self._seats(stage):
            self._take_seat(seat, camera, url, self._ends, **trusted)
        self.meet()

    def _seats(self, stage: Stage) -> tuple[Seat, Seat]:
        """Return the seats of the other end and of the client, in the order in which they start."""
        here = self.fills or (stage.width, stage.height)
        return (
            Seat("the other end", FAR, far_place(stage), self._far_display, self.far_size, self._far),
            Seat("the client", "client", stage.client, stage.display, here, stage.run),
        )

    def _take_seat(self, seat: Seat, camera: Camera, url: str, ends: list[Party], **trusted: Any) -> None:
        """Start the browser of a seat at `url` and add it to `ends`; `trusted` as for `flags`."""
        width, height = seat.size
        arguments = [
            *flags(width=width, height=height, **trusted),
            *_device_flags(camera, self._voice),
            *self.arguments,
            *seat.arguments,
        ]
        before = [PICTURES_SCRIPT] if self.pictures else []
        scripts = [SCRIPT, *before, CALL_SCRIPT, *([SOUND_SCRIPT] if self._voice else []), *self.scripts]
        chromium = self._driver(
            seat.place, seat.display, arguments, scripts=scripts, program=self.browser, profile=self.profile
        )
        recorder = PlayerRecorder(chromium, seat.folder / "player.jsonl")
        ends.append(Party(seat.name, seat.of, chromium, recorder, seat.folder))
        self.enter(ends[-1], url)

    def meet(self) -> None:
        """Return when each end shows the other. Raises ServiceError if they do not."""
        deadline = time.monotonic() + START_S
        while not all(end.frames for end in self._ends):
            if (reason := self.failure) is not None:
                raise ServiceError(f"no call: {reason}", code="failed")
            if time.monotonic() > deadline:
                states = ", ".join(f"{end.name} {end.browser.evaluate(_STATE)}" for end in self._ends)
                raise ServiceError(f"no picture {START_S:g} s after the call began: {states}", code="no-picture")
            time.sleep(POLL_S)

    def _path(self, end: Party) -> dict[str, Any]:
        """The transport that carries the picture, as captures/call.js reports it."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if path := end.browser.evaluate(_PATH):
                return dict(path)
            time.sleep(POLL_S)
        raise ServiceError(
            f"{end.name} reported no transport within {START_S:g} s of the start of the call", code="no-picture"
        )

    def _hang_up(self) -> None:
        ends, self._ends, self._others = self._everyone, [], []
        with contextlib.ExitStack() as each:
            for end in ends:
                each.callback(end.stop)

    @property
    def _everyone(self) -> list[Party]:
        return [*self._others, *self._ends]

    def sample(self) -> PlayerSample | None:
        return self._ends[1].recorder.latest if len(self._ends) == 2 else None

    @property
    def stalls(self) -> int:
        return self._ends[1].recorder.waits if len(self._ends) == 2 else 0

    @property
    def failure(self) -> str | None:
        for name, process in self._processes.items():
            if (words := process.last_words()) is not None:
                return f"{name} has ended: {words}"
        for end in self._everyone:
            if end.recorder.failure:
                return f"{end.name}: {end.recorder.failure}"
        return None

    def keep_shown(self) -> str:
        secrets = self.credentials.secrets if self.credentials else ()
        return kept_as(*(end.browser.keep_shown(self._run, end.of, secrets) for end in self._everyone))

    def stop(self) -> None:
        with contextlib.ExitStack() as last_first:  # all are tried, even if one fails
            last_first.callback(self._stack.close)
            last_first.callback(self._processes.clear)
            last_first.callback(self._hang_up)

    @property
    def versions(self) -> dict[str, str]:
        if not self._ends:
            return {}
        return {"chromium": self._ends[0].browser.version, "driver": self._ends[0].browser.driver}


def far_place(stage: Stage) -> Place:
    """The host of the other end's programs: two browsers and two recorders are too much for one core."""
    return replace(stage.server, prefix=(*stage.all_cores, *stage.server.prefix))


def _device_flags(camera: Camera, voice: Path | None) -> list[str]:
    return [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-video-capture={for_viewer(camera.file)}",
        *([f"--use-file-for-fake-audio-capture={for_viewer(voice)}"] if voice else []),
        "--disable-features=WebRtcHideLocalIpsWithMdns",
    ]
