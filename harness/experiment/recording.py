# SPDX-License-Identifier: Apache-2.0
"""One run of a service with contenders: set up, record every phase, tear down, score, report, commit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from sojourn.apps.base import Service
from sojourn.apps.second import SecondViewer, second_service
from sojourn.bottleneck.router import RouterError
from sojourn.captures.host import HostWatch
from sojourn.captures.player import PlayerSample
from sojourn.captures.recorders import RECORDERS
from sojourn.captures.screen import FINE_QUANTISER, FPS, QUANTISER
from sojourn.hardware.machine.clock import clock_offsets
from sojourn.hardware.machine.command_log import command_log
from sojourn.hardware.machine.display import SIZE
from sojourn.hardware.machine.files import LOGS, log_file
from sojourn.hardware.machine.place import CommandError, Place
from sojourn.hardware.machine.process import ProcessError
from sojourn.harness.lab.contract import SIDES, Lab, LabFactory
from sojourn.harness.lab.instruments import TICK_S, Instruments, bulk_flow, first_failure, flow_name
from sojourn.harness.lab.under_test import BlackBox, ManagedRouter, PathUnderTest
from sojourn.harness.options.model import Options
from sojourn.harness.options.timeline import LONGER_S, Phase
from sojourn.scoring.packets.sojourn import UNDER_WAY_S
from sojourn.scoring.statistics.harm import recovery_s
from sojourn.traffic import iperf3, irtt, nstat, ports, ss
from sojourn.traffic.applications import Application, CallPrograms, Ends, GamePrograms, WebUser
from sojourn.traffic.iperf3 import BulkFlow
from sojourn.traffic.load import CALL, GAME, VIDEO, WEB
from sojourn.traffic.probes import INTERVAL_MS, PROBES

#: Interval of the unshaped probe; long in simulated time: no host is late there, and every packet costs time.
_PROOF_MS, _SIMULATED_PROOF_MS = 10, 50
#: Maximum time for the player to settle before the first phase; ticks after which it counts as settled.
_WARM_UP_S, _STEADY_TICKS = 60.0, 6
#: Share of the requested buffer that counts as full, and by how much a full one falls until it is refilled, s: segments
#: arrive in steps. A small one is full from its least share on.
_FULL, _LEAST, _REFILL_S = 0.7, 0.3, 3.5
#: A solo phase of `at least` some length ends once the picture has had its height alone for _HELD_S, s, or has lasted
#: LONGER_S longer: what a contender leaves behind is not the next one's effect.
_HELD_S = 10.0


class HeldPicture:
    """For how long the picture has had its height alone; times in s by one clock."""

    def __init__(self) -> None:
        self.height, self.since = 0, 0.0

    def see(self, now: float, sample: PlayerSample | None) -> None:
        """Take a sample of the player: it begins anew with one that does not play, or has fewer lines."""
        if sample is None or not sample.playing or sample.height < self.height:
            self.since = now

    def until(self, end: float) -> float:
        """Return when a solo phase ends that lasts at least until `end`, if nothing changes."""
        return max(end, min(self.since + _HELD_S, end + LONGER_S))


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

    Raises `PartEndedError` if a part ends during the run; everything recorded until then is kept.
    """
    folder = run.path
    with command_log(folder / "setup.log") as turn_page, lab_factory as lab:
        path = ManagedRouter(lab.router, options.rig.path(options.bottleneck)) if lab.router else BlackBox(lab)
        path.apply()
        try:
            with first_failure() as stack:
                recording = _Recording(options, run, lab, path, service, progress, stack)
                recording.start()
                _write(folder / "lab.json", _describe(lab, path, options, service))
                run.add_versions(_versions(lab, path, service))
                recording.play()
        finally:
            turn_page(folder / "teardown.log")
            final_state(lab, path, folder / "lab.json")


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
    ) -> None:
        self.options, self.run, self.folder, self.lab, self.service = options, run, run.path, lab, service
        self.path, self.progress = path, progress
        self.instruments = Instruments(lab, path, stack)
        self.phases: list[dict[str, Any]] = []
        self.flows: list[dict[str, Any]] = []
        self.started = 0
        self.contender_bps: dict[str, float] = {}
        self._held = HeldPicture()

    def start(self) -> None:
        """Start probes, player and captures, in the order of their dependencies."""
        lab, folder, options = self.lab, self.folder, self.options
        self.progress.say("starting probes, player and captures")
        parts = self.instruments
        watched = self.service.screen
        display = parts.screen(log_file(folder, "xvfb")) if watched or options.second_video else None
        parts.capture(folder, elsewhere=options.elsewhere)
        parts.echo(log_file(folder, "irtt-server"))
        seconds = options.longest_s
        for probe in PROBES:
            parts.probe(folder / f"{probe.file}.json.gz", seconds, probe.port, INTERVAL_MS, probe.codepoint)
        if self.path.has_bypass:
            interval_ms = _PROOF_MS if lab.real_time else _SIMULATED_PROOF_MS
            parts.probe(folder / "irtt-unshaped.json.gz", seconds, ports.IRTT_UNSHAPED, interval_ms, "not-ect")
        samplers = self.path.samplers(folder)
        tell = self._tell_contender
        samplers["the bulk sender"] = ss.SsSampler(lab.sender, folder / "ss.jsonl", on_throughput=tell)
        if any(flow.up for phase in options.phases for flow in phase.load):
            samplers["the uploads' sender"] = ss.SsSampler(lab.receiver, folder / "ss-up.jsonl")
        parts.sample(samplers)
        if lab.real_time:
            host = HostWatch.start(folder, wrap=lab.realtime)
            parts.keep("the host watch", host.process.last_words, host.stop)
        self.stage = parts.play(self.service, display, folder, options.seed)
        if not watched:
            return
        self._warm_up()
        if options.screening:
            return
        assert display
        recorder = RECORDERS[options.recorder]
        strip = bool(self.service.facts.get("clip"))
        quantiser = QUANTISER if strip else FINE_QUANTISER
        size = self.service.fills or SIZE
        # OBS records at half the rate where pictures cost time: at the film's own rate, frames may coincide.
        rate = {} if lab.real_time else {"fps": FPS}
        screen = recorder.start(
            display.name, folder, place=lab.client, size=size, quantiser=quantiser, wrap=lab.on_time,
            on_change=not lab.real_time and strip, **rate,
        )  # fmt: skip
        parts.keep("the recorder", screen.process.last_words, screen.stop)

    def _warm_up(self) -> None:
        """Wait until the player has shown its best quality with a full buffer for a moment.

        On a path that is too slow, the run continues after a while: whether its baseline is usable is
        decided by gates.
        """
        self.progress.say("warming up the player")
        deadline, steady = time.monotonic() + _WARM_UP_S, 0
        buffer = self.service.buffer
        enough = max(_LEAST * buffer, min(_FULL * buffer, buffer - _REFILL_S))
        while time.monotonic() < deadline and steady < _STEADY_TICKS:
            self._check()
            time.sleep(TICK_S)
            sample = self.service.sample()
            self.progress.update()  # a sign of life
            full = sample is not None and sample.buffer >= enough
            steady = steady + 1 if full and self.service.settled else 0

    def play(self) -> None:
        """Run the phases; in any case, timeline.json and bulk.json describe what was recorded."""
        options, parts = self.options, self.instruments
        parts.schedule_rates(parts.clock(), options.rate_steps, options.rate_up_steps)
        for index, phase in enumerate(options.phases):
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
                self.service.end_phase()
                _write(self.folder / "timeline.json", {"phases": self.phases, "rates": self.path.rates})
                _write(self.folder / "bulk.json", {"flows": self.flows})
        if {"call", "game"} & self.service.facts.keys():
            # What the last phase has sent arrives, or is lost.
            self._watch(parts.clock() + UNDER_WAY_S)

    def _phase(self, phase: Phase, entry: dict[str, Any]) -> None:
        """Run one phase and record its end; a contender's phase begins when its data flows."""
        if phase.contender is None:
            self.service.begin_phase()
            self._alone(phase, self.instruments.by_clock(entry["start"]))
            return
        parts = self.instruments
        with first_failure() as running:
            # Before the bulk flows: a browser starts slowly through a full queue.
            for application in self._applications(phase):
                application.start()
                running.callback(self._end_application, phase, application)
                parts.watched[application.name] = partial(_failure, application)
            flows = []
            for number, flow_spec in enumerate(part for part in phase.load if part.bulk):
                flow = bulk_flow(
                    self.lab, flow_spec.contender, self.folder / LOGS, self.started, name=flow_spec.contender,
                    up=flow_spec.up, port=ports.BULK + number,
                )  # fmt: skip
                self.started += 1
                flows.append(flow)
            running.callback(self.contender_bps.clear)  # after the flows have ended
            parts.send(flows, phase.seconds, running, partial(self._end_flow, phase))
            entry["start"] = time.time()
            self.service.begin_phase()
            # Before stopping the flows, which waits for packets in the queue.
            running.callback(lambda: entry.update(end=time.time()))
            alone = all(part.bulk for part in phase.load)
            self._watch(parts.by_clock(entry["start"]) + phase.seconds, alone=alone)

    def _alone(self, phase: Phase, start: float) -> None:
        """Run a solo phase from `start` (by `clock`, s)."""
        end, clock = start + phase.seconds, self.instruments.clock
        self._held.since = start
        self._watch(end)
        if len(self.phases) == 1:
            sample = self.service.sample()
            self._held.height = sample.height if sample else 0
        # The rate's steps are at fixed times of the timeline.
        if phase.at_least and self.service.screen and not (self.options.rate_steps or self.options.rate_up_steps):
            recovered = start + recovery_s(call="call" in self.service.facts)
            while (until := max(self._held.until(end), recovered)) > clock():
                self._watch(until)

    def _applications(self, phase: Phase) -> Iterator[Application]:
        """Yield the applications that compete in a phase, in the load's order."""
        lab, logs, users = self.lab, self.folder / LOGS, 0
        ends = Ends(lab.client, lab.server, lab.addresses.client, lab.addresses.server)
        for flow_spec in phase.load:
            if flow_spec.contender == VIDEO:
                second = second_service(self.options)
                second.encoder = self.service.encoder
                yield SecondViewer(second, self.stage)
            elif flow_spec.contender == CALL:
                yield CallPrograms(ends, logs, f"call-{len(self.phases)}")
            elif flow_spec.contender == GAME:
                name, draw = f"game-{len(self.phases)}", f"{self.options.seed}-{len(self.phases)}"
                yield GamePrograms(ends, logs, name, port=ports.GAME, seed=draw, dscp=self.options.game_dscp)
            elif flow_spec.contender == WEB:
                draw = f"{self.options.seed}-{len(self.phases)}-{users}"
                yield WebUser(ends, logs, f"web-{len(self.phases)}-{users}", number=users, seed=draw)
                users += 1

    def _end_application(self, phase: Phase, application: Application) -> None:
        self.instruments.watched.pop(application.name, None)
        application.stop()
        self.flows.append(application.record(phase.name))

    def _end_flow(self, phase: Phase, flow: BulkFlow) -> None:
        self.flows.append(flow.record(phase.name, self.instruments.end(flow)))

    def _watch(self, end: float, *, alone: bool = True) -> None:
        """Run until `end` (by `clock`, s); `alone`: the display's counter sees only the victim."""
        victim = _Meter(self.lab.client)

        def tick() -> None:
            self._check()
            sample = self.service.sample()
            self._held.see(self.instruments.clock(), sample)
            self.progress.update(
                victim_bps=victim.rate_bps() if alone else None,
                contender_bps=sum(self.contender_bps.values()) if self.contender_bps else None,
                quality=sample.quality if sample else None,
                playing=sample.playing if sample else None,
                buffer_s=sample.buffer if sample else None,
                stalls=self.service.stalls,
            )

        self.instruments.live(end, tick)

    def _tell_contender(self, _t: float, flow: str, bps: float) -> None:
        if flow_name(int(flow.split(">")[0].rpartition(":")[2])) in self.instruments.watched:
            self.contender_bps[flow] = bps

    def _check(self) -> None:
        """Raise if a part has ended or the disk is nearly full."""
        self.run.check_space()
        self.instruments.check()


