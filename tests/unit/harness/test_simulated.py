# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import simulated
from harness.simulated import SimulatedClock, SimulatedError, side_by_side


class Display:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def phase(self, index: int) -> None:
        self.said.append(index)

    def update(self, **known: Any) -> None:
        self.said.append(known)


def test_news_come_line_by_line_and_set_the_clock(tmp_path: Path) -> None:
    display, clock, file = Display(), SimulatedClock(), tmp_path / "news"
    news = simulated._News(file, display, clock)  # type: ignore[arg-type]
    news.pass_on()
    lines = [json.dumps(it) for it in ([1.5, "say", "warming up"], [2.0, "phase", 0], [2.5, "update", {"stalls": 1}])]
    file.write_text(lines[0] + "\n" + lines[1][:5])
    news.pass_on()
    assert (display.said, clock.now) == (["warming up"], 1.5)
    with file.open("a") as out:
        out.write(lines[1][5:] + "\n" + lines[2] + "\n")
    news.pass_on()
    assert (display.said, clock()) == (["warming up", 0, {"stalls": 1}], 2.5)


def test_a_machine_that_tells_nothing_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    news = simulated._News(tmp_path / "news", Display(), SimulatedClock())  # type: ignore[arg-type]
    monkeypatch.setattr(simulated, "_SILENCE_S", -1.0)
    with pytest.raises(SimulatedError, match="hangs: it has told nothing for 0 s"):
        news.pass_on()


def test_makers_work_at_once_and_answer_in_order() -> None:
    begun = time.monotonic()
    assert side_by_side(lambda: time.sleep(0.5) or "a", lambda: time.sleep(0.5) or "b") == ["a", "b"]
    assert time.monotonic() - begun < 0.95


def test_what_fails_first_ends_the_others_programs() -> None:
    def fail() -> None:
        while not [it for it in psutil.Process().children() if "import time; time.sleep(60)" in it.cmdline()]:
            time.sleep(0.01)
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        side_by_side(lambda: subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"]) and None, fail)
