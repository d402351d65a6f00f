# SPDX-License-Identifier: Apache-2.0
"""A two-party video call by WebRTC: one Chromium on each side of the router, both with a fake camera."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from urllib.parse import urlencode

from apps.base import Service, ServiceError, Stage
from apps.browser import Browser, BrowserError, flags
from apps.drivers import DRIVERS
from apps.standins.call import signalling
from apps.standins.call.camera import FPS, FRAMES, Camera, ensure_camera
from apps.standins.origin import ensure_certificate
from captures.player import SCRIPT, PlayerRecorder, PlayerSample
from captures.recorders import RECORDERS
from harness.display import Display
from harness.lab import log_file
from harness.place import CommandError, Place
from harness.process import Process, ProcessError
from traffic.marking import clear_marking, mark_udp

if TYPE_CHECKING:
    from harness.options import Options

HOST = "call.test"
FAR = "far"
"""The folder of the run that holds what the other end, on the server's side, showed and said."""
#: The other end's screen is smaller: drawing and recording it costs a quarter, and its strip is as readable.
_FAR_SIZE = 640, 360
_START_S, _RAMP_S, _JUDGED_S, _POLL_S = 30.0, 30.0, 5.0, 0.25
#: Displayed frames a second from which a machine is said to hold the camera's rate.
_ENOUGH_FPS = 28.0


@dataclass(frozen=True)
class Format:
    """What each end sends: picture size in px and the video's largest bit rate (bit/s)."""

    width: int
    height: int
    bitrate_bps: int


FULL, LIGHT = Format(1280, 720, 2_500_000), Format(640, 360, 1_000_000)


@dataclass
class _End:
    """One end of the call while it is up."""

    name: str
    browser: Browser
    recorder: PlayerRecorder

    def stop(self) -> None:
        with contextlib.ExitStack() as last_first:
            last_first.callback(self.browser.close)
            last_first.callback(self.recorder.stop)

    @property
    def frames(self) -> int:
        sample = self.recorder.latest
        return sample.totalFrames if sample else 0


