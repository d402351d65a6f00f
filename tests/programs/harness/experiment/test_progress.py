# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.experiment import progress
from sojourn.harness.experiment.progress import ExperimentProgress, Sample
from sojourn.harness.options.timeline import Phase
from sojourn.harness.terminal import steps

PHASES = [Phase("solo-1", None, 20), Phase("prague", "prague", 40), Phase("solo-2", None, 20)]


def run_through(console: Console) -> None:
    with ExperimentProgress("video_harm", PHASES, console) as shown:
        for index, victim, contender in [(0, 2.5e6, None), (1, 0.4e6, 9.0e6), (2, 2.0e6, None)]:
            shown.phase(index)
            shown.update(victim_bps=victim, contender_bps=contender, quality="hd720", playing=True, stalls=index)


def test_off_a_terminal_every_phase_is_one_plain_line() -> None:
    out = io.StringIO()
    run_through(Console(file=out, force_terminal=False, width=120))
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "video_harm: 3 phases, 1:20",
        "1/3 solo-1     20 s  client on the wire 2.50 Mbit/s  quality hd720  stalls so far 0",
        "2/3 prague     40 s  client on the wire 0.40 Mbit/s  contender's goodput 9.00 Mbit/s  quality hd720  "
        "stalls so far 1",
        "3/3 solo-2     20 s  client on the wire 2.00 Mbit/s  quality hd720  stalls so far 2",
    ]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_phases_line_breaks_between_its_parts_only(width: int) -> None:
    out = io.StringIO()
    run_through(Console(file=out, force_terminal=False, width=width))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= width and len(lines) > 4
    assert sum("stalls so far 1" in line for line in lines) == sum("goodput 9.00 Mbit/s" in line for line in lines) == 1


def test_a_busy_host_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(["", "the host is busy", "", "", "", ""])
    monkeypatch.setattr(progress.BusyHost, "line", lambda _: next(lines))
    run_through(Console(file=(out := io.StringIO()), force_terminal=False, width=120))
    assert out.getvalue().count("the host is busy") == 1


def test_a_terminal_shows_phase_rates_quality_and_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # rich shows nothing live on a dumb one
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with ExperimentProgress("video_harm", PHASES, console) as shown:
        shown.phase(1)
        shown.update(victim_bps=0.4e6, contender_bps=9e6, quality="small", playing=False, buffer_s=0.2, stalls=3)
        assert shown._live
        shown._live.refresh()
    text = out.getvalue()
    for part in (
        "prague",
        "2 of 3",
        "0.40 Mbit/s",
        "9.00 Mbit/s",
        "small",
        "not playing",
        "0.2 s ahead",
        "stalls so far 3",
    ):
        assert part in text


@pytest.mark.parametrize("quality", ["[/x]", "[red]", "[link=file:///etc/passwd]720p[/link]", "[bold]720p"])
def test_what_a_page_calls_its_quality_is_no_markup(quality: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    with ExperimentProgress(f"a box {quality}", PHASES, Console(file=out, force_terminal=True, width=100)) as shown:
        shown.phase(1)
        shown.update(quality=quality)
    assert re.search(rf"player +{re.escape(quality)}", out.getvalue()) and f"a box {quality}" in out.getvalue()
    assert "\x1b]8" not in out.getvalue()


def test_an_aborted_phase_is_said_to_be_cut_short() -> None:
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt), ExperimentProgress("t", PHASES, Console(file=out)) as shown:
        shown.phase(0)
        raise KeyboardInterrupt
    assert "solo-1     20 s (cut short)" in out.getvalue()


def test_unknown_figures_are_refused() -> None:
    with pytest.raises(TypeError, match="goodput"):
        ExperimentProgress("t", PHASES, Console(file=io.StringIO())).update(goodput=1)
    assert Sample().victim_bps is None


def test_warm_steps_print_nothing_and_cold_ones_one_line() -> None:
    out = io.StringIO()
    with steps(Console(file=out, force_terminal=False)) as step:
        step("warm")
        cold = step("kernel")
        cold(0.1)
        cold(0.9)
    assert out.getvalue() == "setup: kernel\n"


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(5000)
    monkeypatch.setattr(progress.time, "monotonic", clock)
    return clock


def plain() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=False, width=120), out


def test_off_a_terminal_the_time_left_is_told_now_and_then_by_our_clock(wall: Clock) -> None:
    console, out = plain()
    simulated = Clock()
    with ExperimentProgress("t", PHASES, console, simulated) as shown:
        wall.now += 300  # the machine boots: no measure of how fast its time goes
        shown.update(stalls=0)
        shown.phase(0)
        shown.update(stalls=0)
        for _ in range(40):  # half as fast as real time
            wall.now, simulated.now = wall.now + 1, simulated.now + 0.5
            shown.update(stalls=0)
        shown.phase(1)
        wall.now, simulated.now = wall.now + 40, simulated.now + 20
        shown.update(stalls=0)
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert [line for line in lines if " to go" in line or " left" in line] == [
        "solo-1: 0 of 20 s, 1:20 to go",
        "solo-1: 10 of 20 s, about 2:19 left",
        "prague: 20 of 40 s, about 1:20 left",
    ]


def test_a_phase_that_takes_longer_than_asked_never_passes_its_end(wall: Clock) -> None:
    console, out = plain()
    own = Clock()
    with ExperimentProgress("t", PHASES, console, own) as shown:
        shown.phase(2)
        wall.now, own.now = wall.now + 30, 30
        shown.update(stalls=0)
    assert "solo-2: 20 of 20 s, about 0:00 left" in out.getvalue()


def test_off_a_terminal_a_long_step_tells_the_time_left(wall: Clock) -> None:
    console, out = plain()
    with steps(console) as step:
        tell = step("kernel")
        for share in (0.0, 0.1, 0.25):
            tell(share, "compiling")
            wall.now += 15
        tell(0.5)
    assert out.getvalue().splitlines() == [
        "setup: kernel",
        "setup: kernel compiling: 25%, about 1:30 left",
    ]


def test_the_display_reaches_the_user_while_pytest_captures(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from sojourn.harness.terminal import real_terminal\n"
        "def test_it(request):\n"
        "    print('swallowed')\n"
        "    with real_terminal(request.config.pluginmanager.getplugin('capturemanager')) as out:\n"
        "        out.write('seen\\n')\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--rootdir={tmp_path}",
            str(tmp_path),
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "seen\n" and "swallowed" not in done.stdout
