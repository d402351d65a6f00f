# SPDX-License-Identifier: Apache-2.0
"""One run of a service with contenders: set up, record every phase, tear down, score, report, commit."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from sojourn.apps.base import Service, Stage
from sojourn.apps.second import SecondViewer, second_service
from sojourn.bottleneck.router import RouterError
from sojourn.bottleneck.shaper import RateStep
from sojourn.captures.host import HostWatch
from sojourn.captures.recorders import RECORDERS
from sojourn.captures.screen import FINE_QUANTISER, FPS, QUANTISER
from sojourn.hardware.machine.clock import clock_offsets
from sojourn.hardware.machine.command_log import command_log
from sojourn.hardware.machine.display import SIZE, Display
from sojourn.hardware.machine.files import LOGS, log_file
from sojourn.hardware.machine.periodic import PeriodicSampler
from sojourn.hardware.machine.place import CommandError, Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.harness.lab import instruments
from sojourn.harness.lab.contract import Lab, LabFactory
from sojourn.harness.lab.under_test import PathUnderTest, path_under_test
from sojourn.harness.options.model import Options
from sojourn.harness.options.timeline import Phase
from sojourn.traffic import iperf3, irtt, nstat, ports, ss
from sojourn.traffic.applications import Application, CallPrograms, Ends, WebUser
from sojourn.traffic.iperf3 import BulkFlow
from sojourn.traffic.load import CALL, VIDEO, WEB
from sojourn.traffic.probes import INTERVAL_MS, PROBES

_TICK_S = 0.5
#: Interval of the unshaped probe; long in simulated time: no host is late there, and every packet costs time.
_PROOF_MS, _SIMULATED_PROOF_MS = 10, 50
#: Longest set-up and warm-up that the probes must outlast; irtt reserves memory for its whole duration.
_PROBE_MARGIN_S = 180
#: Maximum time for the player to settle before the first phase; ticks after which it counts as settled.
_WARM_UP_S, _STEADY_TICKS = 60.0, 6
#: Share of the requested buffer that counts as full: segments arrive in steps.
_FULL = 0.7


class ExperimentError(RuntimeError):
    """A part of the run ended during the run; the message names it and its last output."""


class RecordedRun(Protocol):
    """The destination of a run's files."""

    @property
    def path(self) -> Path: ...

    def add_versions(self, versions: Mapping[str, str]) -> None: ...

    def check_space(self) -> None: ...


class News(Protocol):
    """The receiver of an experiment's progress, see sojourn.harness.experiment.progress."""

    def say(self, text: str) -> None: ...

    def phase(self, index: int) -> None: ...

    def update(self, **known: Any) -> None: ...


def run_experiment(
    options: Options,
    run: RecordedRun,
    lab_factory: LabFactory,
    service: Service,
    progress: News,
) -> None:
    """Record one run to `run`; scoring follows, from the files alone.

    Raises `ExperimentError` if a part ends during the run; everything recorded until then is kept.
    """
    folder = run.path
    with command_log(folder / "setup.log") as turn_page, lab_factory as lab:
        path = path_under_test(lab, options)
        path.apply()
        rates: list[dict[str, Any]] = []
        try:
            with _first_failure() as stack:
                recording = _Recording(options, run, lab, path, service, progress, stack, rates)
                recording.start()
                _write(folder / "lab.json", _describe(lab, path, options, service))
                run.add_versions(_versions(lab, path, service))
                recording.play()
        finally:
            turn_page(folder / "teardown.log")
            _final_state(lab, path, rates, folder / "lab.json")


@contextmanager
def _first_failure() -> Iterator[ExitStack]:
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