def _failure(application: Application) -> str | None:
    return application.failure


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
    taps = {side: lab.tap(side) for side in SIDES}
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
    if options.screening:
        described["screening"] = True
    if lab.bunching_us:
        described["path_varies_ms"] += lab.varies_ms
    return described | service.facts


def _versions(lab: Lab, path: PathUnderTest, service: Service) -> dict[str, str]:
    versions = path.versions()
    versions |= {"iperf3 (sender)": iperf3.check(lab.sender), "ss (sender)": ss.check(lab.sender)}
    return versions | {"irtt": irtt.check(lab.client)} | lab.versions | service.versions


def final_state(lab: Lab, path: PathUnderTest, description: Path) -> None:
    """Record in lab.json the state of the bottleneck at the end, next to its state at the beginning.

    The log then has the bottleneck's final counters, and the TCP and IP counters at both ends of the bulk flows.
    A machine that has ended reports nothing; the cause is reported elsewhere.
    """
    silent = CommandError, ProcessError, RouterError
    with suppress(*silent, ValueError):  # no JSON: its writing was interrupted
        known = json.loads(description.read_text()) if description.exists() else None
        further = path.at_end(known or {})
        if known is not None:
            _write(description, known | further)
    for end in (lab.sender, lab.receiver):
        with suppress(*silent):
            end.run(["cat", *nstat.FILES], check=False)


def _write(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data, indent=1) + "\n")
