# SPDX-License-Identifier: Apache-2.0
"""The contenders of a run: what every contender sent in its phase, and the measured window of the phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from sojourn.scoring.evidence import RecordedPhase, Setting, SideCapture
from sojourn.scoring.packets import per_flow
from sojourn.scoring.packets.pcapng import TCP
from sojourn.scoring.schema.scores import ContenderFlow
from sojourn.scoring.schema.windows import Window
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.load import APPLICATIONS, TESTS, LoadFlow, parse_load
from sojourn.traffic.user_program import is_user_program


@dataclass(frozen=True)
class Contending:
    """One contender of a phase: its specification, its record, and what the captures show."""

    phase: RecordedPhase
    load: LoadFlow
    name: str
    """Its name in gates."""
    record: Mapping[str, Any]
    """Its entry in bulk.json; empty if there is none."""
    measured: Window
    """The measured window of its phase, in which all contenders are active."""
    qdisc: str | None
    """The queue in its direction."""
    flow: ContenderFlow | None = None
    """A bulk flow, from the captures."""
    sockets: Sequence[Mapping[str, Any]] = ()
    """The samples of a bulk flow's sending socket."""

    @property
    def lasted(self) -> Window | None:
        """From when to when it was active, Unix s; None if not recorded."""
        return (self.record["start"], self.record["end"]) if {"start", "end"} <= self.record.keys() else None


def contenders(
    setting: Setting,
    bulk: Sequence[Mapping[str, Any]],
    sockets: Sequence[Mapping[str, Any]],
    behind: SideCapture | None,
    before: SideCapture | None,
) -> tuple[list[Contending], dict[str, Window]]:
    """Return all contenders, and the measured window (all of the load is active) of every phase, by its name.

    `bulk` are the flows of bulk.json, `sockets` the lines of ss.jsonl and ss-up.jsonl, `behind` and `before` what was
    captured on either side of the bottleneck, as data goes down.
    """
    contenders: list[Contending] = []
    measured: dict[str, Window] = {}
    down = _Way(
        before and before.contender, behind and behind.contender, before and before.all, setting.lab["qdisc_down"]
    )
    up = _Way(behind and behind.upload, before and before.upload, behind and behind.all, setting.lab["qdisc_up"])
    for phase in setting.phases:
        measured[phase.name] = phase.start, phase.end
        if phase.contender is None:
            continue
        load = paired(phase, [record for record in bulk if record["phase"] == phase.name])
        ways = [up if requested.up else down for requested, _, _ in load]
        parts = [
            Contending(phase, *part, (phase.start, phase.end), way.qdisc) for part, way in zip(load, ways, strict=True)
        ]
        window = _all_there(phase, [part.lasted for part in parts])
        measured[phase.name] = window
        measured_parts = (replace(part, measured=window) for part in parts)
        contenders += [_seen(part, way, sockets) for part, way in zip(measured_parts, ways, strict=True)]
    return contenders, measured


def _all_there(phase: RecordedPhase, lasted: Sequence[Window | None]) -> Window:
    """Return the part of a phase in which all contenders were active; those never active are ignored."""
    start, end = phase.start, phase.end
    for span in lasted:
        if span and max(start, span[0]) < min(end, span[1]):
            start, end = max(start, span[0]), min(end, span[1])
    return start, end


def _seen(part: Contending, way: _Way, sockets: Sequence[Mapping[str, Any]]) -> Contending:
    """Return a contender with its flow and its socket's samples; an application or a test has neither."""
    if not part.load.one_flow:
        return part
    flow = _flow(part.phase, part.load, part.measured, part.record, way)
    port = f":{flow.sport}>" if flow else ":"
    inside = [s for s in sockets if part.phase.start <= s["t"] <= part.phase.end and port in s["flow"]]
    return replace(part, flow=flow, sockets=inside)


