# SPDX-License-Identifier: Apache-2.0
"""One cell in a real-time lab, virtual or physical; it writes the same files as the simulated lab."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl

from sojourn.apps.call import BrowserCall as Browsers
from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.readback import json_values
from sojourn.bottleneck.spec import Bottleneck, Direction
from sojourn.captures.packets import Captured
from sojourn.hardware.machine.clock import clock_offset, clock_offsets
from sojourn.hardware.machine.command_log import command_log
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.periodic import PeriodicSampler
from sojourn.harness.lab.contract import SIDES, Lab, Side
from sojourn.harness.lab.instruments import Instruments, bulk_flow, first_failure
from sojourn.harness.lab.under_test import ManagedRouter
from sojourn.harness.matrix.capabilities import has_user_program, missing_capability, working_hops
from sojourn.harness.matrix.cells.counters import COUNTERS
from sojourn.harness.matrix.cells.real_call import (
    call_shown,
    crossed,
    estimates,
    heard,
    logs_of,
    neteq,
    of_call,
    pictures,
    proven,
    seen_by_ends,
    talks,
    tones,
)
from sojourn.scoring.gates.base import covers
from sojourn.scoring.gates.capture_clocks import probe_clock, tap_clocks
from sojourn.scoring.gates.captures import capture_drops, offloads
from sojourn.scoring.gates.contenders import contender_proven, program_proven
from sojourn.scoring.gates.router import on_router
from sojourn.scoring.gates.unshaped import jitter
from sojourn.scoring.packets import latency, pcapng, per_flow, samples
from sojourn.scoring.packets.intervals import flow_intervals
from sojourn.scoring.schema.columns import WIRE
from sojourn.scoring.sound.ear import Sound
from sojourn.scoring.validity import Gate, Limits, Validity
from sojourn.traffic import nstat, ports
from sojourn.traffic.iperf3 import BulkFlow
from sojourn.traffic.program_flow import ProgramFlow
from sojourn.traffic.spec import Flow, Probe
from sojourn.traffic.ss import SsSampler
from sojourn.traffic.tso import tso_2020
from sojourn.traffic.tunnel import FAR, NEAR, tunnel

EVIDENCE = "evidence"
"""Folder in a run's: captures and the tools' own output, which no seed reproduces."""
_STATES_S = 0.5
_QUEUES_S = 1.0
#: The most that a full queue contains, and its retransmissions.
_DRAIN_S = 10.0
_QUEUES, _JITTER = "qdisc.jsonl", "jitter.json.gz"


class RealTimeError(CodedError):
    """A cell cannot run in this lab, or its run is invalid; the message is one line."""


def run_cell(
    lab: Lab, cell: Cell, folder: Path, *, seed: int, limits: Limits | None = None, stopped: Event | None = None
) -> None:
    """Run `cell` in `lab` and write its results to `folder`, which exists and is empty.

    docs/simulated-time.md lists the files and their columns, docs/matrix.md what real time adds. `seed` numbers the
    repetition: real time is not reproducible. `limits` are those of the gates. Once `stopped` is set,
    by another thread, the run ends and everything is undone.

    Raises:
        RealTimeError: the lab lacks what the cell needs, the run was stopped, or a gate makes it invalid.
        PartEndedError: a part ended during the run.
        RouterError, ReadbackError, BulkError, ContenderError, IrttError, ProcessError, TunnelError, ServiceError: a
            part failed.
    """
    missing, router = cell.needs or missing_capability(cell, lab.name), lab.router
    if missing or not router:
        raise RealTimeError(f"cell {cell.name}: the {lab.name} lab has {missing or 'no router'}", code="unsupported")
    evidence = folder / EVIDENCE
    evidence.mkdir()
    path = ManagedRouter(router, bottleneck_of(cell))
    with command_log(folder / "setup.log"), first_failure() as stack:
        stack.enter_context(tso_2020((lab.sender, lab.receiver), cell.tso_2020))
        path.apply()
        stack.callback(router.clear)
        if cell.tunnel in ("wireguard", "fou", "fou-auto"):
            outer = lab.addresses
            stack.enter_context(tunnel(cell.tunnel, lab.sender, outer.sender, lab.receiver, outer.receiver))
        run = _Run(lab, path, cell, evidence, stopped or Event())
        run.play()
        path.verify()
        versions = lab.versions | router.versions()
    verdict = Validity.of(_write(run, folder, limits or Limits()))
    made = {
        "cell": cell.model_dump(mode="json"),
        "seed": seed,
        "endpoints": "iperf3",
        "lab": lab.name,
        "kernel": versions,
        "began": run.began,
        "started_s": [round(flow.start_s - run.began, 3) for flow in run.flows],
        "gates": [gate.model_dump() for gate in verdict.gates],
    }
    if cell.probes and run.probe_clocks:
        made["probe_clock"] = asdict(run.probe_clocks[0])
    (folder / "cell.json").write_text(json.dumps(made, indent=1) + "\n")
    if not verdict.valid:
        raise RealTimeError(f"cell {cell.name}: invalid: {'; '.join(verdict.reasons)}", code="invalid-run")


def bottleneck_of(cell: Cell) -> Bottleneck:
    """Return the cell's only middlebox, with the RTT of its flows as delay of the path, half each way."""
    (hop,) = working_hops(cell)
    assert hop.down and hop.up
    rtt = next(sender.rtt_us for sender in (*cell.flows, cell.call, *cell.probes) if sender)
    return Bottleneck(down=_delayed(hop.down, rtt - rtt // 2), up=_delayed(hop.up, rtt // 2))


def path_rtt_ms(requested: Bottleneck) -> float:
    """Return the round-trip time of a packet that bypasses the bottleneck's queue, ms."""
    return (requested.down.path.delay_us + requested.up.path.delay_us) / 1e3


def _delayed(way: Direction, delay_us: int) -> Direction:
    path = way.path.model_copy(update={"delay_us": way.path.delay_us + delay_us})
    return way.model_copy(update={"path": path})


class _Run:
    """Everything that runs with a cell's flows, and its results."""

    def __init__(self, lab: Lab, path: ManagedRouter, cell: Cell, evidence: Path, stopped: Event) -> None:
        self.lab, self.path, self.router, self.cell = lab, path, path.router, cell
        self.evidence, self.stopped = evidence, stopped
        self.call: Browsers | None = None
        self.heard: list[Sound | None] = []
        self.flows = [
            bulk_flow(
                lab, flow.contender, evidence, n, name=f"{n}-{flow.contender}", up=flow.up,
                address=(NEAR if flow.up else FAR) if cell.tunnel else "",
            )
            for n, flow in enumerate(cell.flows)
        ]  # fmt: skip
        self.pairs = list(zip(self.flows, cell.flows, strict=True))
        self.captures: dict[Side, Captured] = {}
        sides = {side: lab.tap(side).place for side in SIDES}
        clocks = clock_offsets([*sides.values(), *([lab.server] if lab.server.remote else [])])
        self.ahead_ns = {side: round(clocks[place].correction * 1e9) for side, place in sides.items()}
        #: The clock of the probes' server at the start, then also at the end; empty: it is the client's.
        self.probe_clocks = [clocks[lab.server]] if lab.server.remote else []
        self.began = 0.0
        self.counted: dict[str, dict[str, int]] = {}
        self.clocks: dict[str, Any] = {}
        self.lost: dict[str, Any] = {}

    def play(self) -> None:
        with first_failure() as stack:
            parts = Instruments(self.lab, self.path, stack, self._wait)
            self.captures = parts.captured
            if self.cell.call:
                self.call = call_shown(parts, self.cell.call, self.evidence)
            before = self._counters()
            parts.capture(self.evidence, only="ip or ip6")
            self.clocks = self.path.tap_clocks({})
            self.path.count()
            self._probe(parts)
            self._sample(parts)
            self._traffic(parts)
            self._drain()
            parts.check()
            if self.cell.probes and self.probe_clocks:
                self.probe_clocks.append(clock_offset(self.lab.server))
            self.clocks, self.lost = self.path.tap_clocks(self.clocks), self.path.lost()
        self.counted = {name: nstat.counted(before[name], after) for name, after in self._counters().items()}
        router = self.router
        (qdiscs,) = json_values(router.place.run(["tc", "-s", "-j", "qdisc", "show"]))
        with (self.evidence / _QUEUES).open("a") as out:
            for dev in (router.lan, router.wan):
                last = {"t": time.time(), "dev": dev, "qdiscs": [q for q in qdiscs if q.get("dev") == dev]}
                out.write(json.dumps(last) + "\n")

    def _counters(self) -> dict[str, dict[str, int]]:
        """Return the TCP and IP counters of the kernels at both ends of the bulk flows."""
        ends = {place.name: place for place in (self.lab.sender, self.lab.receiver)}
        return {name: nstat.counters(place.run(["cat", *nstat.FILES], check=False)) for name, place in ends.items()}

    def _probe(self, parts: Instruments) -> None:
        """Start one probe that bypasses the bottleneck and shows the lab's own jitter, and those of the cell."""
        parts.echo(self.evidence / "irtt-server.log")
        wanted = {_JITTER: (ports.IRTT_UNSHAPED, Probe(rtt_us=0))}
        wanted |= {_probe_file(n): (ports.IRTT, probe) for n, probe in enumerate(self.cell.probes)}
        for name, (port, probe) in wanted.items():
            parts.probe(self.evidence / name, self.cell.seconds, port, probe.interval_s * 1e3, probe.ecn)

    def _sample(self, parts: Instruments) -> None:
        """Sample queues and the senders' TCP state; in a tunnel the receivers' too: no capture sees its flows."""
        low, high = ports.FIRST_SENDER, ports.FIRST_SENDER + len(self.flows) - 1
        ends = {("sending", flow.sender): "sport" for flow in self.flows}
        if self.cell.tunnel:
            ends |= {("receiving", flow.receiver): "dport" for flow in self.flows}
        samplers: dict[str, PeriodicSampler] = {
            f"the sampler {what} at {place.name}": SsSampler(
                place, self.evidence / f"{what}-{place.name}.jsonl", f"{port} ge :{low} and {port} le :{high}",
                interval_s=_STATES_S,
            )
            for (what, place), port in ends.items()
        }  # fmt: skip
        parts.sample(samplers | self.path.samplers(self.evidence, _QUEUES_S))

    def _traffic(self, parts: Instruments) -> None:
        """Execute the cell's events in real time; a flow that ends by itself ends the run."""
        cell, (hop, *_) = self.cell, working_hops(self.cell)

        def end(flow: BulkFlow) -> None:
            if flow.alive():
                parts.end(flow)

        with first_failure() as stack:
            self.began = time.time()
            began = parts.by_clock(self.began)
            for flow, spec in self.pairs:
                if spec.stop_s is not None and spec.stop_s < cell.seconds:
                    parts.schedule(began + spec.stop_s, partial(parts.end, flow))
            parts.schedule_rates(began, hop.schedule, hop.schedule_up)
            for flow, spec in self.pairs:
                parts.schedule(began + spec.start_s, partial(parts.send, [flow], cell.seconds, stack, end))
            parts.live(began + cell.seconds, parts.check)
            parts.check()

    def _drain(self) -> None:
        """Wait until no sender has data in flight: a connection cut off by a removed tunnel holds its port for long."""
        ending = [word for state in ("fin-wait-1", "closing", "last-ack") for word in ("state", state)]
        query = ["ss", "-Htn", *ending, f"sport ge :{ports.FIRST_SENDER} and sport le :{ports.LAST_SENDER}"]
        deadline = time.monotonic() + _DRAIN_S
        for place in {flow.sender for flow in self.flows}:
            while place.run(query).strip() and time.monotonic() < deadline:
                self.stopped.wait(_STATES_S)

    def _wait(self, seconds: float) -> None:
        if self.stopped.wait(seconds):
            raise RealTimeError(f"cell {self.cell.name}: stopped")

    def lines(self, pattern: str) -> list[str]:
        """Return the lines of the samplers' files whose names match."""
        return [line for file in sorted(self.evidence.glob(pattern)) for line in file.read_text().splitlines()]


def _write(run: _Run, folder: Path, limits: Limits) -> list[Gate]:
    """Write a run's result files and return the gates that it must pass."""
    cell, t0 = run.cell, run.began
    seen = {side: _seen(capture, run.ahead_ns[side]) for side, capture in run.captures.items()}
    if cell.tunnel:
        got = samples.received(run.lines("receiving-*.jsonl"), ports.FIRST_SENDER, t0)
    else:
        behind = (_of(flow, seen[_sides(requested)[1]]) for flow, requested in run.pairs)
        parts = [samples.progress(part, n, t0) for n, part in enumerate(behind)]
        got = pl.concat([samples.received([], ports.FIRST_SENDER, t0), *parts])
    states = samples.states(run.lines("sending-*.jsonl"), ports.FIRST_SENDER, t0)
    until = {n: min(flow.stop_s or cell.seconds, cell.seconds) for n, flow in enumerate(cell.flows)}
    samples.sampled(got, states, cell.sample_s, until).write_csv(folder / "flows.csv")
    if cell.probes:
        _probed(run).write_csv(folder / "probes.csv")
    if run.call:
        ways = of_call(run.call, run.lab, down=seen["client"], up=seen["server"])
        talks(ways, t0, cell.seconds).write_csv(folder / "talks.csv")
        before, paths = of_call(run.call, run.lab, down=seen["server"], up=seen["client"]), bottleneck_of(cell)
        paths_ms = paths.down.path.delay_us / 1e3, paths.up.path.delay_us / 1e3
        crossed(before, ways, paths_ms, t0, cell.seconds).write_csv(folder / "crossings.csv")
        pictures(logs_of(run.evidence), t0, cell.seconds).write_csv(folder / "pictures.csv")
        estimates(seen_by_ends(run.evidence), t0, cell.seconds).write_csv(folder / "estimates.csv")
    if cell.call and cell.call.sound:
        run.heard = heard(run.evidence)
        tones(run.heard, t0, cell.seconds).write_csv(folder / "tones.csv")
        neteq(seen_by_ends(run.evidence), t0, cell.seconds).write_csv(folder / "neteq.csv")
    outer = per_flow.select(seen["client"], src=run.lab.addresses.sender, dst=run.lab.addresses.receiver)
    per_flow.flow_table(outer).select(list(WIRE)).write_csv(folder / "wire.csv")
    if has_user_program(cell):
        _intervals(run, seen).write_csv(folder / "intervals.csv")
    (folder / COUNTERS).write_text(json.dumps(run.counted, indent=1) + "\n")
    hop, (lan, wan) = cell.hops.index(working_hops(cell)[0]), (run.router.lan, run.router.wan)
    with (folder / "queues.jsonl").open("w") as out:
        for line in map(json.loads, run.lines(_QUEUES)):
            dev = {lan: "lan", wan: "wan"}[line["dev"]]
            out.write(
                json.dumps({"t": round(line["t"] - t0, 6), "hop": hop, "dev": dev, "qdiscs": line["qdiscs"]}) + "\n"
            )
    return _gates(run, seen, limits)


def _probed(run: _Run) -> pl.DataFrame:
    """Return the delay of each of the cell's probes, by this machine's clock."""
    ahead_s = run.probe_clocks[0].correction if run.probe_clocks else 0
    delays = []
    for n, probe in enumerate(run.cell.probes):
        file = run.evidence / _probe_file(n)
        delays.append(latency.delays(file) if probe.round_trip else latency.read_irtt_down(file, ahead_s))
    return samples.probed(delays, run.began, run.cell.seconds)


def _intervals(run: _Run, seen: dict[Side, pl.DataFrame]) -> pl.DataFrame:
    """Return rate, marks and queue delay of each flow per 100 ms."""
    ways = bottleneck_of(run.cell)
    parts = []
    for n, (flow, requested) in enumerate(run.pairs):
        before, behind = (_of(flow, seen[side]) for side in _sides(requested))
        path_ms = (ways.up if requested.up else ways.down).path.delay_us / 1e3
        parts.append(flow_intervals(before, behind, path_ms, n, run.began, run.cell.seconds))
    return pl.concat(parts).sort("t_s", "flow")


def _seen(capture: Captured, ahead_ns: int) -> pl.DataFrame:
    """Return the packets of a capture by the local clock; `ahead_ns` is how far the capturing clock is ahead of it."""
    return per_flow.with_advance(pcapng.read(capture.file).packets.with_columns(pl.col("t_ns") - ahead_ns))


def _gates(run: _Run, seen: dict[Side, pl.DataFrame], limits: Limits) -> list[Gate]:
    cell = run.cell
    # While all flows run: starting and ending them takes the nodes' time too. Rates depend on the bulk of the
    # delays; where probes sample a queue, the tail matters as well.
    ways = bottleneck_of(cell)
    # The probes of the last round trip have no time to return.
    end = run.began + cell.seconds - path_rtt_ms(ways) / 1e3
    together = max((flow.start_s for flow in run.flows), default=run.began), end
    percent = 99 if cell.probes or not run.lab.real_time else 95
    probed = latency.within(latency.read_irtt(run.evidence / _JITTER), [together])
    if any(way.path.loss_percent for way in (ways.down, ways.up)):
        probed = probed.drop_nulls("rtt_ms")  # lost on the path, not in the lab
    late = latency.percentile(probed, percent)
    added = None if late is None else late - path_rtt_ms(ways)
    gates = [capture_drops(side, capture.dropped) for side, capture in run.captures.items()]
    gates.append(offloads(max(max(table["ip_bytes"].to_list(), default=0) for table in seen.values())))
    if run.clocks:
        gates.append(tap_clocks(run.clocks["tap_clocks"], limits))
    if cell.probes and run.probe_clocks:
        gates.append(probe_clock([asdict(offset) for offset in run.probe_clocks], limits))
    gates += on_router(run.lost)
    gates.append(jitter(f"jitter (P{percent})", added, limits.varying(run.lab.varies_ms)))
    if run.call and cell.call:
        ways_seen = of_call(run.call, run.lab, down=seen["client"], up=seen["server"])
        gates += proven(cell.call, ways_seen, seen_by_ends(run.evidence), run.began, cell.seconds)
    for way, sound in zip(("down", "up"), run.heard, strict=False):
        span = run.began, run.began + cell.seconds
        gates.append(covers("sound-complete", f"sound {way}", None if sound is None else sound.ear["t"], span, limits))
    if cell.tunnel:
        return gates
    # Until a program selects its own, a socket has the kernel's.
    sampled = (line for line in map(json.loads, run.lines("sending-*.jsonl")) if line["bytes_sent"])
    controls = [(line["flow"], line["cc"]) for line in sampled]
    for n, (flow, requested) in enumerate(run.pairs, 1):
        sent, behind = (per_flow.flow_table(_of(flow, seen[side])) for side in _sides(requested))
        row = sent.row(0, named=True) if sent.height else None
        if row and isinstance(flow, ProgramFlow):
            row = per_flow.total(sent) | {"ce": behind["ce"].sum()}
        elif row:
            came = {"ce": behind["ce"].sum(), "sce": max(behind["ect1"].sum() - row["ect1"], 0)}
            row |= came | {"esce": per_flow.esce(seen[_sides(requested)[0]], row)}
        controls_seen = {cc for name, cc in controls if f":{flow.sender_port}>" in name}
        qdisc = str((ways.up if requested.up else ways.down).qdisc)
        if isinstance(flow, ProgramFlow):
            gates.append(program_proven(f"flow {n}", flow.program.name, row, flow.program.ecn, limits))
            continue
        gates.append(contender_proven(f"flow {n}", requested.contender, row, controls_seen, qdisc, limits))
    return gates


def _sides(flow: Flow) -> tuple[Side, Side]:
    """Return where packets of `flow` are captured before and behind the bottleneck."""
    return ("client", "server") if flow.up else ("server", "client")


def _of(flow: BulkFlow, seen: pl.DataFrame) -> pl.DataFrame:
    if isinstance(flow, ProgramFlow):
        port = {"sport" if flow.program.sender == "server" else "dport": flow.port}
        return per_flow.select(seen, src=flow.sender_address, dst=flow.receiver_address, **port)
    return per_flow.select(seen, sport=flow.sender_port, dport=flow.port)


def _probe_file(n: int) -> str:
    return f"probe-{n}.json.gz"
