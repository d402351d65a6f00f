# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from sojourn.harness.experiment import guest_main, guest_news
from sojourn.harness.experiment.guest_news import SimulatedClock
from sojourn.harness.lab.machine import SimulatedError
from tests.refusals import refusal


class Display:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.phases = ["solo", "cubic"]

    def say(self, text: str) -> None:
        self.said.append(text)

    def phase(self, index: int) -> None:
        self.said.append(index)

    def update(self, **known: Any) -> None:
        self.said.append(known)


def test_news_come_line_by_line_and_set_the_clock(tmp_path: Path) -> None:
    display, clock, file = Display(), SimulatedClock(), tmp_path / "news"
    news = guest_news.GuestNews(file, display, clock)  # type: ignore[arg-type]
    news.pass_on()
    lines = [json.dumps(it) for it in ([1.5, "say", "warming up"], [2.0, "phase", 0], [2.5, "update", {"stalls": 1}])]
    file.write_text(lines[0] + "\n" + lines[1][:5])
    news.pass_on()
    assert (display.said, clock.now) == (["warming up"], 1.5)
    with file.open("a") as out:
        out.write(lines[1][5:] + "\n" + lines[2] + "\n")
    news.pass_on()
    assert (display.said, clock()) == (["warming up", 0, {"stalls": 1}], 2.5)


def test_what_the_inside_tells_is_understood_outside(tmp_path: Path) -> None:
    display, clock = Display(), SimulatedClock()
    with (tmp_path / "news").open("w") as out:
        inner = guest_main._News(out)
        inner.say("two\nlines")
        inner.phase(1)
        inner.update(victim_bps=4e6, quality="hd720", playing=None)
        begun = time.monotonic()
        guest_news.GuestNews(tmp_path / "news", display, clock).pass_on()  # type: ignore[arg-type]
    assert display.said == ["two\nlines", 1, {"victim_bps": 4e6, "quality": "hd720", "playing": None}]
    assert begun - 5 < clock.now <= begun


def test_a_machine_that_tells_nothing_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    news = guest_news.GuestNews(tmp_path / "news", Display(), SimulatedClock())  # type: ignore[arg-type]
    monkeypatch.setattr(guest_news, "SILENCE_S", -1.0)
    with refusal(SimulatedError, "no-answer", " 0 s"):
        news.pass_on()


@pytest.mark.parametrize("kind", ["pipe", "link", "sparse file"])
def test_what_a_machine_puts_in_place_of_its_news_holds_nobody_up(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "news"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/etc/passwd")
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    news = guest_news.GuestNews(file, Display(), SimulatedClock())  # type: ignore[arg-type]
    with refusal(SimulatedError, "too-large" if kind == "sparse file" else "not-a-file", "news: "):
        for _ in range(2):
            news.pass_on()


def test_a_lease_of_the_machines_holds_nobody_up(tmp_path: Path) -> None:
    """Who opens such a file waits for 45 s, once for each look."""
    (file := tmp_path / "news").touch()
    display = Display()
    news = guest_news.GuestNews(file, display, SimulatedClock())  # type: ignore[arg-type]
    with file.open("r+") as out:
        fcntl.fcntl(out, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        before = signal.signal(signal.SIGIO, signal.SIG_IGN)
        try:
            begun = time.monotonic()
            news.pass_on()
            assert time.monotonic() - begun < 5 and display.said == []
            fcntl.fcntl(out, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        finally:
            signal.signal(signal.SIGIO, before)
        out.write('[1.0, "say", "free"]\n')
    news.pass_on()
    assert display.said == ["free"]


@pytest.mark.parametrize(
    "line",
    [
        "", "x", "[1]", "{}", '[1, "phase", 2]', '[1, "phase", -1]', '[1, "__init__", "x"]',
        "[" * 9999, '[NaN, "say", "x"]', '[1e999, "say", "x"]', '[-1, "say", "x"]',
        '[1, "say", {}]', '[1, "update", {"console": 1}]',
        '["x", "say", "x"]', '[1, "update", {"stalls": "many"}]',
        '[1, "update", {"victim_bps": Infinity}]', f'[1, "say", "{"x" * 2000}"]',
        f'[1, "update", {{"stalls": {10**400}}}]',
    ],
)  # fmt: skip
def test_news_that_say_nothing_end_the_machine_in_one_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "news").write_text(line + "\n")
    display = Display()
    with refusal(SimulatedError, "damaged", "news: ") as refused:
        guest_news.GuestNews(tmp_path / "news", display, SimulatedClock()).pass_on()  # type: ignore[arg-type]
    assert str(refused.value).isprintable() and len(str(refused.value)) < 400 and display.said == []


def test_news_do_not_move_the_terminal(tmp_path: Path) -> None:
    display = Display()
    lines = [[1, "say", "a\x1b[2Jb\rc"], [1, "update", {"quality": "\x1b]0;t\x07"}]]
    (tmp_path / "news").write_text("".join(json.dumps(line) + "\n" for line in lines))
    guest_news.GuestNews(tmp_path / "news", display, SimulatedClock()).pass_on()  # type: ignore[arg-type]
    assert display.said == ["a\\x1b[2Jb\\rc", {"quality": "\\x1b]0;t\\x07"}]


def test_news_without_end_end_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_news, "_ALL_NEWS", 1000)
    (tmp_path / "news").write_text('[1.0, "say", "again"]\n' * 100)
    with refusal(SimulatedError, "too-large", "news: ", " 0 MiB"):
        guest_news.GuestNews(tmp_path / "news", Display(), SimulatedClock()).pass_on()  # type: ignore[arg-type]


def test_each_whole_line_is_a_sign_of_life_and_half_a_line_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(guest_news.time, "monotonic", lambda: now)
    display, file = Display(), tmp_path / "news"
    news = guest_news.GuestNews(file, display, SimulatedClock())  # type: ignore[arg-type]
    line = json.dumps([1.0, "say", "é"], ensure_ascii=False).encode()
    cut = line.index("é".encode()) + 1

    def look_on(seconds: float) -> None:
        nonlocal now
        for _ in range(int(seconds / 0.5)):
            now += 0.5
            news.pass_on()

    file.write_bytes(line[:cut])
    look_on(guest_news.SILENCE_S)
    with file.open("ab") as out:
        out.write(line[cut:] + b"\n" + line[:cut])
    news.pass_on()
    look_on(guest_news.SILENCE_S)
    assert display.said == ["é"]
    with refusal(SimulatedError, "no-answer", " 30"):
        look_on(1)


def test_a_time_in_which_all_stood_still_is_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(guest_news.time, "monotonic", lambda: now)
    news = guest_news.GuestNews(tmp_path / "news", Display(), SimulatedClock())  # type: ignore[arg-type]
    now += 10 * guest_news.SILENCE_S
    news.pass_on()
