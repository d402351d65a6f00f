# SPDX-License-Identifier: Apache-2.0
"""The instruments of a run in a lab, the same for every experiment: captures, probes, samplers, players, bulk flows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from sojourn.apps.base import Service, Stage
from sojourn.bottleneck.shaper import RateStep
from sojourn.captures.packets import Captured, PacketCapture, own_traffic
from sojourn.hardware.lab.lab_file import PHYSICAL
from sojourn.hardware.machine.display import SIZE, Display
from sojourn.hardware.machine.periodic import PeriodicSampler
from sojourn.harness.lab.contract import SIDES, Lab, Side
from sojourn.harness.lab.responsiveness import identity
from sojourn.harness.lab.under_test import PathUnderTest
from sojourn.traffic import irtt, ports
from sojourn.traffic.contender import CONTENDERS, EcnModes
from sojourn.traffic.iperf3 import BulkFlow
from sojourn.traffic.irtt import Codepoint, IrttClient
from sojourn.traffic.load import RPM
from sojourn.traffic.program_flow import ProgramFlow
from sojourn.traffic.rpm_flow import ResponsivenessTest
from sojourn.traffic.user_program import is_user_program

TICK_S = 0.5
"""Interval at which a run is checked, s."""
MARGIN_S = 180
"""Longest set-up that probes and flows must outlast, s; irtt reserves memory for its whole duration."""


class PartEndedError(RuntimeError):
    """A part of the run ended during the run; the message names it and its last output."""


@contextmanager
def first_failure() -> Iterator[ExitStack]:
    """Yield a stack that raises the exception that ended its block, despite errors while undoing the rest."""
    first: BaseException | None = None
    try:
        with ExitStack() as stack:
            try:
                yield stack
            except BaseException as failed:
                first = failed
                raise
    except Exception as last:
        raise (first or last) from None


class Instruments:
    """The parts of one run: started in the order of their dependencies, watched, stopped in reverse by `stack`."""

    def __init__(
        self, lab: Lab, path: PathUnderTest, stack: ExitStack, wait: Callable[[float], object] = time.sleep
    ) -> None:
        """`wait` lets a time in s pass; what it raises ends the run."""
        self.lab, self.path, self.stack, self._wait = lab, path, stack, wait
        self.watched = dict(lab.watched)
        self.captured: dict[Side, Captured] = {}
        self._due: list[tuple[float, Callable[[], object]]] = []
        # A monotonic clock: setting the host's clock neither ends nor extends a phase.
        self.clock = time.monotonic if lab.real_time else time.time

    def keep(self, name: str, failure: Callable[[], str | None], stop: Callable[[], object]) -> None:
        """Take over a started part: stop it at the end; until then, `failure` says why it has ended, if so."""
        self.stack.callback(stop)
        self.watched[name] = failure

    def check(self) -> None:
        """Raise PartEndedError if a part has ended."""
        for name, failure in self.watched.items():
            if (words := failure()) is not None:
                raise PartEndedError(f"{name} ended during the run: {words}")

    def capture(self, folder: Path, *, only: str = "", elsewhere: bool = False) -> None:
        """Capture the packets on both sides that match `only` to `folder`; `captured` has their counts afterwards.

        `elsewhere`: the client's peers may be anywhere. Raises ProcessError.
        """
        own = own_traffic(self.lab.hosts, self.lab.viewers if elsewhere else ())
        only = f"({only}) and ({own})" if only and own else only or own
        self.path.taps = {side: self.lab.tap(side) for side in SIDES}
        for side, tap in self.path.taps.items():
            capture = PacketCapture.start(tap.place, tap.interface, folder / f"{side}.pcapng", only=only)
            self.keep(f"the {side} capture", capture.process.last_words, partial(self._captured, side, capture))

    def _captured(self, side: Side, capture: PacketCapture) -> None:
        self.captured[side] = capture.stop(real_time=self.lab.real_time)

    def echo(self, log: Path) -> None:
        """Start the server that answers the probes. Raises ProcessError."""
        echo = irtt.start_server(self.lab.server, self.lab.addresses.server, log, wrap=self.lab.realtime)
        self.keep("the irtt server", echo.last_words, echo.stop)

    def probe(self, file: Path, seconds: float, port: int, interval_ms: float, codepoint: Codepoint) -> None:
        """Probe from the client to the echo for `seconds` s after the set-up; port IRTT_UNSHAPED bypasses the queue.

        Raises IrttError, ProcessError.
        """
        probe = IrttClient(
            self.lab.client, self.lab.addresses.server, file, port=port, interval_ms=interval_ms, codepoint=codepoint,
            wrap=self.lab.realtime,
        ).start(seconds + MARGIN_S)  # fmt: skip
        name = file.name.partition(".")[0]
        self.keep(f"the probe {name}", lambda: None if probe.alive() else "irtt has ended", probe.stop)

    def sample(self, samplers: Mapping[str, PeriodicSampler]) -> None:
        """Start samplers, by name. Raises ProcessError."""
        for name, sampler in samplers.items():
            sampler.start()
            self.keep(name, partial(_error, sampler), sampler.stop)

    def screen(self, log: Path) -> Display:
        """Start the client's screen. Raises ProcessError."""
        display = Display.start(self.lab.client, log)
        self.keep("the screen (Xvfb)", display.process.last_words, display.stop)
        return display

    def play(self, service: Service, display: Display | None, folder: Path, seed: int = 1) -> Stage:
        """Start a service on a screen, if it has one, with `folder` for its files. Raises ServiceError."""
        lab = self.lab
        stage = Stage(
            client=lab.client, server=lab.server, address=lab.addresses.server, run=folder,
            display=display.name if display else "", port=ports.ORIGIN, width=SIZE[0], height=SIZE[1],
            all_cores=lab.all_cores, on_time=lab.on_time, real_time=lab.real_time, seed=seed,
        )  # fmt: skip
        self.stack.callback(service.stop)
        service.start(stage)
        self.watched["the player"] = lambda: (words := service.failure) and words + service.keep_shown()
        return stage

    def send(
        self, flows: Sequence[BulkFlow], seconds: float, stack: ExitStack, ended: Callable[[BulkFlow], object]
    ) -> None:
        """Start bulk flows that last at most `seconds` s after the set-up; return when all their data flows.

        `stack` calls `ended` with each, which calls `end`. Raises as `BulkFlow.start`.
        """
        # All at once, except flows with a different ECN mode: in a full queue, each would wait.
        # Programs and the Responsiveness Test also connect later: they start last, so that their mode stays.
        again = {flow.contender.tcp_ecn for flow in flows if isinstance(flow, ProgramFlow | ResponsivenessTest)}
        ordered = sorted(flows, key=lambda flow: flow.contender.tcp_ecn in again)
        for mode, grouped in groupby(ordered, key=lambda flow: flow.contender.tcp_ecn):
            alike = list(grouped)
            # Where sender and receiver may be the machines of server and client, their ECN mode is the victim's too.
            modes = EcnModes(self.lab.sender, self.lab.receiver) if self.lab.name in PHYSICAL else None
            if modes and mode in again:
                stack.callback(modes.restore)
            for flow in alike:
                flow.launch(seconds + MARGIN_S)
                stack.callback(ended, flow)
            for flow in alike:
                flow.await_data()
                self.watched[flow_name(flow.sender_port)] = partial(_failure, flow)
            if modes and mode not in again:
                modes.restore()

    def end(self, flow: BulkFlow) -> dict[str, Any]:
        """Stop a bulk flow and return iperf3's JSON. Raises BulkError."""
        self.watched.pop(flow_name(flow.sender_port), None)
        return flow.stop()

    def by_clock(self, now: float) -> float:
        """Return the present time by `clock`, `now` being Unix time: in simulated time, reading a clock costs time."""
        return self.clock() if self.lab.real_time else now

    def schedule(self, due: float, action: Callable[[], object]) -> None:
        """Let `live` call `action` at `due` (s, by `clock`); at equal times, in the order of scheduling."""
        self._due.append((due, action))
        self._due.sort(key=itemgetter(0))

    def schedule_rates(self, began: float, down: Sequence[RateStep], up: Sequence[RateStep]) -> None:
        """Schedule the bottleneck's rate steps from `began` (s, by `clock`) on."""
        for way, steps in (("down", down), ("up", up)):
            for step in steps:
                self.schedule(began + step.at_s, partial(self.path.set_rate, way, step.rate_bps))

    def live(self, end: float, tick: Callable[[], None]) -> None:
        """Let time pass until `end` (s, by `clock`): do what is scheduled, and call `tick` every TICK_S."""
        while (left := end - self.clock()) > 0:
            if self._due and (left := min(left, self._due[0][0] - self.clock())) <= 0:
                self._due.pop(0)[1]()
                continue
            self._wait(min(TICK_S, left))
            tick()
        while self._due and self._due[0][0] <= end:
            self._due.pop(0)[1]()