class Call(Service):
    """Two people see each other; the viewer at the client is the victim."""

    name = "call"
    ladder = ("180p", "270p", "360p", "540p", "720p")

    def __init__(
        self,
        *,
        bitrate_bps: int | None = None,
        ecn: Literal["not-ect", "ect1"] = "not-ect",
        driver: str = "playwright",
        recorder: str | None = "ffmpeg",
    ) -> None:
        """`bitrate_bps` is the video's largest bit rate each way; None: the best that the machine holds.

        `ecn` is the codepoint of the call's packets as they leave each end, `driver` that of both browsers, `recorder`
        that of the other end's screen; None: it is not recorded.
        """
        self._driver, self._recorder = DRIVERS[driver], RECORDERS[recorder] if recorder else None
        self.ecn = ecn
        self._formats: Sequence[Format] = (FULL, LIGHT)
        if bitrate_bps is not None:
            shape = FULL if bitrate_bps > LIGHT.bitrate_bps else LIGHT
            self._formats = (Format(shape.width, shape.height, bitrate_bps),)
        self._cameras: list[Camera] = []
        self._ends: list[_End] = []
        self._stack = contextlib.ExitStack()
        self._processes: dict[str, Process] = {}
        self._held_fps: list[list[float]] = []
        self._format = self._formats[0]
        self._ports: list[int] = []

    @classmethod
    def from_options(cls, options: Options) -> Self:
        if options.live:
            raise ServiceError("--live: there is no live call yet; leave --live out")
        return cls(
            bitrate_bps=options.call_bitrate_bps,
            ecn=options.call_ecn,
            driver=options.driver,
            recorder=options.recorder,
        )

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        try:
            self._driver.check()
        except BrowserError as error:
            raise ServiceError(str(error)) from error
        ensure_certificate(HOST)
        self._cameras = [ensure_camera(f.width, f.height, progress) for f in self._formats]

    def start(self, stage: Stage) -> None:
        if not self._cameras:
            self.prepare()
        for camera in self._cameras:
            if not camera.file.is_file():
                raise ServiceError(
                    f"the camera's clip is missing: {camera.file}; remove its folder to have it painted anew"
                )
        try:
            self._meet(stage)
            for chosen, camera in zip(self._formats, self._cameras, strict=True):
                self._hang_up()
                self._format = chosen
                self._dial(stage, camera)
                if len(self._formats) == 1 or chosen is self._formats[-1] or self._holds():
                    break
            if self.ecn != "not-ect":
                for place, port in zip((stage.client, stage.server), self._ports, strict=True):
                    mark_udp(place, port, self.ecn)
                    self._stack.callback(clear_marking, place)
        except (BrowserError, ProcessError, CommandError) as error:
            self.stop()
            raise ServiceError(str(error)) from error
        except BaseException:
            self.stop()
            raise

    def _meet(self, stage: Stage) -> None:
        """Start what outlasts a change of format: signalling, the other end's screen and its recorder."""
        certificate = ensure_certificate(HOST)
        program = [sys.executable, "-P", signalling.__file__, stage.address, str(stage.port)]
        self._keep(
            "the signalling server",
            Process.start(
                stage.server, [*program, str(certificate.chain), str(certificate.key)],
                stderr=log_file(stage.run, "signalling"), ready="Running on",
            ),
        )  # fmt: skip
        self._far = stage.run / FAR
        self._far.mkdir(exist_ok=True)
        screen = Display.start(_far_place(stage), log_file(stage.run, "xvfb-far"), _FAR_SIZE)
        self._far_display = screen.name
        self._keep("the other end's screen", screen.process, screen.stop)
        if self._recorder:
            recorder = self._recorder.start(
                screen.name, self._far, place=_far_place(stage), size=_FAR_SIZE, wrap=stage.on_time
            )
            self._keep("the other end's recorder", recorder.process, recorder.stop)

    def _keep(self, name: str, process: Process, stop: Callable[[], Any] | None = None) -> None:
        self._processes[name] = process
        self._stack.callback(stop or process.stop)

    def _dial(self, stage: Stage, camera: Camera) -> None:
        """Bring both ends up and return when each shows the other; ServiceError if they do not."""
        ends: tuple[tuple[str, Place, str, tuple[int, int], Path], ...] = (
            ("the other end", _far_place(stage), self._far_display, _FAR_SIZE, self._far),
            ("the client", stage.client, stage.display, (stage.width, stage.height), stage.run),
        )
        query = urlencode({"width": camera.width, "height": camera.height, "bitrate": self._format.bitrate_bps})
        for name, place, display, (width, height), folder in ends:
            trusted = flags(width=width, height=height, hosts={HOST: stage.address}, spki=ensure_certificate(HOST).spki)
            chromium = self._driver(place, display, [*trusted, *_camera_flags(camera)], script=SCRIPT)
            end = _End(name, chromium, PlayerRecorder(chromium, folder / "player.jsonl"))
            self._ends.append(end)
            chromium.open(f"https://{HOST}:{stage.port}/?{query}")
            end.recorder.start()
        deadline = time.monotonic() + _START_S
        while not all(end.frames for end in self._ends):
            if (reason := self.failure) is not None:
                raise ServiceError(f"no call: {reason}")
            if time.monotonic() > deadline:
                states = ", ".join(f"{end.name} {end.browser.evaluate(_STATE)}" for end in self._ends)
                raise ServiceError(f"no picture {_START_S:g} s after the call began: {states}")
            time.sleep(_POLL_S)
        self._ports = [int(self._await(end, _PORT)) for end in reversed(self._ends)]

    def _await(self, end: _End, script: str) -> Any:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if found := end.browser.evaluate(script):
                return found
            time.sleep(_POLL_S)
        raise ServiceError(f"{end.name} tells no transport {_START_S:g} s after the call began")

    def _hang_up(self) -> None:
        with contextlib.ExitStack() as each:
            for end in self._ends:
                each.callback(end.stop)
        self._ends = []

    def _holds(self) -> bool:
        """The self-test: whether both ends show the camera's rate once the full size is there."""
        deadline = time.monotonic() + _RAMP_S
        while time.monotonic() < deadline and not self.settled:
            time.sleep(_POLL_S)
        before, then = [end.frames for end in self._ends], time.monotonic()
        time.sleep(_JUDGED_S)
        seconds = time.monotonic() - then
        fps = [round((end.frames - n) / seconds, 2) for end, n in zip(self._ends, before, strict=True)]
        self._held_fps.append(fps)
        return min(fps) >= _ENOUGH_FPS

    def sample(self) -> PlayerSample | None:
        return self._ends[1].recorder.latest if len(self._ends) == 2 else None

    @property
    def settled(self) -> bool:
        latest = [end.recorder.latest for end in self._ends]
        return len(latest) == 2 and all(s is not None and s.height == self._format.height for s in latest)

    @property
    def stalls(self) -> int:
        return self._ends[1].recorder.waits if len(self._ends) == 2 else 0

    @property
    def failure(self) -> str | None:
        for name, process in self._processes.items():
            if not process.alive():
                return f"{name} has ended: {process.log_tail() or 'no last words'}"
        for end in self._ends:
            if end.recorder.failure:
                return f"{end.name}: {end.recorder.failure}"
        return None

    @property
    def port(self) -> int:
        """The UDP port at which the other end sends."""
        return self._ports[1]

    @property
    def facts(self) -> dict[str, Any]:
        chosen = self._format
        return {
            "clip": {"frames": FRAMES, "fps": FPS, "heights": [], "rates_bps": [chosen.bitrate_bps]},
            "call": {
                "width": chosen.width, "height": chosen.height, "bitrate_bps": chosen.bitrate_bps, "ecn": self.ecn,
                "client_port": self._ports[0], "server_port": self._ports[1], "self_test_fps": self._held_fps,
            },
        }  # fmt: skip

    def stop(self) -> None:
        self._hang_up()
        self._processes = {}
        self._stack.close()

    @property
    def versions(self) -> dict[str, str]:
        if not self._ends:
            return {}
        return {"chromium": self._ends[0].browser.version, "driver": self._ends[0].browser.driver}


class Skype(Call):
    """The same call at the bit rate of the published Skype call."""

    name = "skype"
    defaults: ClassVar[Mapping[str, str]] = {"call-bitrate": "1790kbit"}


def _far_place(stage: Stage) -> Place:
    """Where the other end's programs run: two browsers and two recorders are too much for one core."""
    return replace(stage.server, prefix=(*stage.all_cores, *stage.server.prefix))


_STATE = "() => window.callState ? window.callState() : 'has no camera'"
_PORT = "() => window.callPort"


def _camera_flags(camera: Camera) -> list[str]:
    return [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-video-capture={camera.file}",
        "--disable-features=WebRtcHideLocalIpsWithMdns",
    ]
