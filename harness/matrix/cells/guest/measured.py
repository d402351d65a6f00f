# SPDX-License-Identifier: Apache-2.0
"""Convert what a node has left of a cell into the files of a run, and reject what is not a result."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sojourn.bottleneck import delivery_trace
from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.qdiscs import marks
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.matrix.cells.guest import gateways
from sojourn.harness.matrix.cells.guest.network import hop_name, network
from sojourn.harness.matrix.cells.guest.plan import starts, tap_name
from sojourn.scoring.packets import pcapng
from sojourn.scoring.packets.per_packet import crossed, received
from sojourn.scoring.schema.columns import FLOWS, REPLAY
from sojourn.scoring.transport.rates import PAYLOAD_BYTES
from sojourn.traffic import ports
from sojourn.traffic.contender import ACCURATE_ECN, CONTENDERS
from sojourn.traffic.program import PROGRAMS


def unlike_slots(cell: Cell, seen: Mapping[str, str]) -> list[str]:
    """Return how the kernel's schedules differ from those of `cell`; `seen`: lines of /proc/slots by namespace."""
    return [
        f"{space}: {line}"
        for n, hop in enumerate(cell.hops)
        if hop.slots and (space := hop_name(n))
        for line in delivery_trace.differences(hop.slots, "lan", seen.get(space, "").splitlines())
    ]


def packets(cell: Cell, folder: Path) -> list[str]:
    """Write packets.csv, and programs' flows into flows.csv, from the taps; return these files' names."""
    net = network(cell)
    names = [tap_name(end.space) for end in (*net.hosts.values(), net.receiver)]
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


def replay(cell: Cell, folder: Path) -> None:
    """Write replay.csv from the windows that both ends report. Raises SimulationError when one is not as requested."""
    with (folder / "replay.csv").open("w") as out:
        out.write(",".join(REPLAY) + "\n")
        for way, name in gateways.REPLAY.items():
            window, packets, late, repeated = replay_counters((folder / name).read_text())
            if window != cell.replay_window:
                raise SimulationError(
                    f"cell {cell.name}: replay window: requested {cell.replay_window}, found {window}",
                    code="other-setting",
                )
            out.write(f"{way},{window},{packets},{late},{repeated}\n")
            (folder / name).unlink()


def replay_counters(text: str) -> tuple[int, int, int, int]:
    """Return window, packets accepted, packets too late for it and packets repeated, of an `ip -s xfrm state`."""
    window = re.search(r"replay_window (\d+), bitmap-length", text) or re.search(r"replay-window (\d+) seq", text)
    packets = re.search(r"lifetime current:\s+\d+\(bytes\), (\d+)\(packets\)", text)
    dropped = re.search(r"stats:\s+replay-window (\d+) replay (\d+) failed", text)
    if not window or not packets or not dropped:
        raise SimulationError(f"no ESP state in {text[:200]!r}", code="damaged")
    return int(window[1]), int(packets[1]), int(dropped[1]), int(dropped[2])


def flows_of_iperf3(cell: Cell, seed: int, folder: Path) -> None:
    """Write flows.csv from the JSON of both ends of each flow. Raises SimulationError when iperf3 reports an error."""
    with (folder / "flows.csv").open("a") as out:
        for n, start in enumerate(starts(cell, seed)):
            ends = []
            for name in (f"sender-{n}", f"receiver-{n}"):
                ends.append(json.loads((folder / name).read_text()))
                (folder / name).unlink()
                if "error" in ends[-1]:
                    raise SimulationError(f"cell {cell.name}: iperf3 {name}: {ends[-1]['error']}")
            out.writelines(f"{row}\n" for row in iperf3_rows(n, start, PAYLOAD_BYTES[cell.ip_version], *ends))


def iperf3_rows(
    flow: int, start_s: float, payload: int, sender: dict[str, Any], receiver: dict[str, Any]
) -> Iterator[str]:
    """Yield lines of flows.csv from both ends' iperf3 JSON; what iperf3 does not report is empty.

    Times count from `start_s`, when the client was started: the first data comes a few RTTs later. Segments have
    `payload` bytes.
    """
    received, retransmits, least = 0, 0, 0
    for theirs, ours in zip(receiver["intervals"], sender["intervals"], strict=False):
        state = ours["streams"][0]
        received += theirs["streams"][0]["bytes"]
        retransmits += state["retransmits"]
        least = min(least or state["rtt"], state["rtt"])
        cwnd = round(state["snd_cwnd"] / payload)
        yield f"{start_s + theirs['sum']['end']:.6f},{flow},{received},{state['rtt']},{least},{cwnd},{retransmits},,,,"


def unheard(cell: Cell, flows: pl.DataFrame, seen: Sequence[dict[str, Any]]) -> str:
    """Return which flow with accurate ECN received no CE although the queues on its path marked; empty: none.

    `flows` and `seen` are flows.csv and the lines of queues.jsonl. Cells whose middleboxes change the ECN field or
    whose tunnel drops late packets (a starved flow may get no mark, or lose it) paced flows, and senders that do
    not report deliveries are not judged.
    """
    if cell.tunnel == "ipsec" or any(hop.mangle for hop in cell.hops):
        return ""
    for n, flow in enumerate(cell.flows):
        heard = flows.filter(pl.col("flow") == n)["delivered_ce"].drop_nulls()
        if flow.contender not in CONTENDERS or flow.pacing_bps:  # it may have a queue of its own, which stays empty
            continue
        if CONTENDERS[flow.contender].tcp_ecn != ACCURATE_ECN or not heard.len() or heard[-1]:
            continue
        last = {line["hop"]: line for line in seen if line["dev"] == ("wan" if flow.up else "lan")}
        if marked := sum(marks(qdisc) or 0 for line in last.values() for qdisc in line["qdiscs"]):
            return f"flow {n}, {flow.contender}: no CE came back, but the queues on its path marked {marked} packets"
    return ""


def queues(text: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of queues.jsonl from the file `queues` of the program of all endpoints."""
    for line in text.splitlines():
        at, space, answer = line.split(" ", 2)
        qdiscs = json.loads(answer)
        for dev in ("lan", "wan"):
            of_device = [q for q in qdiscs if q["dev"] == dev]
            yield {"t": float(at), "hop": int(space.removeprefix("hop")), "dev": dev, "qdiscs": of_device}
