# SPDX-License-Identifier: Apache-2.0
"""The contenders of a run: what each sent in its phase, and whether it was what its name says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from scoring import packets, validity
from scoring.evidence import RecordedPhase, Setting
from scoring.scores import ContenderFlow
from scoring.validity import Gate, Limits
from scoring.windows import Window


def contender_flows(
    setting: Setting,
    bulk: Sequence[Mapping[str, Any]],
    sockets: Sequence[Mapping[str, Any]],
    behind: pl.DataFrame | None,
    before: pl.DataFrame | None,
    limits: Limits,
) -> tuple[list[ContenderFlow], dict[str, Window], list[Gate]]:
    """The flow of each contender, when each phase counts (while its contender is there), and their gates.

    `bulk` are the flows of bulk.json, `sockets` the lines of ss.jsonl, `behind` and `before` the contenders' packets
    on either side of the bottleneck.
    """
    flows: list[ContenderFlow] = []
    measured: dict[str, Window] = {}
    gates: list[Gate] = []
    for phase in setting.phases:
        measured[phase.name] = phase.start, phase.end
        if phase.contender is None:
            continue
        record: Mapping[str, Any] = next((f for f in bulk if f["phase"] == phase.name), {})
        span = (record["start"], record["end"]) if {"start", "end"} <= record.keys() else None
        gates.append(validity.contender_throughout(phase.name, span, measured[phase.name], limits))
        if span and max(phase.start, span[0]) < min(phase.end, span[1]):
            measured[phase.name] = max(phase.start, span[0]), min(phase.end, span[1])
        flow = _flow(phase, measured[phase.name], record.get("sender_port"), behind, before)
        if flow is not None:
            flows.append(flow)
        port = f":{flow.sport}>" if flow else ":"
        sampled = [s for s in sockets if phase.start <= s["t"] <= phase.end and port in s["flow"]]
        row, ccs = flow.model_dump() if flow else None, {s["cc"] for s in sampled}
        queue = setting.lab["qdisc_down"]
        gates.append(validity.contender_proven(phase.name, phase.contender, row, ccs, queue, limits))
        gates.append(validity.never_limited(phase.name, sampled, limits))
    return flows, measured, gates


def _flow(
    phase: RecordedPhase, measured: Window, port: int | None, behind: pl.DataFrame | None, before: pl.DataFrame | None
) -> ContenderFlow | None:
    """The contender's data flow: by its port, or the largest of the phase (iperf3 has a control flow too)."""
    if behind is None or before is None:
        return None
    bounds = (round((phase.start - 1) * 1e9), round((phase.end + 1) * 1e9))
    inside = [table.filter(pl.col("t_ns").is_between(*bounds)) for table in (behind, before)]
    if port is not None:
        inside = [table.filter(pl.col("sport") == port) for table in inside]
    tables = [packets.flow_table(table) for table in inside]
    if not all(table.height for table in tables):
        return None
    arrived = tables[0].row(0, named=True)
    sent = tables[1].filter(pl.col("sport") == arrived["sport"]).row(0, named=True)
    kept = inside[0].filter(pl.col("sport") == arrived["sport"])
    # The published window is 60 s; a shorter phase is measured from its middle on.
    start, end = measured
    window = min(60.0, (end - start) / 2 - 2)
    d_ss = packets.d_ss_bps(kept, end, window) / 1e6 if window > 0 else None
    columns = ("sport", "data_packets", "not_ect", "ect0", "ect1", "resent", "accecn_syn")
    return ContenderFlow(
        phase=phase.name, contender=phase.contender or "", bytes=arrived["bytes"], ce=arrived["ce"],
        d_ss_mbps=d_ss, **{name: sent[name] for name in columns},
    )  # fmt: skip
