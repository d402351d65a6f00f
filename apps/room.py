# SPDX-License-Identifier: Apache-2.0
"""A room: a video call of several parties through LiveKit, a real selective forwarding unit (SFU), at the server."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlencode

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.options import ServiceOptions
from sojourn.apps.standins.call.camera import FPS, FRAMES, ensure_camera
from sojourn.apps.standins.call.voice import ensure_voice
from sojourn.apps.standins.origin import OriginError, ensure_certificate, start_caddy
from sojourn.apps.standins.room import livekit
from sojourn.apps.two_party import FAR, POLL_S, START_S, Party, Seat, TwoParty, far_place
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.display import SIZE
from sojourn.hardware.machine.files import log_file
from sojourn.hardware.machine.process import Process
from sojourn.traffic import ports

HOST = "room.test"
#: What each party sends: width, height, bit/s and frames/s of every layer, lowest first. Sizes and rates are
#: livekit-client's for a camera of 720p. Its lower layers have 20 frames/s; these have the camera's, so that only the
#: network takes frames away.
LAYERS = ((320, 180, 160_000, FPS), (640, 360, 450_000, FPS), (1280, 720, 1_700_000, FPS))
CLIENT, OTHER_END = 1, 2
"""The parties at the client and at the recorded other end; the others have the numbers from 3 on."""
_HEIGHTS = "() => window.__sojourn.tiles?.heights ?? {}"


def places(parties: int, size: tuple[int, int] = SIZE) -> dict[int, tuple[int, int, int, int]]:
    """Return the tile of every party that the client sees on a screen of `size` px: x, y, width, height."""
    columns = math.ceil(math.sqrt(parties - 1))
    width, height = size[0] // columns, size[1] // columns
    return {
        party: (place % columns * width, place // columns * height, width, height)
        for place, party in enumerate(range(OTHER_END, parties + 1))
    }


class BrowserRoom(TwoParty):
    """Every party sends its camera in layers to the SFU, which forwards to each the layers that its path carries.

    The client sees all others. The other end's screen, which is recorded too, shows the client. All other parties have
    no screen, and receive nothing: that would not cross the bottleneck. The client and the other end speak to each
    other; the other parties have no microphone.
    """

    name = "room"
    watched = "Video call"
    brand = "Room"
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        "parties": ("stand-in",), "layers": ("stand-in",), "call-sound": ("stand-in",),
    }  # fmt: skip
    far_size = 640, 360

    def __init__(
        self,
        *,
        parties: int = 4,
        layers: Literal["simulcast", "svc"] = "simulcast",
        sound: bool = False,
        **of_ends: Any,
    ) -> None:
        """`layers`: three encodings by VP8 (simulcast), or one with three spatial layers by VP9 (SVC, L3T3_KEY).

        With `sound`, the client and the other end speak numbered tones, as in a call. For `of_ends` see TwoParty.
        """
        super().__init__(**of_ends)
        self._parties, self._layers, self._sound = parties, layers, sound
        self._server: Path | None = None
        self._client_port = 0

    @classmethod
    def from_options(cls, options: ServiceOptions) -> Self:
        return cls(
            parties=options.parties,
            layers=options.layers,
            sound=options.call_sound,
            driver=options.driver,
            recorder=options.recorder,
            browser=options.browser,
        )

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        ensure_certificate(HOST)
        width, height, *_ = LAYERS[-1]
        self._cameras = [ensure_camera(width, height, progress)]
        self._voice = ensure_voice() if self._sound else None
        try:
            livekit.ensure_client()
            self._server = livekit.ensure_server()
        except (BuildError, OriginError) as error:
            raise ServiceError(f"the room cannot be prepared: {error}", code=error.code) from error

    @property
    def prepared(self) -> dict[str, Any]:
        return {**super().prepared, "server": self._server}

    def take(self, prepared: Mapping[str, Any]) -> None:
        super().take(prepared)
        self._server = Path(prepared["server"])

    def call(self, stage: Stage) -> None:
        certificate = ensure_certificate(HOST)
        self._serve(stage)
        self._open_far_screen(stage)
        (camera,), trusted = self._cameras, {"hosts": {HOST: stage.address}, "spki": certificate.spki}
        here, there = reversed(self._seats(stage))
        for party in range(OTHER_END + 1, self._parties + 1):
            folder = stage.run / f"{FAR}-{party}"
            folder.mkdir(exist_ok=True)
            name, place = f"party {party}", far_place(stage)
            seat = Seat(name, folder.name, place, self._far_display, self.far_size, folder, ("--headless",))
            self._take_seat(seat, camera, self._url(stage, party, {}), self._others, **trusted)
        whole = {CLIENT: (0, 0, *self.far_size)}
        self._take_seat(there, camera, self._url(stage, OTHER_END, whole), self._ends, **trusted)
        self._take_seat(here, camera, self._url(stage, CLIENT, places(self._parties)), self._ends, **trusted)
        self.meet()
        self._client_port = int(self._path(self._ends[1])["port"])

    def _serve(self, stage: Stage) -> None:
        """Start LiveKit, and the server of the page in front of it."""
        certificate = ensure_certificate(HOST)
        (config := stage.run / "livekit.yaml").write_text(livekit.settings(stage.address))
        server = Process.start(
            stage.server, [str(self._server), "--config", str(config)],
            stderr=log_file(stage.run, "livekit"), stdout=log_file(stage.run, "livekit-out"),
            ready="starting LiveKit server",
        )  # fmt: skip
        self._keep("the room's server (LiveKit)", server)
        text = livekit.caddyfile(stage.address, stage.port, certificate.chain, certificate.key)
        self._keep("the room's page (Caddy)", start_caddy(stage.server, text, stage.run))

    def _url(self, stage: Stage, party: int, tiles: Mapping[int, tuple[int, ...]]) -> str:
        query = {
            "token": livekit.token(str(party), time.time()), "tiles": json.dumps(tiles), "layers": json.dumps(LAYERS),
            "svc": json.dumps(self._layers == "svc"),
            "speaks": json.dumps(self._sound and party in (CLIENT, OTHER_END)),
        }  # fmt: skip
        return f"https://{HOST}:{stage.port}/?{urlencode(query)}"

    def meet(self) -> None:
        """Return when the client sees all others and the other end sees the client. Raises ServiceError otherwise."""
        super().meet()
        deadline = time.monotonic() + START_S
        while len(shown := self._shown(self._ends[1])) < self._parties - 1:
            if (reason := self.failure) is not None:
                raise ServiceError(f"no room: {reason}", code="failed")
            if time.monotonic() > deadline:
                missing = ", ".join(str(party) for party in places(self._parties) if str(party) not in shown)
                raise ServiceError(f"no picture of party {missing} {START_S:g} s after the start", code="no-picture")
            time.sleep(POLL_S)

    def _shown(self, end: Party) -> dict[str, int]:
        return dict(end.browser.evaluate(_HEIGHTS))

    @property
    def settled(self) -> bool:
        shown = [height for end in self._ends for height in self._shown(end).values()]
        return len(shown) == self._parties and min(shown) == LAYERS[-1][1]

    @property
    def port(self) -> int:
        return ports.ROOM

    @property
    def facts(self) -> dict[str, Any]:
        width, height, *_ = LAYERS[-1]
        rates = [rate for _, _, rate, _ in LAYERS]
        most = sum(rates) if self._layers == "simulcast" else rates[-1]
        return {
            "clip": {"frames": FRAMES, "fps": FPS, "heights": [], "rates_bps": rates},
            "call": {
                "width": width, "height": height, "bitrate_bps": most, "ecn": "not-ect",
                "client_port": self._client_port, "server_port": ports.ROOM,
                **({"sound": True} if self._sound else {}),
            },
            "room": {
                "layers": self._layers, "heights": [lines for _, lines, *_ in LAYERS],
                "tiles": [{"party": party, "place": place} for party, place in places(self._parties).items()],
            },
        }  # fmt: skip

    @property
    def versions(self) -> dict[str, str]:
        if self._server is None:
            return super().versions
        programs = {"room": livekit.version(self._server), "livekit-client": livekit.client_version()}
        return {**super().versions, **programs}
