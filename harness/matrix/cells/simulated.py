# SPDX-License-Identifier: Apache-2.0
"""The simulated lab: one cell in one node of simulated time; its measurements go to a folder."""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Literal

from sojourn.bottleneck import delivery_trace
from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTraceError
from sojourn.bottleneck.readback import ReadbackError
from sojourn.captures.packets import compress
from sojourn.hardware import simulation
from sojourn.hardware.images.guest import Guest, ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.kernel_build.sources import OURS, Sources
from sojourn.hardware.kernel_check import CHECK
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.matrix.cells.counters import COUNTERS
from sojourn.harness.matrix.cells.guest import measured, plan, queues, script
from sojourn.harness.matrix.cells.guest.network import hop_name
from sojourn.scoring.schema.columns import FLOWS
from sojourn.traffic import nstat
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.endpoints import ensure_endpoints
from sojourn.traffic.program import PROGRAMS

Endpoints = Literal["bulk", "iperf3"]
MEMORY_BYTES = 400 << 20
"""What a machine of 256 MB and its worker take at most."""
CAPTURES = ("client.pcapng.zst", "server.pcapng.zst")
"""Written with `pcap`: the headers of every packet at the receiver and at the first middlebox's outer end."""


@cache
def parts(sources: Sources = OURS) -> tuple[Kernel, Guest, Path]:
    """Return kernel, guest and the program of all endpoints, built if missing; once per process.

    Raises `sojourn.hardware.machine.cache.BuildError`.
    """
    return ensure_kernel(sources), ensure_guest(), ensure_endpoints()


def versions(sources: Sources = OURS) -> dict[str, str]:
    """Return digests of what determines results besides cell and seed: kernel, guest, the program of all endpoints."""
    kernel, guest, program = parts(sources)
    return {
        "kernel": kernel.digest,
        "release": kernel.version,
        "source": kernel.source,
        "guest": guest.digest,
        "bulk": program.parent.name,
    }


def not_for_iperf3(cell: Cell) -> str:
    """Return why iperf3 cannot send the flows of a cell; empty if it can."""
    if not cell.flows:
        return "there are no bulk flows"
    if odd := [flow.contender for flow in cell.flows if flow.contender not in CONTENDERS]:
        return f"it sends TCP only, not {odd[0]}"
    lengths = (script.length_s(cell, flow) for flow in cell.flows)
    if part := next((it for it in lengths if not it.is_integer()), None):
        return f"it runs whole seconds only, not {part:g} s"
    try:
        plan.plan(cell, seed=0, flows=False)
    except ValueError as wrong:
        return str(wrong).rpartition("iperf3: ")[2]
    return ""


