# SPDX-License-Identifier: Apache-2.0
"""The call's camera, its meeting place and what is refused before anything starts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import cv2
import pytest
from aiohttp.test_utils import TestClient, TestServer

from sojourn.apps.base import ServiceError, Stage
from sojourn.apps.call import FULL, LIGHT, BrowserCall, scream_flags
from sojourn.apps.standins.call import camera, signalling
from sojourn.hardware.machine.place import Place
from sojourn.scoring.picture import strip
from tests.refusals import refusal


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    monkeypatch.setattr(camera, "FRAMES", 4)
    return tmp_path


def test_each_picture_of_the_camera_names_itself(cache: Path) -> None:
    made = camera.ensure_camera(640, 360)
    assert made.file.stat().st_size == pytest.approx(4 * 640 * 360 * 1.5, rel=0.001)
    video, seen = cv2.VideoCapture(str(made.file)), []
    while (got := video.read())[0]:
        seen.append(strip.read(cv2.cvtColor(got[1], cv2.COLOR_BGR2GRAY)))
    assert seen == [(number, 0) for number in range(4)]
    assert camera.ensure_camera(640, 360) == made


def test_a_missing_clip_is_one_clear_error(cache: Path, tmp_path: Path) -> None:
    call = BrowserCall(bitrate_bps=1_000_000)
    call.prepare()
    made = camera.ensure_camera(LIGHT.width, LIGHT.height)
    made.file.unlink()
    here = Place("local")
    with refusal(ServiceError, "missing", made.file):
        call.start(Stage(client=here, server=here, address="127.0.0.1", run=tmp_path, display=":0"))
    call.stop()


@pytest.mark.parametrize(("bitrate", "shape"), [(2_500_000, FULL), (1_790_000, FULL), (1_000_000, LIGHT)])
def test_the_bit_rate_chooses_the_size(bitrate: int, shape: object) -> None:
    (chosen,) = BrowserCall(bitrate_bps=bitrate)._formats
    assert (chosen.width, chosen.height, chosen.bitrate_bps) == (shape.width, shape.height, bitrate)  # type: ignore[attr-defined]


def commands(folder: Path, cc: Literal["gcc", "scream"]) -> list[list[str]]:
    """Return the arguments of both browsers of a call that nobody opens."""
    given: list[list[str]] = []

    class Unopened:
        def __init__(self, _place: Place, _display: str, arguments: list[str], **_: Any) -> None:
            given.append(arguments)

    class Dialled(BrowserCall):
        def enter(self, end: object, url: str) -> None: ...

        def meet(self) -> None: ...

    call: Any = Dialled(bitrate_bps=1_000_000, cc=cc)
    (film := folder / "camera.y4m").touch()
    call._driver, call._far, call._far_display = Unopened, folder, ":1"
    here = Place("local")
    stage = Stage(client=here, server=here, address="127.0.0.1", run=folder, display=":0")
    call._dial(stage, camera.Camera(film, 640, 360), "https://call.test/")
    return given


def test_both_ends_of_a_scream_call_have_its_field_trials(tmp_path: Path) -> None:
    gcc, scream = commands(tmp_path, "gcc"), commands(tmp_path, "scream")
    assert len(gcc) == 2 and not any("fieldtrials" in word for end in gcc for word in end)
    assert scream == [[*end, *scream_flags()] for end in gcc]
    assert scream_flags()[0].endswith("offer:true/WebRTC-Bwe-ScreamV2/Enabled/")
    assert scream_flags("VirtualRtt:50ms")[0].endswith("/WebRTC-Bwe-ScreamV2/Enabled,VirtualRtt:50ms/")


def test_who_comes_second_calls_what_one_says_the_other_hears_and_a_third_is_refused() -> None:
    async def meet() -> None:
        async with TestClient(TestServer(signalling.application())) as client:
            page = await client.get("/?width=640")
            assert page.status == 200 and "call.js" in await page.text()
            first, second = await client.ws_connect("/room"), await client.ws_connect("/room")
            assert await second.receive_json(timeout=5) == {"call": True}
            await second.send_json({"description": "offer"})
            assert await first.receive_json(timeout=5) == {"description": "offer"}
            third = await client.ws_connect("/room")
            assert (await third.receive(timeout=5)).extra == "the call already has two ends"
            await second.close()
            assert await first.receive_json(timeout=5) == {"left": True}

    asyncio.run(meet())
