# SPDX-License-Identifier: Apache-2.0
"""What happens while a run's instruments are on: what is scheduled, and what ends too early."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sojourn.bottleneck.shaper import RateStep
from sojourn.captures.packets import PacketCapture
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab import instruments
from sojourn.harness.lab.contract import SIDES, Tap
from sojourn.harness.lab.instruments import TICK_S, Instruments, PartEndedError, first_failure
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.iperf3 import BulkFlow
from sojourn.traffic.program_flow import ProgramFlow


class Clock:
    """A clock that only `wait` moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def done() -> list[Any]:
    return []


@pytest.fixture
def parts(clock: Clock, done: list[Any]) -> Instruments:
    lab = cast(Any, SimpleNamespace(real_time=True, watched={}))
    path = cast(Any, SimpleNamespace(set_rate=lambda way, rate_bps: done.append((clock.now, way, rate_bps))))
    made = Instruments(lab, path, ExitStack(), clock.wait)
    made.clock = lambda: clock.now
    return made


def test_what_is_scheduled_happens_when_due_and_checks_go_on(parts: Instruments, clock: Clock, done: list[Any]) -> None:
    parts.schedule_rates(100, [RateStep(at_s=0.7, rate_bps=2), RateStep(at_s=1.5, rate_bps=3)], [])
    parts.schedule(100.7, lambda: done.append("a flow"))
    parts.schedule(100.1, lambda: done.append("first"))
    ticks = list[float]()
    parts.live(101, lambda: ticks.append(clock.now))
    assert done == ["first", (100.7, "down", 2), "a flow"] and clock.now == 101
    assert all(later - sooner <= TICK_S for sooner, later in zip([100, *ticks], [*ticks, 101], strict=True))
    parts.live(102, lambda: None)
    assert done[-1] == (101.5, "down", 3)


def test_the_path_knows_where_its_packets_are_captured(
    parts: Instruments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = SimpleNamespace(process=SimpleNamespace(last_words=None), stop=lambda: None)
    monkeypatch.setattr(PacketCapture, "start", lambda *_, **__: started)
    taps = {side: Tap(Place(side), "lo") for side in SIDES}
    parts.lab.hosts, parts.lab.tap = (), taps.__getitem__  # type: ignore[method-assign]
    parts.capture(tmp_path)
    assert parts.path.taps == taps and parts.captured == {}


def test_what_is_due_at_the_end_happens_however_late(parts: Instruments, clock: Clock, done: list[Any]) -> None:
    parts.schedule(100.2, lambda: clock.wait(5))  # a flow that takes long to start
    parts.schedule(100.9, lambda: done.append("step"))
    parts.schedule(101.1, lambda: done.append("next phase"))
    parts.live(101, lambda: None)
    assert done == ["step"]


def test_a_part_that_has_ended_is_named_with_its_words(parts: Instruments) -> None:
    with parts.stack:
        parts.keep("the echo", lambda: None, lambda: None)
        parts.check()
        parts.keep("the probe", lambda: "no route", lambda: None)
        with pytest.raises(PartEndedError, match=r"^the probe .*: no route$"):
            parts.check()


def test_the_first_failure_is_the_one_that_is_raised() -> None:
    def stop() -> None:
        raise OSError("it does not stop either")

    with pytest.raises(ValueError, match="first"), first_failure() as stack:
        stack.callback(stop)
        raise ValueError("first")
    with pytest.raises(OSError, match="either"), first_failure() as stack:
        stack.callback(stop)


class Flow(BulkFlow):
    """A flow that notes what was done with it."""

    def __init__(self, name: str, done: list[Any]) -> None:
        self.contender, self.sender_port, self._done = CONTENDERS[name], 40000, done

    def launch(self, duration_s: float = 3600) -> None:
        self._done.append(f"launch {self.contender.name}")

    def await_data(self) -> None:
        self._done.append(f"data {self.contender.name}")


class Program(Flow, ProgramFlow):
    """A program's, which may connect again."""


@pytest.mark.parametrize(("lab", "programs"), [("sim", False), ("apu", False), ("black-box", True)])
def test_the_victims_next_connection_has_no_contenders_ecn_mode(
    parts: Instruments, done: list[Any], monkeypatch: pytest.MonkeyPatch, lab: str, programs: bool
) -> None:
    parts.lab.name, parts.lab.sender, parts.lab.receiver = lab, Place("s"), Place("r")  # type: ignore[misc]
    modes = SimpleNamespace(restore=lambda: done.append("restore"))
    monkeypatch.setattr(instruments, "EcnModes", lambda *places: modes)
    kind = Program if programs else Flow
    with ExitStack() as stack:
        parts.send([kind(name, done) for name in ("cubic", "reno", "bbr")], 10, stack, lambda _: done.append("end"))
    both = ["launch cubic", "launch reno", "data cubic", "data reno"]
    last = ["launch bbr", "data bbr"]
    restored = ["restore"] * (lab != "sim")
    if programs:
        assert done == [*both, *last, "end", "restore", "end", "end", "restore"]
    else:
        assert done == [*both, *restored, *last, *restored, "end", "end", "end"]


@pytest.mark.parametrize("lab", ["sim", "apu"])
def test_a_program_starts_last_so_that_its_ecn_mode_stays(
    parts: Instruments, done: list[Any], monkeypatch: pytest.MonkeyPatch, lab: str
) -> None:
    parts.lab.name, parts.lab.sender, parts.lab.receiver = lab, Place("s"), Place("r")  # type: ignore[misc]
    made = iter("ab")
    monkeypatch.setattr(
        instruments, "EcnModes", lambda *_: SimpleNamespace(restore=partial(done.append, f"as before {next(made)}"))
    )
    flows = [Program("cubic", done), Flow("bbr", done), Flow("reno", done)]
    with ExitStack() as stack:
        parts.send(flows, 10, stack, lambda flow: done.append(flow.contender.name))
    restored = [["as before a"], ["as before b"]] if lab == "apu" else [[], []]
    first = ["launch bbr", "data bbr", *restored[0]]
    assert done == [
        *first, "launch cubic", "launch reno", "data cubic", "data reno", "reno", "cubic", *restored[1], "bbr",
    ]  # fmt: skip
