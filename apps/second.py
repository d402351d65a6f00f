# SPDX-License-Identifier: Apache-2.0
"""A second video as a contender: another viewer on the client, with their own screen, browser and origin."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sojourn.apps.base import Stage
from sojourn.apps.options import ServiceOptions
from sojourn.apps.youtube import YouTube
from sojourn.hardware.machine.display import SIZE, Display
from sojourn.hardware.machine.files import log_file
from sojourn.traffic import ports
from sojourn.traffic.applications import Application
from sojourn.traffic.load import VIDEO

SECOND = "second"
"""The folder of the run with that player's samples and that origin's logs."""
_START_MARGIN_S = 60


def second_service(options: ServiceOptions) -> YouTube:
    """What the second viewer watches for the whole timeline: YouTube's stand-in with its default film and player.

    The server sends it by TCP with the congestion control of its host: that of the victim's origin, unless that origin
    sends by QUIC.
    """
    film_seconds = max(660, round(options.longest_s) + _START_MARGIN_S)
    return YouTube(film_seconds=film_seconds, driver=options.driver, browser=options.browser)


class SecondViewer(Application):
    """Playback begins with its phase and an empty buffer."""

    contender = VIDEO

    def __init__(self, service: YouTube, stage: Stage) -> None:
        """`service` is prepared; `stage` is the victim's."""
        super().__init__("the second video")
        self._service, self._victims = service, stage

    def begin(self, stack: ExitStack) -> None:
        victims = self._victims
        (folder := victims.run / SECOND).mkdir(exist_ok=True)
        screen = Display.start(victims.client, log_file(victims.run, "xvfb-second"), SIZE)
        stack.callback(screen.stop)
        stack.callback(self._service.stop)
        self._service.start(replace(victims, run=folder, display=screen.name, port=ports.SECOND))

    @property
    def failure(self) -> str | None:
        return self._service.failure

    def result_record(self) -> dict[str, Any]:
        return {"sender": self._victims.address, "sender_port": ports.SECOND}