def flow_name(sender_port: int) -> str:
    """Return the name under which a bulk flow is watched."""
    return f"the bulk flow {sender_port}"


def _failure(flow: BulkFlow) -> str | None:
    return flow.failure


def _error(sampler: PeriodicSampler) -> str | None:
    return str(sampler.error) if sampler.error else None


def bulk_flow(
    lab: Lab, contender: str, folder: Path, number: int = 0, *, name: str, up: bool = False, address: str = "",
    port: int | None = None,
) -> BulkFlow:  # fmt: skip
    """Return bulk flow `number` of a run, not started, from the lab's sender to its receiver, or reversed with `up`.

    Args:
        address: its destination, if not the far end's own address (a tunnel's).
        port: its destination port; default: a separate port, which a user's program always has.
    """
    down = lab.sender, lab.receiver, lab.addresses.receiver
    sender, receiver, own = (lab.receiver, lab.sender, lab.addresses.sender) if up else down
    if contender == RPM:
        ends = lab.sender, lab.receiver, lab.addresses.sender, lab.addresses.receiver
        return ResponsivenessTest(*ends, folder, number=number, identity=identity())
    if is_user_program(contender):
        addresses = lab.addresses.receiver if up else lab.addresses.sender, own
        next_port = ports.PROGRAM + number % (ports.LAST_PROGRAM - ports.PROGRAM + 1)
        return ProgramFlow(
            lab.programs[contender], sender, receiver, addresses, folder, port=next_port, number=number, up=up
        )
    return BulkFlow(
        sender, receiver, address or own, CONTENDERS[contender], folder,
        port=ports.BULK + number if port is None else port, sender_port=ports.FIRST_SENDER + number, name=name, up=up,
    )  # fmt: skip
