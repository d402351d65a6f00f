# SPDX-License-Identifier: Apache-2.0
"""A two-party WebRTC video call between the client's and the server's side, with Sojourn's own page."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlencode

from sojourn.apps.base import Mode, Stage
from sojourn.apps.options import ServiceOptions
from sojourn.apps.standins.call.camera import FPS, FRAMES, ensure_camera
from sojourn.apps.standins.call.voice import ensure_voice
from sojourn.apps.standins.origin import ensure_certificate
from sojourn.apps.two_party import POLL_S, TwoParty
from sojourn.captures.player import SPEECH_SCRIPT
from sojourn.hardware.machine.files import log_file
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.traffic.marking import clear_marking, mark_udp

HOST = "call.test"
_SIGNALLING = Path(__file__).parent / "standins" / "call" / "signalling.py"
_RAMP_S, _JUDGED_S = 30.0, 5.0
#: Displayed frames/s at which a machine keeps up with the camera; it must hold 28 during a run.
_ENOUGH_FPS = 29.5


def scream_flags(parameters: str = "") -> tuple[str, ...]:
    """Return the arguments with which Chromium sends media by SCReAM v2 as ECT(1).

    An end without them makes both fall back to GCC. `parameters` of SCReAM's trial are `NAME:VALUE,NAME:VALUE`.
    """
    scream = ",".join(filter(None, ("Enabled", parameters)))
    trials = f"WebRTC-RFC8888CongestionControlFeedback/Enabled,offer:true/WebRTC-Bwe-ScreamV2/{scream}/"
    return (f"--force-fieldtrials={trials}",)


@dataclass(frozen=True)
class Format:
    """What each end sends: picture size in px and maximum video bit rate (bit/s)."""

    width: int
    height: int
    bitrate_bps: int


FULL, LIGHT = Format(1280, 720, 2_500_000), Format(640, 360, 1_000_000)


class BrowserCall(TwoParty):
    """A call that needs no internet: its page and its signalling run on the server."""

    name = "call"
    watched = "Video call"
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        "call-bitrate": ("stand-in",), "call-cc": ("stand-in",), "call-ecn": ("stand-in",),
        "call-sound": ("stand-in",),
    }  # fmt: skip
    #: Drawing and recording this size costs a quarter of a full screen, and the strip stays readable.
    far_size = 640, 360

    def __init__(
        self,
        *,
        bitrate_bps: int | None = None,
        cc: Literal["gcc", "scream"] = "gcc",
        ecn: Literal["not-ect", "ect1"] = "not-ect",
        trial: str = "",
        sound: bool = False,
        speech: bool = False,
        pictures: bool = False,
        **of_ends: Any,
    ) -> None:
        """`bitrate_bps` is the maximum video bit rate per direction; None: the best that the machine can sustain.

        `cc` is the congestion control of both ends. `ecn` is the codepoint that a GCC call's packets get as they leave
        each end, `trial` the parameters of scream's field trial. With `sound`, each end speaks numbered tones, and its
        page taps what it speaks and hears; with `speech` too, it speaks sentences in place of tones. With `pictures`,
        each page reports when the other end's frames reach it. For `of_ends` see TwoParty.
        """
        super().__init__(**of_ends)
        self.cc, self.ecn, self.sound, self.pictures = cc, ecn, sound, pictures
        self.speech = sound and speech
        if self.speech:
            self.scripts = (SPEECH_SCRIPT,)
        if cc == "scream":
            self.arguments = scream_flags(trial)
        self._formats: Sequence[Format] = (FULL, LIGHT)
        if bitrate_bps is not None:
            shape = FULL if bitrate_bps > LIGHT.bitrate_bps else LIGHT
            self._formats = (Format(shape.width, shape.height, bitrate_bps),)
        self._held_fps: list[list[float]] = []
        self._format = self._formats[0]
        self._ports: list[int] = []

    @classmethod
    def from_options(cls, options: ServiceOptions) -> Self:
        # In simulated time, every machine sustains the best.
        return cls(
            bitrate_bps=options.call_bitrate_bps or (FULL.bitrate_bps if options.lab == "sim" else None),
            cc=options.call_cc,
            ecn=options.call_ecn,
            sound=options.call_sound,
            speech=options.call_speech,
            driver=options.driver,
            recorder=options.recorder,
            browser=options.browser,
        )

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        ensure_certificate(HOST)
        self._cameras = [ensure_camera(f.width, f.height, progress) for f in self._formats]
        self._voice = _espeak().ensure_speech() if self.speech else ensure_voice() if self.sound else None

    def call(self, stage: Stage) -> None:
        certificate = ensure_certificate(HOST)
        program = [sys.executable, "-P", str(_SIGNALLING), stage.address, str(stage.port)]
        self._keep(
            "the signalling server",
            Process.start(
                stage.server, [*program, str(certificate.chain), str(certificate.key)],
                stderr=log_file(stage.run, "signalling"), ready="Running on",
            ),
        )  # fmt: skip
        self._open_far_screen(stage)
        for chosen, camera in zip(self._formats, self._cameras, strict=True):
            self._hang_up()
            self._format = chosen
            wanted = {"width": camera.width, "height": camera.height, "bitrate": chosen.bitrate_bps}
            query = urlencode(wanted | ({"sound": 1} if self.sound else {}))
            url = f"https://{HOST}:{stage.port}/?{query}"
            self._dial(stage, camera, url, hosts={HOST: stage.address}, spki=certificate.spki)
            if len(self._formats) == 1 or chosen is self._formats[-1] or self._holds(stage):
                break
        self._ports = [int(self._path(end)["port"]) for end in reversed(self._ends)]
        if self.ecn != "not-ect":
            for place, port in zip((stage.client, stage.server), self._ports, strict=True):
                mark_udp(place, port, self.ecn)
                self._stack.callback(clear_marking, place)

    def _holds(self, stage: Stage) -> bool:
        """The self-test: whether both ends display the camera's rate once the picture has its full size.

        The client's screen is recorded meanwhile, as in a run: on two cores, this decides.
        """
        with ExitStack() as trial:
            if self._recorder:
                folder = scratch_folder("-self-test")
                trial.callback(shutil.rmtree, folder, ignore_errors=True)
                recorder = self._recorder.start(
                    stage.display,
                    folder,
                    place=stage.client,
                    size=self.fills,
                    on_change=not stage.real_time,
                    wrap=stage.on_time,
                )
                trial.callback(recorder.process.stop)
            return self._shows_enough()

    def _shows_enough(self) -> bool:
        deadline = time.monotonic() + _RAMP_S
        while time.monotonic() < deadline and not self.settled:
            time.sleep(POLL_S)
        while True:
            before = self._displayed()
            time.sleep(_JUDGED_S)
            pairs = zip(before, self._displayed(), strict=True)
            fps = [round((n - m) / (t - s), 2) if t > s else 0.0 for (s, m), (t, n) in pairs]
            self._held_fps.append(fps)
            holds = self.settled and min(fps) >= _ENOUGH_FPS
            if holds or time.monotonic() > deadline:
                return holds

    def _displayed(self) -> list[tuple[float, int]]:
        """Return when each end was last sampled (Unix s; samples are fetched once a second), and its frames by then."""
        latest = ((end, end.recorder.latest) for end in self._ends)
        return [(sample.t, end.frames) if sample else (0.0, 0) for end, sample in latest]

    @property
    def fills(self) -> tuple[int, int]:  # type: ignore[override]
        """The size of its picture: on a weak machine, a small call is not drawn and recorded large."""
        return self._format.width, self._format.height

    @property
    def settled(self) -> bool:
        latest = [end.recorder.latest for end in self._ends]
        return len(latest) == 2 and all(s is not None and s.height == self._format.height for s in latest)

    @property
    def port(self) -> int:
        """The UDP port from which the other end sends."""
        return self._ports[1]

    @property
    def facts(self) -> dict[str, Any]:
        chosen = self._format
        return {
            "clip": {"frames": FRAMES, "fps": FPS, "heights": [], "rates_bps": [chosen.bitrate_bps]},
            "call": {
                "width": chosen.width, "height": chosen.height, "bitrate_bps": chosen.bitrate_bps, "ecn": self.ecn,
                "client_port": self._ports[0], "server_port": self._ports[1], "self_test_fps": self._held_fps,
                **({} if self.cc == "gcc" else {"cc": self.cc}),
                **({"sound": True} if self.sound else {}),
                **({"speech": _espeak().digest_of(self._voice)} if self.speech and self._voice else {}),
            },
        }  # fmt: skip


def _espeak() -> ModuleType:
    from sojourn.apps.standins.speech import espeak  # with polars; tones do without it

    return espeak


class Skype(BrowserCall):
    """The same call at the bit rate of the published Skype call."""

    name = "skype"
    brand = "Skype"
    defaults: ClassVar[Mapping[str, str]] = {"call-bitrate": "1790kbit"}
