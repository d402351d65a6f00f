# SPDX-License-Identifier: Apache-2.0
"""The contenders of a run: what each sent in its phase, and whether it was what its name says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sojourn.scoring import validity
from sojourn.scoring.evidence import RecordedPhase, Setting, SideCapture
from sojourn.scoring.packets import per_flow
from sojourn.scoring.packets.pcapng import TCP
from sojourn.scoring.schema.scores import ContenderFlow
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.transport import applications
from sojourn.scoring.validity import Gate, Limits
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.load import APPLICATIONS, LoadFlow, parse_load


def contender_flows(
    setting: Setting,
    bulk: Sequence[Mapping[str, Any]],
    sockets: Sequence[Mapping[str, Any]],
    behind: SideCapture | None,
    before: SideCapture | None,
    player: Sequence[Mapping[str, Any]],
    limits: Limits,
) -> tuple[list[ContenderFlow], dict[str, Window], list[Gate]]:
    """The flows of each phase, when the phase counts (while all of them are there), and their gates.

    `bulk` are the flows of bulk.json, `sockets` the lines of ss.jsonl and ss-up.jsonl, `behind` and `before` what was
    captured on either side of the bottleneck, as data goes down; `player` are the lines of a second video's player.
    """
    flows: list[ContenderFlow] = []
    measured: dict[str, Window] = {}
    gates: list[Gate] = []
    down = _Way(
        before and before.contender, behind and behind.contender, before and before.all, setting.lab["qdisc_down"]
    )
    up = _Way(behind and behind.upload, before and before.upload, behind and behind.all, setting.lab["qdisc_up"])
    for phase in setting.phases:
        measured[phase.name] = phase.start, phase.end
        if phase.contender is None:
            continue
        pairs = paired(phase, [record for record in bulk if record["phase"] == phase.name])
        for _, name, record in pairs:
            span = (record["start"], record["end"]) if {"start", "end"} <= record.keys() else None
            gates.append(validity.contender_throughout(name, span, (phase.start, phase.end), limits))
            window = measured[phase.name]
            if span and max(window[0], span[0]) < min(window[1], span[1]):
                measured[phase.name] = max(window[0], span[0]), min(window[1], span[1])
        for asked, name, record in pairs:
            if not asked.bulk:
                window = measured[phase.name]
                gates.append(
                    applications.proven(name, asked.contender, record, window, (before, behind), player, limits)
                )
                continue
            way = up if asked.up else down
            flow = _flow(phase, asked, measured[phase.name], record.get("sender_port"), way)
            if flow is not None:
                flows.append(flow)
            port = f":{flow.sport}>" if flow else ":"
            sampled = [s for s in sockets if phase.start <= s["t"] <= phase.end and port in s["flow"]]
            row, ccs = flow.model_dump() if flow else None, {s["cc"] for s in sampled}
            gates.append(validity.contender_proven(name, asked.contender, row, ccs, way.qdisc, limits))
            gates.append(validity.never_limited(name, sampled, limits))
    return flows, measured, gates


def paired(phase: RecordedPhase, records: Sequence[Mapping[str, Any]]) -> list[tuple[LoadFlow, str, Mapping[str, Any]]]:
    """Each part of a phase's load with its name in gates, and its record of bulk.json; an empty one where it has none.

    Parts of a kind, of which bulk flows are one, have their records by their ports.
    """
    load = parse_load(phase.contender or "")

    def kind(contender: str | None) -> str:
        return contender if contender in APPLICATIONS else "bulk"

    waiting: dict[str, list[Mapping[str, Any]]] = {}
    for record in sorted(records, key=lambda record: record.get("sender_port") or 0, reverse=True):
        waiting.setdefault(kind(record.get("contender")), []).append(record)
    pairs = []
    for number, asked in enumerate(load, 1):
        of_kind = waiting.get(kind(asked.contender))
        name = phase.name if len(load) == 1 else f"{phase.name}, flow {number}: {asked}"
        pairs.append((asked, name, of_kind.pop() if of_kind else {}))
    return pairs


@dataclass(frozen=True)
class _Way:
    """One way through the bottleneck: contenders' packets before and behind it, all on the sender's side, its queue."""

    before: pl.DataFrame | None
    behind: pl.DataFrame | None
    back: pl.DataFrame | None
    qdisc: str | None


def _flow(phase: RecordedPhase, asked: LoadFlow, measured: Window, port: int | None, way: _Way) -> ContenderFlow | None:
    """One data flow of a phase: by its port, or the largest of the phase (iperf3 has a control flow too)."""
    if way.behind is None or way.before is None or way.back is None:
        return None
    bounds = (round((phase.start - 1) * 1e9), round((phase.end + 1) * 1e9))
    *inside, back = (table.filter(pl.col("t_ns").is_between(*bounds)) for table in (way.behind, way.before, way.back))
    if port is not None:
        inside = [table.filter(pl.col("sport") == port, pl.col("proto") == TCP) for table in inside]
    tables = [per_flow.flow_table(table) for table in inside]
    if not all(table.height for table in tables):
        return None
    arrived = tables[0].row(0, named=True)
    sent = tables[1].filter(pl.col("sport") == arrived["sport"]).row(0, named=True)
    kept = inside[0].filter(pl.col("sport") == arrived["sport"])
    # The published window is 60 s; a shorter phase is measured from its middle on.
    start, end = measured
    window = min(60.0, (end - start) / 2 - 2)
    d_ss = per_flow.d_ss_bps(kept, end, window) / 1e6 if window > 0 else None
    columns = ("sport", "data_packets", "not_ect", "ect0", "ect1", "resent", "accecn_syn")
    return ContenderFlow(
        phase=phase.name, contender=asked.contender, up=asked.up, bytes=arrived["bytes"], ce=arrived["ce"],
        sce=max(arrived["ect1"] - sent["ect1"], 0),
        esce=per_flow.esce(back, sent) if CONTENDERS[asked.contender].sce else 0,
        d_ss_mbps=d_ss, **{name: sent[name] for name in columns},
    )  # fmt: skip