class _Recording:
    """Everything that runs during the phases; stopped in reverse order."""

    def __init__(
        self,
        options: Options,
        run: RecordedRun,
        lab: Lab,
        path: PathUnderTest,
        service: Service,
        progress: News,
        stack: ExitStack,
        rates: list[dict[str, Any]],
    ) -> None:
        self.options, self.run, self.folder, self.lab, self.service = options, run, run.path, lab, service
        self.path, self.progress, self.stack = path, progress, stack
        self.watched = dict(lab.watched)
        self.phases: list[dict[str, Any]] = []
        self.flows: list[dict[str, Any]] = []
        self.started = 0
        self.contender_bps: dict[str, float] = {}
        self.rates = rates
        self.steps: list[tuple[float, str, RateStep]] = []
        # A monotonic clock: setting the host's clock neither ends nor extends a phase.
        self.clock = time.monotonic if lab.real_time else time.time

    def start(self) -> None:
        """Start probes, player and captures, in the order of their dependencies."""
        lab, folder, options = self.lab, self.folder, self.options
        self.progress.say("starting probes, player and captures")
        display = Display.start(lab.client, log_file(folder, "xvfb"))
        self._keep("the screen (Xvfb)", display.process, display.stop)
        for side in instruments.SIDES:
            capture = instruments.start_capture(lab, side, folder / f"{side}.pcapng", elsewhere=options.elsewhere)
            self._keep(f"the {side} capture", capture.process, capture.stop)
        echo = instruments.start_echo(lab, log_file(folder, "irtt-server"))
        self._keep("the irtt server", echo, echo.stop)
        probes: list[tuple[str, int, int, irtt.Codepoint]] = [
            (probe.file, probe.port, INTERVAL_MS, probe.codepoint) for probe in PROBES
        ]
        if self.path.has_bypass:
            interval_ms = _PROOF_MS if lab.real_time else _SIMULATED_PROOF_MS
            probes.append(("irtt-unshaped", ports.IRTT_UNSHAPED, interval_ms, "not-ect"))
        limit_s = sum(phase.seconds for phase in options.phases) + _PROBE_MARGIN_S
        for name, port, interval_ms, codepoint in probes:
            probe = instruments.start_probe(
                lab, folder / f"{name}.json.gz", limit_s, port=port, interval_ms=interval_ms, codepoint=codepoint
            )
            self.stack.callback(probe.stop)
            self.watched[f"the probe {name}"] = _unless(probe.alive, "irtt has ended")
        samplers = self.path.samplers(folder)
        tell = self._tell_contender
        samplers["the bulk sender"] = ss.SsSampler(lab.sender, folder / "ss.jsonl", on_throughput=tell)
        if any(flow.up for phase in options.phases for flow in phase.load):
            samplers["the uploads' sender"] = ss.SsSampler(lab.receiver, folder / "ss-up.jsonl")
        for name, sampler in samplers.items():
            sampler.start()
            self.stack.callback(sampler.stop)
            self.watched[name] = _error_of(sampler)
        if lab.real_time:
            host = HostWatch.start(folder, wrap=lab.realtime)
            self._keep("the host watch", host.process, host.stop)
        self.stack.callback(self.service.stop)
        self.stage = Stage(
            client=lab.client, server=lab.server, address=lab.addresses.server, run=folder,
            display=display.name, port=ports.ORIGIN, width=SIZE[0], height=SIZE[1], all_cores=lab.all_cores,
            on_time=lab.on_time,
        )  # fmt: skip
        self.service.start(self.stage)
        self.watched["the player"] = self._player_failure
        self._warm_up()
        recorder = RECORDERS[options.recorder]
        quantiser = QUANTISER if self.service.facts.get("clip") else FINE_QUANTISER
        size = self.service.fills or SIZE
        # OBS records at half the rate where pictures cost time: at the film's own rate, frames may coincide.
        rate = {} if lab.real_time else {"fps": FPS}
        screen = recorder.start(
            display.name, folder, place=lab.client, size=size, quantiser=quantiser, wrap=lab.on_time, **rate
        )
        self._keep("the recorder", screen.process, screen.stop)

    def _player_failure(self) -> str | None:
        failure = self.service.failure
        return None if failure is None else f"{failure}{self.service.keep_shown()}"

    def _keep(self, name: str, process: Process, stop: Callable[[], Any]) -> None:
        self.stack.callback(stop)
        self.watched[name] = process.last_words

    def _warm_up(self) -> None:
        """Wait until the player has shown its best quality with a full buffer for a moment.

        On a path that is too slow, the run continues after a while: whether its baseline is usable is
        decided by gates.
        """
        self.progress.say("warming up the player")
        deadline, steady = time.monotonic() + _WARM_UP_S, 0
        while time.monotonic() < deadline and steady < _STEADY_TICKS:
            self._check()
            time.sleep(_TICK_S)
            sample = self.service.sample()
            self.progress.update()  # a sign of life
            full = sample is not None and sample.buffer >= _FULL * self.service.buffer
            steady = steady + 1 if full and self.service.settled else 0

    def play(self) -> None:
        """Run the phases; in any case, timeline.json and bulk.json describe what was recorded."""
        began = self.clock()
        ways = (("down", self.options.rate_steps), ("up", self.options.rate_up_steps))
        self.steps = sorted((began + step.at_s, way, step) for way, steps in ways for step in steps)
        for index, phase in enumerate(self.options.phases):
            self.progress.phase(index)
            entry: dict[str, Any] = {"name": phase.name, "contender": phase.contender, "start": time.time()}
            self.phases.append(entry)
            try:
                self._phase(phase, entry)
            except RuntimeError:
                # The error may be a consequence: name the part that has ended.
                self._check()
                raise
            finally:
                entry.setdefault("end", time.time())
                _write(self.folder / "timeline.json", {"phases": self.phases, "rates": self.rates})
                _write(self.folder / "bulk.json", {"flows": self.flows})

    def _phase(self, phase: Phase, entry: dict[str, Any]) -> None:
        """Run one phase and record its end; a contender's phase begins when its data flows."""
        if phase.contender is None:
            self._watch(self._end(phase, entry))
            return
        with _first_failure() as running:
            # Before the bulk flows: a browser starts slowly through a full queue.
            for application in self._applications(phase):
                application.start()
                running.callback(self._end_application, phase, application)
                self.watched[application.name] = _failure_of(application)
            flows = []
            for number, asked in enumerate(part for part in phase.load if part.bulk):
                flow = instruments.bulk_flow(
                    self.lab, asked.contender, self.folder / LOGS, self.started, name=asked.contender,
                    up=asked.up, port=ports.BULK + number,
                )  # fmt: skip
                self.started += 1
                flows.append(flow)
            # All at once, except flows with a different ECN mode: in a full queue, each would wait.
            for _, alike in groupby(flows, key=lambda flow: flow.contender.tcp_ecn):
                begun = []
                for flow in alike:
                    flow.launch(phase.seconds + _PROBE_MARGIN_S)
                    running.callback(self._end_flow, phase, flow)
                    begun.append(flow)
                for flow in begun:
                    flow.await_data()
                    self.watched[_flow_name(flow)] = _unless(flow.alive, "iperf3 has ended")
            entry["start"] = time.time()
            running.callback(self.contender_bps.clear)
            # Before stopping the flows, which waits for packets in the queue.
            running.callback(lambda: entry.update(end=time.time()))
            self._watch(self._end(phase, entry), alone=all(part.bulk for part in phase.load))

    def _applications(self, phase: Phase) -> Iterator[Application]:
        """Yield the applications that compete in a phase, in the load's order."""
        lab, logs, users = self.lab, self.folder / LOGS, 0
        ends = Ends(lab.client, lab.server, lab.addresses.client, lab.addresses.server)
        for asked in phase.load:
            if asked.contender == VIDEO:
                yield SecondViewer(second_service(self.options), self.stage)
            elif asked.contender == CALL:
                yield CallPrograms(ends, logs, f"call-{len(self.phases)}")
            elif asked.contender == WEB:
                draw = f"{self.options.seed}-{len(self.phases)}-{users}"
                yield WebUser(ends, logs, f"web-{len(self.phases)}-{users}", number=users, seed=draw)
                users += 1

    def _end_application(self, phase: Phase, application: Application) -> None:
        self.watched.pop(application.name, None)
        application.stop()
        self.flows.append(application.record(phase.name))

    def _end_flow(self, phase: Phase, flow: BulkFlow) -> None:
        self.watched.pop(_flow_name(flow), None)
        self.flows.append(flow.record(phase.name, flow.stop()))

    def _end(self, phase: Phase, entry: Mapping[str, Any]) -> float:
        """Return the end of a phase that has just begun, by `clock`; in simulated time, reading a clock costs time."""
        return (self.clock() if self.lab.real_time else entry["start"]) + phase.seconds

    def _watch(self, end: float, *, alone: bool = True) -> None:
        """Run until `end` (by `clock`, s); `alone`: the display's counter sees only the victim."""
        victim = _Meter(self.lab.client)
        while (left := end - self.clock()) > 0:
            if self.steps and (left := min(left, self.steps[0][0] - self.clock())) <= 0:
                self._step()
                continue
            time.sleep(min(_TICK_S, left))
            self._check()
            sample = self.service.sample()
            self.progress.update(
                victim_bps=victim.rate_bps() if alone else None,
                contender_bps=sum(self.contender_bps.values()) if self.contender_bps else None,
                quality=sample.quality if sample else None,
                playing=sample.playing if sample else None,
                buffer_s=sample.buffer if sample else None,
                stalls=self.service.stalls,
            )

    def _tell_contender(self, _t: float, flow: str, bps: float) -> None:
        if f"the bulk flow {flow.split('>')[0].rpartition(':')[2]}" in self.watched:
            self.contender_bps[flow] = bps

    def _step(self) -> None:
        """Change the bottleneck's rate to the next step, and record the time."""
        _, way, step = self.steps.pop(0)
        self.path.set_rate(way, step.rate_bps)
        self.rates.append({"t": time.time(), "direction": way, "rate_bps": step.rate_bps})

    def _check(self) -> None:
        """Raise if a part has ended or the disk is nearly full."""
        self.run.check_space()
        for name, failure in self.watched.items():
            if (words := failure()) is not None:
                raise ExperimentError(f"{name} ended during the run: {words}")


