# SPDX-License-Identifier: Apache-2.0
"""The simulated lab: one cell in one node of simulated time, its measurements left in a folder."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from bottleneck import slots
from bottleneck.qdiscs import marks
from bottleneck.readback import ReadbackError
from bottleneck.slots import SlotsError
from captures.packets import compress
from hardware import simulation
from hardware.build import Kernel, ensure_kernel
from hardware.guest import Guest, ensure_guest
from hardware.simulation import SimulationError
from harness.matrix import simulated_job
from harness.matrix.cell import Cell
from harness.matrix.counters import COUNTERS
from harness.store.manifest import hash_file
from scoring import pcapng
from scoring.per_packet import crossed, received
from scoring.transport import FLOWS, REPLAY
from traffic import nstat, ports
from traffic.contender import ACCURATE_ECN, CONTENDERS
from traffic.endpoints import ensure_endpoints
from traffic.program import PROGRAMS

Endpoints = Literal["bulk", "iperf3"]
CAPTURES = ("client.pcapng.zst", "server.pcapng.zst")
"""What `pcap` leaves: the headers of each packet that the receiver, and that the first middlebox's outer end saw."""


@cache
def parts() -> tuple[Kernel, Guest, Path]:
    """Kernel, guest and the program of all endpoints, built if need be; once for a process.

    Raises `hardware.machine.cache.BuildError`.
    """
    return ensure_kernel(), ensure_guest(), ensure_endpoints()


def versions() -> dict[str, str]:
    """What the results depend on besides cell and seed: kernel, guest and the program of all endpoints, by digest."""
    kernel, guest, program = parts()
    return {
        "kernel": kernel.digest,
        "release": kernel.version,
        "source": kernel.source,
        "guest": guest.digest,
        "bulk": program.parent.name,
    }


def run_cell(
    cell: Cell,
    folder: Path,
    *,
    seed: int,
    endpoints: Endpoints = "bulk",
    timeout_s: float = 300,
    pcap: bool = False,
) -> None:
    """Run `cell` in simulated time and leave its results in `folder`, which is there and empty.

    The same seed gives the same bytes in every file. docs/simulated-time.md lists the files and their columns.

    Args:
        timeout_s: wall time, s.
        pcap: whether to leave `CAPTURES` too; nothing else is changed by it.

    Raises:
        SimulationError: the cell cannot run here, the node hung or failed, or its configuration is not the one asked
            for; the message ends with what was said last.
        BuildError: kernel, guest or program cannot be built.
    """
    if cell.needs:
        raise SimulationError(f"cell {cell.name}: needs {cell.needs}")
    if endpoints == "iperf3" and not cell.flows:
        raise SimulationError(f"cell {cell.name}: --endpoints=iperf3 sends bulk flows, and this cell has none")
    if endpoints == "iperf3" and (odd := [f.contender for f in cell.flows if f.contender not in CONTENDERS]):
        raise SimulationError(f"cell {cell.name}: --endpoints=iperf3 sends TCP, and not {odd[0]}")
    kernel, guest, program = parts()
    script = simulated_job.job(cell, seed, iperf3=endpoints == "iperf3", pcap=pcap)
    (folder / "run").write_text(script)
    (folder / "run").chmod(0o755)
    brought = _bring(cell, folder)
    shutil.copy(program, folder / "bulk")
    start_ns = simulation.DATE_NS if _programs(cell) else simulation.START_NS
    try:
        simulation.run(kernel, guest, folder, seed=seed, start_ns=start_ns, timeout=timeout_s)
    except SimulationError as failed:
        raise SimulationError(f"cell {cell.name}, seed {seed}: {failed}") from failed
    answers = {file.name.removeprefix("readback-"): file.read_text() for file in sorted(folder.glob("readback-*"))}
    seen_slots = {file.name.removeprefix("seen-slots-"): file.read_text() for file in folder.glob("seen-slots-*")}
    log = "".join(f"\n[{space}] {simulated_job.SLOTS}\n{text}" for space, text in seen_slots.items())
    log += "".join(f"\n[{space}] tc -s -d -j\n{text}" for space, text in answers.items())
    (folder / "setup.log").write_text(script + (folder / "out").read_text() + (folder / "err").read_text() + log)
    if unlike := simulated_job.differences(cell, answers) + _unlike_slots(cell, seen_slots):
        raise SimulationError(f"cell {cell.name}: {ReadbackError(unlike)}")
    if endpoints == "iperf3":
        _flows_of_iperf3(cell, seed, folder)
    if cell.per_packet:
        brought += _packets(cell, folder)
    if cell.tunnel == "ipsec":
        _replay(cell, folder)
    seen = list(queues((folder / "queues").read_text()))
    with (folder / "queues.jsonl").open("w") as out:
        out.writelines(json.dumps(line) + "\n" for line in seen)
    if deaf := unheard(cell, pl.read_csv(folder / "flows.csv", schema=FLOWS, glob=False), seen):
        raise SimulationError(f"cell {cell.name}, seed {seed}: {deaf}")
    ends = {file.name.removeprefix(simulated_job.COUNTERS): file for file in folder.glob(f"{simulated_job.COUNTERS}*")}
    counted = {space: nstat.counters(file.read_text()) for space, file in sorted(ends.items())}
    (folder / COUNTERS).write_text(json.dumps(counted, indent=1) + "\n")
    if pcap:
        for side in simulated_job.captured(cell):
            compress(folder / simulated_job.capture_name(side))
    made = {"cell": cell.model_dump(mode="json"), "seed": seed, "endpoints": endpoints, "kernel": versions()}
    if programs := {name: hash_file(folder / name).sha256 for name in brought if name in PROGRAMS}:
        made["programs"] = programs
    (folder / "cell.json").write_text(json.dumps(made, indent=1) + "\n")
    answered = [f"readback-{space}" for space in answers]
    answered += [f"seen-{simulated_job.slots_file(space)}" for space in seen_slots]
    for name in (
        "run",
        "bulk",
        "out",
        "err",
        "status",
        "queues",
        *answered,
        *brought,
        *(file.name for file in ends.values()),
    ):
        (folder / name).unlink()


