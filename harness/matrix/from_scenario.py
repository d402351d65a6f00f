# SPDX-License-Identifier: Apache-2.0
"""A scenario's loads as a matrix: each phase with a contender is a cell, with the path of that phase."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sojourn.apps import SERVICES
from sojourn.apps.call import FULL, BrowserCall
from sojourn.apps.two_party import TwoParty
from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.spec import Hop
from sojourn.hardware.machine.messages import first_wrong
from sojourn.harness.matrix.matrix import Chart, Column, Matrix, MatrixError
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import Options
from sojourn.harness.options.rules import parse_options
from sojourn.harness.options.sources import combined, read_scenario
from sojourn.harness.options.timeline import Phase
from sojourn.traffic.load import CALL, GAME, RPM, VIDEO, WEB
from sojourn.traffic.probes import INTERVAL_MS, PROBES, LatencyProbe
from sojourn.traffic.spec import Call, Flow, Probe, ShortFlows
from sojourn.traffic.web import MEAN_GAP_S

_WAYS = ((0, "down"), (1, "up"))
#: Cells and flows up to which the page has bars.
_MOST_CELLS, _MOST_FLOWS = 16, 4
_FCT = (("P50", "median"), ("P95", "p95"))


def scenario_matrix(file: Path, kernel_source: str | None = None) -> Matrix:
    """Return the matrix of a scenario file: a cell for each of its loads and each combination of its lists.

    A cell has the bulk flows of a phase, its web users as short flows, a call if the phase has one or the victim is
    one, and the probes of a run. A video's player has no counterpart in a matrix: a cell that needs a second one cannot
    run. Rates step as in the timeline, the phase's start being the cell's. `kernel_source` is that option, which may
    add qdiscs and contenders. Raises MatrixError.
    """
    try:
        kernel = {"kernel-source": kernel_source} if kernel_source else {}
        every = [cell for chosen, given in combined(read_scenario(file)) for cell in _cells(chosen, given | kernel)]
        unique: dict[str, Cell] = {}
        for cell in every:
            unique.setdefault(cell.name, cell)  # phases of one load are one cell, the first
        flows = max(len(cell.flows) for cell in every)
        called = [_called(probe, every) for probe in PROBES]
        fetched, calls = any(cell.short_flows for cell in every), any(cell.call for cell in every)
        return Matrix(
            name=re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-") or "scenario",
            title=f"Scenario {file.name}",
            cells=tuple(unique.values()),
            window_s=min(40.0, min(cell.seconds for cell in every) / 2),
            columns=(
                *(Column(head=f"flow {n + 1} Mbit/s", metric=f"flows.{n}.d_ss_mbps") for n in range(flows)),
                *((Column(head=f"FCT {of} s", metric=f"short.{name}_s") for of, name in _FCT) if fetched else ()),
                *((Column(head=f"call {way} Mbit/s", metric=f"call.{n}.mbps") for n, way in _WAYS) if calls else ()),
                *(
                    Column(head=f"probe ({name}) {of} ms", metric=f"probes.{n}.{metric}_ms")
                    for n, name in enumerate(called)
                    for of, metric in (("P50", "p50"), ("P99", "p99"))
                ),
            ),
            charts=tuple(_charts({name: name for name in unique}, flows, called)),
            notes="Each load of the scenario alone, without its video. D_SS is the mean of the sender's delivery "
            "rates near the end; goodput where the senders report none.",
        )
    except (OptionsError, ValueError) as wrong:
        code = wrong.code if isinstance(wrong, OptionsError) else "unsupported"
        why = first_wrong(wrong) if isinstance(wrong, ValidationError) else str(wrong)
        raise MatrixError(why if str(file) in why else f"{file}: {why}", code=code) from wrong


def _charts(cells: dict[str, str], flows: int, probes: Sequence[str]) -> Iterator[Chart]:
    """Yield the rate of every flow and the P99 of every probe, as bars, for so many cells and flows as can be read."""
    if len(cells) > _MOST_CELLS:
        return
    if flows <= _MOST_FLOWS:
        rates = {f"flow {n + 1}": f"flows.{n}.d_ss_mbps" for n in range(flows)}
        yield Chart(title="D_SS", unit="Mbit/s", series=rates, cells=cells)
    delays = {name: f"probes.{n}.p99_ms" for n, name in enumerate(probes)}
    yield Chart(title="Round-trip time of the probes, P99", unit="ms", series=delays, cells=cells)


def _called(probe: LatencyProbe, cells: Sequence[Cell]) -> str:
    """Return a probe's name in all cells: dualpi2's queue if all have it."""
    names = {probe.called(str(way.qdisc)) for cell in cells for hop in cell.hops if (way := hop.down)}
    return names.pop() if len(names) == 1 else probe.name


def _cells(chosen: Sequence[str], given: dict[str, Any]) -> Iterator[Cell]:
    # A silent call costs less, and most matrices measure packets; a cell has no baseline.
    options = parse_options(given, {"call-sound": "off"}, baseline=False)
    began = 0.0
    if not any(phase.contender for phase in options.phases):
        raise OptionsError("no phase of the timeline has a contender")
    for phase in options.phases:
        if phase.contender:
            yield _cell(" ".join([phase.contender, *chosen]), options, phase, began)
        began += phase.seconds


def _cell(name: str, options: Options, phase: Phase, began: float) -> Cell:
    now = options.bottleneck.stepped(options.rate_steps, options.rate_up_steps, until_s=began)
    # The middlebox keeps the part of the delay that its jitter needs; the hosts add the rest.
    paths = {
        name: way.model_copy(update={"path": way.path.model_copy(update={"delay_us": options.jitter_us})})
        for name, way in (("down", now.down), ("up", now.up))
    }
    rtt = options.bottleneck.rtt_us - 2 * options.jitter_us
    down, up = (
        tuple(
            RateStep(at_s=step.at_s - began, rate_bps=step.rate_bps)
            for step in steps
            if began < step.at_s < began + phase.seconds
        )
        for steps in (options.rate_steps, options.rate_up_steps)
    )
    victim = SERVICES[options.service]
    calls_itself = issubclass(victim, BrowserCall)
    bitrate = {"bitrate_bps": options.call_bitrate_bps or FULL.bitrate_bps}
    programs = [part.contender for part in phase.load if not part.one_flow]
    sender: dict[str, Any] = {"ecn": options.call_ecn, "cc": options.call_cc, "sound": options.call_sound, **bitrate}
    calls = [Call(rtt_us=rtt, **sender)] if calls_itself else []
    calls += [Call(rtt_us=rtt)] * programs.count(CALL)
    no_video = not victim.screen or victim.loads_pages or issubclass(victim, TwoParty)
    missing = {
        f"{options.service} as victim": no_video and not calls_itself,
        "a player for its second video": VIDEO in programs,
        "speech, which only `sojourn quality` judges (use call-sound=on)": options.call_speech,
        "a second call": len(calls) > 1,
        "a game": GAME in programs,
        "a Responsiveness Test": RPM in programs,
    }
    return Cell(
        name=name,
        flows=tuple(Flow(contender=flow.contender, up=flow.up, rtt_us=rtt) for flow in phase.load if flow.one_flow),
        short_flows=_short(programs.count(WEB), phase.seconds, rtt),
        hops=(Hop(down=paths["down"], up=paths["up"], schedule=down, schedule_up=up),),
        seconds=phase.seconds,
        ip_version=options.ip_version or 4,
        call=calls[0] if calls else None,
        probes=tuple(
            Probe(rtt_us=rtt, ecn=probe.codepoint, interval_s=INTERVAL_MS / 1e3, round_trip=True) for probe in PROBES
        ),
        needs=", ".join(what for what, true in missing.items() if true),
    )


def _short(users: int, seconds: float, rtt_us: int) -> ShortFlows | None:
    """Return the requests of so many web users together, at the same rate; without ECN, as browsers do."""
    if not users:
        return None
    gap_s = MEAN_GAP_S / users
    return ShortFlows(contender="cubic-noecn", rtt_us=rtt_us, mean_gap_s=gap_s, count=ceil(4 * seconds / gap_s) + 10)
