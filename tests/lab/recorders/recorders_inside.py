# SPDX-License-Identifier: Apache-2.0
"""Runs in a simulated machine: a page that shows the time, recorded by several recorders at once.

With OBS in the machine by all recorders, OBS at both its sizes; without it at a fixed rate and on change, while the
page moves at half the screen's rate or stands still.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from sojourn.apps.browsers.browser import flags
from sojourn.apps.browsers.playwright_driver import PlaywrightBrowser
from sojourn.captures import obs
from sojourn.captures.obs import ObsRecorder
from sojourn.captures.recorders import RECORDERS
from sojourn.captures.screen import ScreenRecorder
from sojourn.hardware.machine.display import Display
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.programs import find
from sojourn.hardware.machine.viewer import for_viewer
from sojourn.harness.lab.guest_job import EVIDENCE
from sojourn.harness.lab.simulated import SimLab

SIZE = 640, 360
RECORDED_S, CHANGING_S = 6, 8
#: Of the processors that OBS asks for its full size, by the size that it then takes.
CORES = {SIZE[0]: 1, SIZE[0] // 2: 99}
#: A strip whose number is the time at which it was painted: Unix time in ms, modulo 2^20.
PAGE = """<body style='margin:0;background:#777'>
<canvas width=640 height=18 style='position:fixed;top:342px;left:0'></canvas>
<script>
const shift = (v) => (v << 1) ^ (v & 128 ? 263 : 0);
const table = [...Array(256).keys()].map((v) => { for (let i = 0; i < 8; i++) v = shift(v); return v; });
const pen = document.querySelector('canvas').getContext('2d');
(function paint() {
  const number = Math.floor(performance.timeOrigin + performance.now()) % (1 << 20);
  let crc = 0;
  const word = number * 16;
  for (const byte of [word >> 16, word >> 8 & 255, word & 255]) crc = table[crc ^ byte];
  const bits = '1010' + number.toString(2).padStart(20, '0') + '0000' + crc.toString(2).padStart(8, '0') + '0101';
  [...bits].forEach((bit, i) => { pen.fillStyle = bit === '1' ? '#fff' : '#000'; pen.fillRect(i * 16, 0, 16, 18); });
  requestAnimationFrame(paint);
})();
</script>"""


#: It paints at every second refresh, and not at all for 1.5 s of 4.
MOVING = PAGE.replace("(function paint() {", "let turn = 0;\n(function paint() {").replace(
    "  let crc = 0;",
    "  if (++turn % 2 || number % 4000 > 2500) return requestAnimationFrame(paint);\n  let crc = 0;",
)


def record_changes(folder: Path, display: str, place: Place) -> None:
    """Record at a fixed rate and on change at once."""
    recorders = []
    try:
        for name in ("grabs", "changes"):
            (folder / name).mkdir()
            on_change = name == "changes"
            recorders.append(ScreenRecorder.start(display, folder / name, place=place, size=SIZE, on_change=on_change))
        time.sleep(CHANGING_S)  # what is judged
    finally:
        for running in recorders:
            running.stop()


def record(folder: Path, display: str, place: Place) -> None:
    """Record by all at once; keep beside the recordings OBS's password, and what was left of where it was."""
    recorders = {}
    try:
        for name, recorder in RECORDERS.items():
            (folder / name).mkdir(parents=True)
            recorders[name] = recorder.start(display, folder / name, place=place, size=SIZE)
        studio = recorders["obs"]
        assert isinstance(studio, ObsRecorder)
        secret = json.loads(next(studio._scratch.rglob("config.json")).read_text())["server_password"]
        time.sleep(RECORDED_S)  # what is judged
    finally:
        for running in recorders.values():
            running.stop()
    (folder / "told.json").write_text(json.dumps({"secret": secret, "left": studio._scratch.exists()}))


def main(folder: Path) -> None:
    with_obs = find("obs") is not None
    (page := folder / "page.html").write_text(PAGE if with_obs else MOVING)
    with SimLab() as lab:
        screen = Display.start(lab.client, folder / "xvfb.log", SIZE)
        chromium = PlaywrightBrowser(lab.client, screen.name, flags(width=SIZE[0], height=SIZE[1]))
        try:
            chromium.open(for_viewer(page).as_uri())
            if not with_obs:
                record_changes(folder, screen.name, lab.client)
            for width, cores in CORES.items() if with_obs else ():
                obs.FULL_SIZE_CORES = cores
                record(folder / str(width), screen.name, lab.client)
        finally:
            chromium.close()
            screen.stop()


if __name__ == "__main__":
    main(EVIDENCE)