def _programs(cell: Cell) -> list[str]:
    return sorted({flow.contender for flow in cell.flows} & PROGRAMS.keys())


def _bring(cell: Cell, folder: Path) -> list[str]:
    """Put the programs and schedules of `cell` into the job's folder; return their names.

    Raises SimulationError when a trace is not there, or another, on this machine.
    """
    names = []
    for name in _programs(cell):
        shutil.copy(PROGRAMS[name].ensure(), folder / name)
        names.append(name)
    for n, hop in enumerate(cell.hops):
        if hop.slots:
            names.append(simulated_job.slots_file(simulated_job.hop_name(n)))
            try:
                (folder / names[-1]).write_text(slots.text(hop.slots.times_ms))
            except SlotsError as wrong:
                raise SimulationError(
                    f"cell {cell.name}: every machine needs its trace in one place: {wrong}"
                ) from wrong
    return names


def _unlike_slots(cell: Cell, seen: Mapping[str, str]) -> list[str]:
    """Where the kernel's schedules are not those of `cell`; `seen` are the lines of /proc/slots by namespace."""
    return [
        f"{space}: {line}"
        for n, hop in enumerate(cell.hops)
        if hop.slots and (space := simulated_job.hop_name(n))
        for line in slots.differences(hop.slots, "lan", seen.get(space, "").splitlines())
    ]


