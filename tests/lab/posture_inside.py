# SPDX-License-Identifier: Apache-2.0
"""What programs that see pages and screens may do, and who listens where; also runs by itself in a simulated machine.

Nothing of tests/ is in a simulated machine: all that looks is in this file.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import psutil

from sojourn.apps.base import Service, Stage
from sojourn.apps.call import BrowserCall
from sojourn.apps.youtube import YouTube
from sojourn.captures.recorders import RECORDERS
from sojourn.hardware.machine.display import SIZE, Display
from sojourn.hardware.machine.files import log_file
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab.contract import Lab
from sojourn.harness.lab.guest_job import EVIDENCE
from sojourn.harness.lab.simulated import SimLab

#: Programs that show, draw or record what a page sends.
VIEWERS = {"chromium", "chrome_crashpad", "Xvfb", "ffmpeg", "obs", "chromedriver"}
#: Those of them that the sandbox shuts in: who runs what pages send.
_SHUT_IN = "--type=renderer"
#: Service, driver and recorder of what is looked at.
SEEN = {
    "youtube-playwright": ("youtube", "playwright", "ffmpeg"),
    "youtube-selenium": ("youtube", "selenium", "obs"),
    "call-playwright": ("call", "playwright", "ffmpeg"),
}


def programs(before: set[psutil.Process]) -> list[dict[str, Any]]:
    """Tell of all viewers that started after `before` was noted, and by nobody else than us: as /proc shows them."""
    seen = []
    ours = {1, os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    for process in psutil.process_iter():
        try:
            status = dict(line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
            name, words = process.name(), process.cmdline()
            starter = next((parent.pid for parent in process.parents() if parent in before), 1)
        except (OSError, psutil.NoSuchProcess):
            continue
        if process in before or name not in VIEWERS or starter not in ours:
            continue
        seen.append(
            {
                "name": name,
                "words": words,
                "uids": sorted(set(map(int, status["Uid"].split()))),
                "capabilities": int(status["CapEff"], 16),
                "bound": int(status["NoNewPrivs"]),
                "shut in": name == "chromium" and any(word.startswith(_SHUT_IN) for word in words),
                "filtered": status.get("Seccomp", "0").strip(),
            }
        )
    return seen


def listening(place: Place) -> list[str]:
    """Each socket of a place that waits for others: protocol, address:port, sorted."""
    lines = place.run(["ss", "-Hlntu"]).splitlines()
    return sorted({f"{protocol} {local}" for protocol, _, _, _, local, *_ in map(str.split, lines)})


def look(lab: Lab, folder: Path, service: str, driver: str, recorder: str) -> dict[str, Any]:
    """Bring up a service with its recorder; tell what runs and listens then."""
    before = set(psutil.process_iter())  # by when they began too: numbers come again
    victim: Service = (
        YouTube(driver=driver) if service == "youtube" else BrowserCall(bitrate_bps=1_000_000, driver=driver)
    )
    victim.prepare()
    display = Display.start(lab.client, log_file(folder, "xvfb"))
    try:
        stage = Stage(lab.client, lab.server, lab.addresses.server, folder, display.name, width=SIZE[0], height=SIZE[1])
        victim.start(stage)
        screen = RECORDERS[recorder].start(display.name, folder, place=lab.client, size=SIZE)
        try:
            time.sleep(1)
            told = {
                "programs": programs(before),
                "listening": {place.name: listening(place) for place in (lab.client, lab.server)},
            }
        finally:
            screen.stop()
        return told
    finally:
        victim.stop()
        display.stop()


def main(evidence: Path) -> None:
    for name, (service, driver, recorder) in SEEN.items():
        (folder := evidence / name).mkdir()
        with SimLab() as lab:
            told = look(lab, folder, service, driver, recorder)
        (folder / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(EVIDENCE)