def run_cell(
    cell: Cell,
    folder: Path,
    *,
    seed: int,
    endpoints: Endpoints = "bulk",
    timeout_s: float = 300,
    pcap: bool = False,
    sources: Sources = OURS,
) -> None:
    """Run `cell` in simulated time and write its results to `folder`, which exists and is empty.

    The same seed gives the same bytes in every file. docs/simulated-time.md lists the files and their columns.

    Args:
        timeout_s: wall time, s.
        pcap: whether to write `CAPTURES` too; it changes nothing else.
        sources: of its kernel and tc.

    Raises:
        SimulationError: the cell cannot run here, the node hung or failed, or its configuration is not the one
            requested; the message ends with the node's last output.
        BuildError: kernel, guest or program cannot be built.
    """
    if cell.needs:
        raise SimulationError(f"cell {cell.name}: needs {cell.needs}", code="unsupported")
    if endpoints == "iperf3" and (why := not_for_iperf3(cell)):
        raise SimulationError(f"cell {cell.name}: --endpoints=iperf3: {why}", code="unsupported")
    kernel, guest, program = parts(sources)
    job = script.script(cell, seed, iperf3=endpoints == "iperf3", pcap=pcap) + CHECK
    (folder / "run").write_text(job)
    (folder / "run").chmod(0o755)
    brought = _bring(cell, folder)
    shutil.copy(program, folder / "bulk")
    start_ns = simulation.DATE_NS if _programs(cell) else simulation.START_NS
    try:
        simulation.run(kernel, guest, folder, seed=seed, start_ns=start_ns, timeout=timeout_s)
    except SimulationError as failed:
        raise SimulationError(f"cell {cell.name}, seed {seed}: {failed}", code=failed.code) from failed
    answers = {file.name.removeprefix("readback-"): file.read_text() for file in sorted(folder.glob("readback-*"))}
    seen_slots = {file.name.removeprefix("seen-slots-"): file.read_text() for file in folder.glob("seen-slots-*")}
    log = "".join(f"\n[{space}] {queues.SLOTS}\n{text}" for space, text in seen_slots.items())
    log += "".join(f"\n[{space}] tc -s -d -j\n{text}" for space, text in answers.items())
    stepped = {name: (folder / name).read_text() for name in queues.stepped(cell)}
    log += "".join(f"\n[{name}] tc -d -j class show\n{text}" for name, text in stepped.items())
    (folder / "setup.log").write_text(job + (folder / "out").read_text() + (folder / "err").read_text() + log)
    unlike = queues.differences(cell, answers) + measured.unlike_slots(cell, seen_slots)
    if unlike := unlike + queues.unlike_rates(cell, stepped):
        raise SimulationError(f"cell {cell.name}: {ReadbackError(unlike)}", code="other-setting")
    if endpoints == "iperf3":
        measured.flows_of_iperf3(cell, seed, folder)
    if cell.per_packet:
        brought += measured.packets(cell, folder)
    if cell.tunnel == "ipsec":
        measured.replay(cell, folder)
    seen = list(measured.queues((folder / "queues").read_text()))
    with (folder / "queues.jsonl").open("w") as out:
        out.writelines(json.dumps(line) + "\n" for line in seen)
    if deaf := measured.unheard(cell, FLOWS.read(folder / "flows.csv"), seen):
        raise SimulationError(f"cell {cell.name}, seed {seed}: {deaf}", code="failed")
    ends = {file.name.removeprefix(script.COUNTERS): file for file in folder.glob(f"{script.COUNTERS}*")}
    counted = {space: nstat.counters(file.read_text()) for space, file in sorted(ends.items())}
    (folder / COUNTERS).write_text(json.dumps(counted, indent=1) + "\n")
    if pcap:
        for side in plan.captured(cell):
            compress(folder / plan.capture_name(side))
    made = {"cell": cell.model_dump(mode="json"), "seed": seed, "endpoints": endpoints}
    made["kernel"] = versions(sources)
    if programs := {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in brought if name in PROGRAMS
    }:
        made["programs"] = programs
    (folder / "cell.json").write_text(json.dumps(made, indent=1) + "\n")
    left = ["run", "bulk", "out", "err", "status", "queues", *brought, *stepped, *(file.name for file in ends.values())]
    left += [f"readback-{space}" for space in answers] + [f"seen-{queues.slots_file(space)}" for space in seen_slots]
    for name in left:
        (folder / name).unlink()


def _programs(cell: Cell) -> list[str]:
    return sorted({flow.contender for flow in cell.flows} & PROGRAMS.keys())


def _bring(cell: Cell, folder: Path) -> list[str]:
    """Copy the programs and schedules of `cell` into the job's folder; return their names.

    Raises SimulationError when a trace is missing on this machine, or another one.
    """
    names = []
    for name in _programs(cell):
        shutil.copy(PROGRAMS[name].ensure(), folder / name)
        names.append(name)
    for n, hop in enumerate(cell.hops):
        if hop.slots:
            names.append(queues.slots_file(hop_name(n)))
            try:
                (folder / names[-1]).write_text(delivery_trace.text(hop.slots.times_ms))
            except DeliveryTraceError as wrong:
                raise SimulationError(
                    f"cell {cell.name}: every machine needs its trace at the same path: {wrong}", code="unreadable-file"
                ) from wrong
    return names
