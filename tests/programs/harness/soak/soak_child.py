# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the process that makes a run of a soak: it leaves the files of a run, or what else its cell says.

The cell's `buffer` is the word: see `WORDS`. `$SOAK_TEST` is a folder: `scores.json` there is what a run
scores; while `broken` is there, the lab is; `lost` breaks it for one check; `begun` is written when a run that
goes on has begun.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

WORDS = {
    "2": "valid",
    "3": "void",
    "4": "fails",
    "5": "goes on",
    "6": "leaves a process",
    "7": "breaks the lab",
    "8": "hides one",
    "9": "loses the router",
    "10": "waits for another",
}
STALLS = "host stalls: 9 of 60 seconds, worst 1200.0 ms; over 20 ms in at most 2% of seconds"


def main(what: str, task_text: str) -> None:
    task = json.loads(task_text)
    place = Path(os.environ["SOAK_TEST"])
    if what == "check":
        if (place / "broken").exists():
            sys.exit("VirtualLabError: router: the console ends with a panic")
        if (place / "lost").exists():
            (place / "lost").unlink()
            sys.exit("RouterError: no answer from the router yet")
        return
    from sojourn.harness.options.rules import parse_options  # not for a check, of which there are many
    from sojourn.harness.store.reasons import Reason
    from sojourn.harness.store.runs import RunStore

    word = WORDS[task["given"]["buffer"]]
    options = parse_options({}, task["given"])
    if word == "breaks the lab":
        (place / "broken").touch()
    if word == "loses the router":
        (place / "lost").touch()
    if word in ("fails", "breaks the lab", "loses the router"):
        sys.exit("RouterError: no answer from the router")
    seed = task["seed"] + task["round"] - 1
    store = RunStore(Path(task["folder"]))
    with store.create("video-harm", options.cell, seed=seed, command_line=task["command_line"]) as run:
        Path(task["report"]).write_text(run.manifest.run)
        (run.path / "options.json").write_text(json.dumps(options.record()))
        phases = [asdict(phase) for phase in options.phases]
        (run.path / "timeline.json").write_text(json.dumps({"phases": phases}))
        (run.path / "lab.json").write_text("{}")
        if word == "goes on":
            (place / "begun").touch()
            time.sleep(600)
        if word == "waits for another":
            (place / f"waits-{os.getpid()}").touch()
            while len(list(place.glob("waits-*"))) < 2:
                time.sleep(0.05)
        scores = json.loads((place / "scores.json").read_text())
        scores["validity"] = {"valid": word != "void", "gates": []}
        (run.path / "scores.json").write_text(json.dumps(scores))
        (run.path / "screen.mp4").write_bytes(b"frames" * 1000)
        if word == "void":
            run.void(Reason(code="host-stalls", text=STALLS))
        run.commit()
    if word == "leaves a process":
        subprocess.Popen(["unshare", "-Urn", "sleep", "600"], start_new_session=True)
    if word == "hides one":
        subprocess.Popen(["env", "-i", "sleep", "600"], start_new_session=True)
    print("Beside cubic the picture keeps 720p.")


if __name__ == "__main__":
    main(*sys.argv[1:])