def _packets(cell: Cell, folder: Path) -> list[str]:
    """Write packets.csv, and what came of programs' flows into flows.csv, by the taps; return these files' names."""
    net = simulated_job.network(cell)
    names = [simulated_job.tap_name(end.space) for end in (*net.hosts.values(), net.receiver)]
    *sent, behind = (pcapng.read(folder / name).packets for name in names)
    # A host's tap is behind its half of the delay.
    by_host = [crossed(before, behind, ports.BULK, rtt // 2) for rtt, before in zip(net.hosts, sent, strict=True)]
    packets = pl.concat(by_host).sort("t_s", maintain_order=True).filter(pl.col("t_s") <= cell.seconds)
    packets.write_csv(folder / "packets.csv", float_precision=6)
    with (folder / "flows.csv").open("a") as out:
        for n, flow in enumerate(cell.flows):
            if flow.contender in PROGRAMS:
                moments = np.arange(flow.start_s, flow.stop_s or cell.seconds, cell.sample_s).tolist()
                came = zip(moments, received(behind, ports.BULK + n, moments), strict=True)
                out.writelines(f"{at:.6f},{n},{got}{',' * (len(FLOWS) - 3)}\n" for at, got in came)
    return names


def _replay(cell: Cell, folder: Path) -> None:
    """Write replay.csv from what both ends said of their windows. Raises SimulationError when one is not as asked."""
    with (folder / "replay.csv").open("w") as out:
        out.write(",".join(REPLAY) + "\n")
        for way, name in simulated_job.REPLAY.items():
            window, packets, late, repeated = replay_counters((folder / name).read_text())
            if window != cell.replay_window:
                raise SimulationError(f"cell {cell.name}: replay window: asked {cell.replay_window}, found {window}")
            out.write(f"{way},{window},{packets},{late},{repeated}\n")
            (folder / name).unlink()


def replay_counters(text: str) -> tuple[int, int, int, int]:
    """Return window, packets accepted, packets too late for it and packets repeated, of an `ip -s xfrm state`."""
    window = re.search(r"replay_window (\d+), bitmap-length", text) or re.search(r"replay-window (\d+) seq", text)
    packets = re.search(r"lifetime current:\s+\d+\(bytes\), (\d+)\(packets\)", text)
    dropped = re.search(r"stats:\s+replay-window (\d+) replay (\d+) failed", text)
    if not window or not packets or not dropped:
        raise SimulationError(f"no state of ESP in {text[:200]!r}")
    return int(window[1]), int(packets[1]), int(dropped[1]), int(dropped[2])


def _flows_of_iperf3(cell: Cell, seed: int, folder: Path) -> None:
    with (folder / "flows.csv").open("a") as out:
        for n, start in enumerate(simulated_job.starts(cell, seed)):
            ends = []
            for name in (f"sender-{n}", f"receiver-{n}"):
                ends.append(json.loads((folder / name).read_text()))
                (folder / name).unlink()
                if "error" in ends[-1]:
                    raise SimulationError(f"cell {cell.name}: iperf3 {name}: {ends[-1]['error']}")
            out.writelines(f"{row}\n" for row in iperf3_rows(n, start, *ends))


def iperf3_rows(flow: int, start_s: float, sender: dict[str, Any], receiver: dict[str, Any]) -> Iterator[str]:
    """Yield lines of flows.csv from both ends' iperf3 JSON; what iperf3 does not tell is empty.

    Times count from `start_s`, when the client was started: the first data comes a few RTTs later.
    """
    received, retransmits, least = 0, 0, 0
    for theirs, ours in zip(receiver["intervals"], sender["intervals"], strict=False):
        state = ours["streams"][0]
        received += theirs["streams"][0]["bytes"]
        retransmits += state["retransmits"]
        least = min(least or state["rtt"], state["rtt"])
        cwnd = round(state["snd_cwnd"] / 1448)
        yield f"{start_s + theirs['sum']['end']:.6f},{flow},{received},{state['rtt']},{least},{cwnd},{retransmits},,,,"


def unheard(cell: Cell, flows: pl.DataFrame, seen: Sequence[dict[str, Any]]) -> str:
    """Return which flow with accurate ECN was told of no CE although the queues on its way marked; empty: none.

    `flows` and `seen` are flows.csv and the lines of queues.jsonl. Cells whose middleboxes change the ECN field and
    senders that do not tell what was delivered are not judged.
    """
    if any(hop.mangle for hop in cell.hops):
        return ""
    for n, flow in enumerate(cell.flows):
        heard = flows.filter(pl.col("flow") == n)["delivered_ce"].drop_nulls()
        if flow.contender not in CONTENDERS:
            continue
        if CONTENDERS[flow.contender].tcp_ecn != ACCURATE_ECN or not heard.len() or heard[-1]:
            continue
        last = {line["hop"]: line for line in seen if line["dev"] == ("wan" if flow.up else "lan")}
        if marked := sum(marks(qdisc) or 0 for line in last.values() for qdisc in line["qdiscs"]):
            return f"flow {n}, {flow.contender}: no CE came back, but the queues on its way marked {marked} packets"
    return ""


def queues(text: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of queues.jsonl from what the program of all endpoints wrote into `queues`."""
    for line in text.splitlines():
        at, space, answer = line.split(" ", 2)
        qdiscs = json.loads(answer)
        for dev in ("lan", "wan"):
            of_device = [q for q in qdiscs if q["dev"] == dev]
            yield {"t": float(at), "hop": int(space.removeprefix("hop")), "dev": dev, "qdiscs": of_device}