def _flow_name(flow: BulkFlow) -> str:
    return f"the bulk flow {flow.sender_port}"


def _unless(alive: Callable[[], bool], words: str) -> Callable[[], str | None]:
    return lambda: None if alive() else words


def _failure_of(application: Application) -> Callable[[], str | None]:
    return lambda: application.failure


def _error_of(sampler: PeriodicSampler) -> Callable[[], str | None]:
    return lambda: str(sampler.error) if sampler.error else None


class _Meter:
    """The receive rate of a place's first network interface, for the live display only."""

    def __init__(self, place: Place) -> None:
        # /proc/PID/net/dev shows another namespace without starting a program in it.
        self._counters = Path(f"/proc/{place.namespace_pid or 'self'}/net/dev")
        self._last = (time.monotonic(), self._received())

    def _received(self) -> int:
        rows = (line.split() for line in self._counters.read_text().splitlines()[2:])
        return sum(int(row[1]) for row in rows if not row[0].startswith("lo"))

    def rate_bps(self) -> float:
        """Return the mean rate since the last call in bit/s."""
        (then, before), self._last = self._last, (time.monotonic(), self._received())
        return 8 * (self._last[1] - before) / max(self._last[0] - then, 1e-3)


def _describe(lab: Lab, path: PathUnderTest, options: Options, service: Service) -> dict[str, Any]:
    taps = {side: instruments.tap(lab, side) for side in instruments.SIDES}
    machines = lab.sender, lab.receiver, lab.server, *(tap.place for tap in taps.values())
    clocks = clock_offsets([*path.places, *machines])
    described = {
        "name": lab.name,
        "addresses": asdict(lab.addresses),
        "ports": {
            "origin": service.port,
            **{probe.key: probe.port for probe in PROBES},
            "irtt_unshaped": ports.IRTT_UNSHAPED,
            "bulk": ports.BULK,
        },
        "rate_down_bps": options.rate_down_bps,
        "rate_up_bps": options.rate_up_bps,
        "realtime": bool(lab.realtime),
        "real_time": lab.real_time,
        "clock_offset_s": {place.name: round(offset.seconds, 4) for place, offset in clocks.items()},
        "clock_error_s": {place.name: round(offset.error, 4) for place, offset in clocks.items()},
        "capture_offset_s": {side: round(clocks[tap.place].correction, 6) for side, tap in taps.items()},
        **path.described(),
    }
    return described | service.facts


def _versions(lab: Lab, path: PathUnderTest, service: Service) -> dict[str, str]:
    versions = path.versions()
    versions |= {"iperf3 (sender)": iperf3.check(lab.sender), "ss (sender)": ss.check(lab.sender)}
    return versions | {"irtt": irtt.check(lab.client)} | lab.versions | service.versions


def _final_state(lab: Lab, path: PathUnderTest, rates: Sequence[Mapping[str, Any]], description: Path) -> None:
    """Record in lab.json the state of the bottleneck at the end, next to its state at the beginning.

    The log then has its final counters, and the TCP and IP counters at both ends of the bulk flows.
    A machine that has ended reports nothing; the cause is reported elsewhere.
    """
    known = json.loads(description.read_text()) if description.exists() else None
    with suppress(CommandError, ProcessError, RouterError):
        further = path.at_end(known or {}, rates)
        for end in (lab.sender, lab.receiver):
            end.run(["cat", *nstat.FILES], check=False)
        if known is not None:
            _write(description, known | further)


def _write(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data, indent=1) + "\n")