def paired(phase: RecordedPhase, records: Sequence[Mapping[str, Any]]) -> list[tuple[LoadFlow, str, Mapping[str, Any]]]:
    """Return the contenders of a phase with their names in gates and records of bulk.json, empty if missing.

    Contenders of one kind (all bulk TCP flows are one kind) are matched to records by port.
    """
    load = parse_load(phase.contender or "")

    def kind(contender: str | None) -> str:
        own = contender in APPLICATIONS or contender in TESTS or is_user_program(contender)
        return contender if contender and own else "bulk"

    def order(record: Mapping[str, Any]) -> int:
        return record.get("sender_port") or record.get("server_port") or 0

    waiting: dict[str, list[Mapping[str, Any]]] = {}
    for record in sorted(records, key=order, reverse=True):
        waiting.setdefault(kind(record.get("contender")), []).append(record)
    pairs = []
    for number, requested in enumerate(load, 1):
        of_kind = waiting.get(kind(requested.contender))
        name = (
            phase.name
            if len(load) == 1
            else f"{phase.name}, flow {number}: {requested.contender}{'@up' * requested.up}"
        )
        pairs.append((requested, name, of_kind.pop() if of_kind else {}))
    return pairs


@dataclass(frozen=True)
class _Way:
    """One direction: contenders' packets before and after the bottleneck, all on the sender's side, the queue."""

    before: pl.DataFrame | None
    behind: pl.DataFrame | None
    back: pl.DataFrame | None
    qdisc: str | None


def _flow(
    phase: RecordedPhase, requested: LoadFlow, measured: Window, record: Mapping[str, Any], way: _Way
) -> ContenderFlow | None:
    """Return one data flow of a phase: by port, or the largest (iperf3 also has a control flow).

    A user's program is everything that its sending end sends, from or to the server's port.
    """
    if way.behind is None or way.before is None or way.back is None:
        return None
    bounds = (round((phase.start - 1) * 1e9), round((phase.end + 1) * 1e9))
    *inside, back = (table.filter(pl.col("t_ns").is_between(*bounds)) for table in (way.behind, way.before, way.back))
    port, program = record.get("sender_port"), is_user_program(requested.contender)
    if program:
        side = "sport" if record.get("serves") else "dport"
        inside = [table.filter(pl.col(side) == record.get("server_port", 0)) for table in inside]
    elif port is not None:
        inside = [table.filter(pl.col("sport") == port, pl.col("proto") == TCP) for table in inside]
    tables = [per_flow.flow_table(table) for table in inside]
    if not all(table.height for table in tables):
        return None
    if program:
        (arrived, sent), kept = map(per_flow.total, tables), inside[0]
    else:
        arrived = tables[0].row(0, named=True)
        sent = tables[1].filter(pl.col("sport") == arrived["sport"]).row(0, named=True)
        kept = inside[0].filter(pl.col("sport") == arrived["sport"])
        if sent["accecn_syn"] is None and port is not None:
            # The phase begins when all of its flows send, and the SYN of another may have been lost for seconds.
            whole = way.before.filter(pl.col("sport") == port, pl.col("proto") == TCP, pl.col("t_ns") <= bounds[1])
            sent["accecn_syn"] = per_flow.flow_table(whole).row(0, named=True)["accecn_syn"]
    # The published window is 60 s; a shorter phase is measured from its middle on.
    start, end = measured
    window = min(60.0, (end - start) / 2 - 2)
    steady = per_flow.window_goodput_bps(kept, end, window) / 1e6 if window > 0 else None
    columns = ("sport", "data_packets", "not_ect", "ect0", "ect1", "resent", "accecn_syn")
    return ContenderFlow(
        phase=phase.name, contender=requested.contender, up=requested.up, bytes=arrived["bytes"], ce=arrived["ce"],
        sce=max(arrived["ect1"] - sent["ect1"], 0),
        esce=0 if program or not CONTENDERS[requested.contender].sce else per_flow.esce(back, sent),
        window_goodput_mbps=steady, **{name: sent[name] for name in columns},
    )  # fmt: skip
