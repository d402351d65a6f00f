# SPDX-License-Identifier: Apache-2.0
"""A room: the tiles of its parties, its tokens and pins, and what is refused before anything starts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from sojourn.apps.base import ServiceError, Stage
from sojourn.apps.room import LAYERS, BrowserRoom, places
from sojourn.apps.standins.call import camera
from sojourn.apps.standins.call.camera import Camera
from sojourn.apps.standins.room import livekit
from sojourn.hardware.machine.place import Place
from tests.refusals import refusal


@pytest.mark.parametrize("parties", range(2, 9))
def test_tiles_fill_the_screen_in_their_shape_and_do_not_overlap(parties: int) -> None:
    tiles = places(parties)
    assert [*tiles] == [*range(2, parties + 1)]
    for x, y, width, height in tiles.values():
        assert x + width <= 1280 and y + height <= 720 and width / height == pytest.approx(16 / 9, rel=0.01)
    for (x, y, width, height), (right, down, *_) in combinations(tiles.values(), 2):
        assert x + width <= right or right + width <= x or y + height <= down or down + height <= y


def read(token: str) -> dict[str, Any]:
    """Return the claims of a token, whose signature must hold."""
    signed, _, signature = token.rpartition(".")
    own = base64.urlsafe_b64decode(signature + "=")
    assert hmac.new(livekit._SECRET.encode(), signed.encode(), hashlib.sha256).digest() == own
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in signed.split("."))
    assert header == {"alg": "HS256", "typ": "JWT"}
    return dict(claims)


def test_a_token_lets_its_party_into_the_room_for_a_run() -> None:
    claims = read(livekit.token("3", 1_790_000_000.5))
    assert claims["sub"] == "3" and claims["video"]["roomJoin"] and claims["video"]["room"] == livekit.ROOM
    assert claims["nbf"] < 1_790_000_000 and claims["exp"] > 1_790_000_000 + 86_400
    assert claims["iss"] == livekit._KEY and {claims["iss"]} == {*json.loads(livekit.settings("10.0.0.1"))["keys"]}


def test_media_uses_one_udp_port_of_the_server() -> None:
    rtc = json.loads(livekit.settings("10.0.0.1"))["rtc"]
    assert rtc["node_ip"] == "10.0.0.1" and rtc["udp_port"] == BrowserRoom().port and not rtc["tcp_port"]


def test_server_and_client_are_pinned() -> None:
    assert livekit.pinned_version() == "1.9.11" and livekit.client_version() == "2.23.0"
    sums = (livekit.HERE / "sfu/go.sum").read_text()
    assert f"github.com/livekit/livekit-server v{livekit.pinned_version()} h1:" in sums


def test_without_go_a_room_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livekit, "_PATH", str(tmp_path))
    monkeypatch.setattr(livekit, "ensure_client", lambda: tmp_path)
    monkeypatch.setattr(camera, "FRAMES", 1)
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    with refusal(ServiceError, "missing-program", "Go 1.24", "golang-go"):
        BrowserRoom().prepare()


def test_the_client_sees_all_others_the_other_end_the_client_and_others_nobody(tmp_path: Path) -> None:
    opened: list[tuple[str, str, list[str]]] = []

    class Unopened:
        def __init__(self, _place: Place, _display: str, arguments: list[str], **_: Any) -> None:
            self.arguments = arguments

        def close(self) -> None: ...

    class Entered(BrowserRoom):
        def enter(self, end: Any, url: str) -> None:
            opened.append((end.name, url, end.browser.arguments))

        def _serve(self, stage: Stage) -> None: ...

        def _open_far_screen(self, stage: Stage) -> None:
            self._far, self._far_display = tmp_path, ":1"

        def meet(self) -> None: ...

        def _path(self, end: object) -> dict[str, Any]:
            return {"port": 50_000}

    room: Any = Entered(parties=4, sound=True)
    (film := tmp_path / "camera.y4m").touch()
    room._driver, room._cameras = Unopened, [Camera(film, 1280, 720)]
    here = Place("local")
    room.call(Stage(client=here, server=here, address="127.0.0.1", run=tmp_path, display=":0"))
    queries = [parse_qs(urlsplit(url).query) for _, url, _ in opened]
    assert [name for name, *_ in opened] == ["party 3", "party 4", "the other end", "the client"]
    assert [read(query["token"][0])["sub"] for query in queries] == ["3", "4", "2", "1"]
    assert [[*json.loads(query["tiles"][0])] for query in queries] == [[], [], ["1"], ["2", "3", "4"]]
    assert {query["layers"][0] for query in queries} == {json.dumps(LAYERS)}
    assert [json.loads(query["speaks"][0]) for query in queries] == [False, False, True, True]
    assert ["--headless" in arguments for *_, arguments in opened] == [True, True, False, False]
    facts = room.facts
    assert facts["call"]["client_port"] == 50_000 and len(facts["room"]["tiles"]) == 3
    assert facts["call"]["sound"] and "sound" not in BrowserRoom().facts["call"]
