# SPDX-License-Identifier: Apache-2.0
"""Runs in a simulated machine: a call over a path that is longer one way, then the other end's renderer is killed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil

from sojourn.apps.base import Stage
from sojourn.apps.call import BrowserCall
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.bottleneck.spec import Bottleneck, Direction
from sojourn.captures.packets import PacketCapture
from sojourn.captures.screen import ScreenRecorder
from sojourn.hardware.machine.display import SIZE, Display
from sojourn.hardware.machine.files import log_file
from sojourn.harness.lab.guest_job import EVIDENCE
from sojourn.harness.lab.simulated import SimLab

DOWN_MS, UP_MS = 110, 10
VERSION = "ip-version"
"""The file that says over which IP version."""
#: Until the jitter buffers know the path; what is judged.
SETTLE_S, WATCHED_S = 4, 2


def path() -> Bottleneck:
    """20 Mbit/s each way through pfifo."""
    queue = parse_qdisc("pfifo")
    ways = [Direction(rate_bps=20_000_000, qdisc=queue, path=Impairment(delay_us=ms * 1000)) for ms in (DOWN_MS, UP_MS)]
    return Bottleneck(down=ways[0], up=ways[1])


def watch(call: BrowserCall, seconds: float) -> None:
    """Let time pass; the end of a part of the call fails the run."""
    end = time.time() + seconds
    while time.time() < end:
        if call.failure:
            raise SystemExit(call.failure)
        time.sleep(0.5)


def kill_the_other_end(call: BrowserCall) -> str | None:
    """Kill its renderer and return what the call says of it."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "--type=renderer" in words and any(str(call._ends[0].browser._profile) in word for word in words):
            process.kill()
    deadline = time.monotonic() + 15
    while call.failure is None and time.monotonic() < deadline:
        time.sleep(0.2)
    return call.failure


def main(folder: Path) -> None:
    call = BrowserCall(bitrate_bps=1_000_000, ecn="ect1")
    with SimLab(6 if (folder / VERSION).read_text() == "6" else 4) as lab:
        lab.router.apply(path())
        display = Display.start(lab.client, log_file(folder, "xvfb"))
        try:
            call.start(
                Stage(lab.client, lab.server, lab.addresses.server, folder, display.name, width=SIZE[0], height=SIZE[1])
            )
            screen = ScreenRecorder.start(display.name, folder, place=lab.client, size=call.fills)
            capture = PacketCapture.start(lab.server_tap.place, lab.server_tap.interface, folder / "server.pcapng")
            watch(call, SETTLE_S)
            begun = time.time()
            watch(call, WATCHED_S)
            told = call.facts | {"window": (begun, time.time())}
            screen.stop()
            capture.stop()
            told["failure"] = kill_the_other_end(call)
        finally:
            call.stop()
            display.stop()
    (folder / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(EVIDENCE)
