# SPDX-License-Identifier: Apache-2.0
"""The raw files of a run as tables for a user's own analysis: `TABLES` says what each holds, column by column."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import polars as pl
from polars._typing import PolarsDataType

from sojourn.bottleneck.qdiscs import marks, sce_marks
from sojourn.scoring.curves import crossings_down
from sojourn.scoring.evidence import Setting, capture_file, first_of, read_capture
from sojourn.scoring.packets import latency, per_flow
from sojourn.scoring.packets.pcapng import CODEPOINTS
from sojourn.scoring.picture import frames, rendition
from sojourn.scoring.schema import records
from sojourn.traffic.probes import PROBES

Columns = dict[str, tuple[PolarsDataType, str]]
_FLOW: Columns = {
    "src": (pl.String, "IP address of the sender"),
    "sport": (pl.UInt16, "its port"),
    "dst": (pl.String, "IP address of the receiver"),
    "dport": (pl.UInt16, "its port"),
    "proto": (pl.UInt8, "6 TCP, 17 UDP"),
}
_ECN = "ECN codepoint: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE"
_UNSHAPED = "irtt-unshaped"
_SETTING = ("timeline.json", "lab.json")
_CAPTURES = ("server.pcapng.zst", "server.pcapng", "client.pcapng.zst", "client.pcapng")


@dataclass(frozen=True)
class Table:
    """A table of a run: what a row is, what its columns hold, and how it is read."""

    row: str
    columns: Columns
    files: tuple[str, ...]
    """What it may be read from; those of them that were recorded."""
    read: Callable[[Path], pl.DataFrame | None]

    def described(self, name: str) -> str:
        """Return what it holds, as a section of Markdown."""
        lines = [f"| `{column}` | {kind} | {text} |" for column, (kind, text) in self.columns.items()]
        return "\n".join((f"## `{name}`: {self.row}", "", "| column | type | |", "|---|---|---|", *lines))

    def of(self, run: Path) -> pl.DataFrame:
        """Read it; empty where it was not recorded. Raises RuntimeError, in one line, where a file is damaged."""
        table = self.read(run)
        schema = {name: kind for name, (kind, _) in self.columns.items()}
        if table is None:
            return pl.DataFrame(schema=schema)
        missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in schema.items() if name not in table.columns]
        return table.with_columns(missing).select(list(schema)).cast(schema)  # type: ignore[arg-type]


def _of_victim(read: Callable[[Path, Setting], pl.DataFrame | None]) -> Callable[[Path], pl.DataFrame | None]:
    return lambda run: read(run, Setting.read(run))


def _phases(_: Path, setting: Setting) -> pl.DataFrame:
    rows = [(phase.name, phase.contender, phase.start, phase.end) for phase in setting.phases]
    return pl.DataFrame(rows, schema=["phase", "contender", "start", "end"], orient="row", infer_schema_length=None)


def _packets(run: Path, setting: Setting) -> pl.DataFrame | None:
    sides = [
        per_flow.with_advance(table).with_columns(side=pl.lit(side))
        for side in ("server", "client")
        if (table := _captured(run, side, setting)) is not None
    ]
    return addressed(pl.concat(sides)) if sides else None


def _captured(run: Path, side: str, setting: Setting) -> pl.DataFrame | None:
    file = capture_file(run, side)
    return None if file is None else read_capture(file, side, setting).packets


def _sojourn(run: Path, setting: Setting) -> pl.DataFrame | None:
    before, behind = (_captured(run, side, setting) for side in ("server", "client"))
    if before is None or behind is None:
        return None
    return addressed(crossings_down(before, behind, setting.lab)[0])


def addressed(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with the addresses `src` and `dst` as text in place of numbers."""
    numbers = {*table["src"].unique(), *table["dst"].unique()}
    names = {number: str(ip_address(number)) for number in numbers}
    as_text = [pl.col(end).replace_strict(names, return_dtype=pl.String) for end in ("src", "dst")]
    return table.with_columns(as_text) if names else table


def _frames(run: Path, setting: Setting) -> pl.DataFrame | None:
    screen, video = run / "screen.json", run / "screen.mp4"
    if not screen.exists() or not video.exists():
        return None
    shown = frames.read_recording(video, records.read(screen, records.SCREEN)["start"])
    facts = setting.clip or {}
    heights = facts.get("heights", rendition.LADDER)
    read = (pl.col("frame") >= 0) & (pl.col("rendition") < len(heights)) if heights else pl.col("frame") >= 0
    ladder = {index: height for index, height in enumerate(heights)}
    height = pl.col("rendition").replace_strict(ladder, default=None, return_dtype=pl.Int32)
    shown = shown.with_columns(height=pl.when(read).then(height), frame=pl.when(read).then("frame").otherwise(-1))
    return shown.with_columns(frame=frames.unwrap(shown["frame"], facts.get("frames")))


def _probes(run: Path, setting: Setting) -> pl.DataFrame | None:
    first, second = PROBES
    codepoint: str = first.codepoint
    options = run / "options.json"
    if second.key not in setting.lab.get("ports", {}) and options.exists():
        codepoint = records.read(options, records.OPTIONS).get("probe_ecn", codepoint)  # of scores before 2.2
    streams = (
        (first.file, "bottleneck", codepoint), (second.file, "bottleneck", second.codepoint),
        (_UNSHAPED, "unshaped", "not-ect"),
    )  # fmt: skip
    paths = []
    for name, through, ecn in streams:
        if file := first_of(run, f"{name}.json.gz", f"{name}.json"):
            sent = latency.read_irtt(file)
            paths.append(sent.with_columns(path=pl.lit(through), ecn=pl.lit(CODEPOINTS.get(str(ecn)), pl.UInt8)))
    return pl.concat(paths) if paths else None


def _player(run: Path, _: Setting) -> pl.DataFrame | None:
    file = run / "player.jsonl"
    if not file.exists():
        return None
    named = {"currentTime": "position_s", "buffer": "buffer_s", "totalFrames": "frames", "droppedFrames": "dropped"}
    rows = [
        {named.get(key, key): value for key, value in line.items()} for line in records.read_lines(file, records.PLAYER)
    ]
    for row in rows:
        if "detail" in row:
            row["detail"] = json.dumps(row["detail"])
    return _from_rows(rows, TABLES["player"].columns)


def _queue(run: Path, _: Setting) -> pl.DataFrame | None:
    file = run / "qdisc.jsonl"
    if not file.exists():
        return None
    rows = [
        {"t": sample["t"], "dev": sample["dev"], **qdisc, "backlog_bytes": qdisc.get("backlog")}
        | {"marks": marks(qdisc), "sce_marks": sce_marks(qdisc)}
        | {name: _ms(qdisc.get(key)) for name, key in (("delay_c_ms", "delay-c"), ("delay_l_ms", "delay-l"))}
        for sample in records.read_lines(file, records.QDISC)
        for qdisc in sample["qdiscs"]
    ]
    return _from_rows(rows, TABLES["queue"].columns)


def _ms(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e3


def _sockets(run: Path, _: Setting) -> pl.DataFrame | None:
    files = [file for name in ("ss.jsonl", "ss-up.jsonl") if (file := run / name).exists()]
    lines = [line for file in files for line in records.read_lines(file, records.SOCKETS)]
    return _from_rows(lines, TABLES["sockets"].columns) if files else None


def _fetches(run: Path, _: Setting) -> pl.DataFrame | None:
    file = run / "bulk.json"
    if not file.exists():
        return None
    flows = [flow for flow in records.read(file, records.BULK)["flows"] if "fetches" in flow]
    rows = [
        {"phase": flow["phase"], "server_port": flow["sender_port"], **it} for flow in flows for it in flow["fetches"]
    ]
    return _from_rows(rows, TABLES["fetches"].columns)


def _from_rows(rows: list[Any], columns: Columns) -> pl.DataFrame:
    """A table of these columns from records that may have others, and lack some."""
    kept = [{name: row.get(name) for name in columns} for row in rows]
    return pl.DataFrame(kept, schema={name: kind for name, (kind, _) in columns.items()}, strict=False)


TABLES: Mapping[str, Table] = {
    "phases": Table(
        "a phase of the timeline",
        {
            "phase": (pl.String, "its name"),
            "contender": (pl.String, "who competed; null in a solo phase"),
            "start": (pl.Float64, "Unix s"),
            "end": (pl.Float64, "Unix s"),
        },
        _SETTING,
        _of_victim(_phases),
    ),
    "packets": Table(
        "a TCP or UDP packet at one side of the router, in the order of the capture",
        {
            "side": (pl.String, "`server` (WAN, before the bottleneck on the way down) or `client` (LAN)"),
            "t_ns": (pl.Int64, "Unix ns, on the clock of the run"),
            **_FLOW,
            "ecn": (pl.UInt8, _ECN),
            "ip_bytes": (pl.UInt16, "IP header and all after it"),
            "seq": (pl.UInt32, "TCP sequence number; 0 for UDP"),
            "flags": (pl.UInt16, "TCP flags with AE as bit 8; 0 for UDP"),
            "payload": (pl.UInt16, "bytes after the TCP or UDP header"),
            "ip_id": (pl.UInt16, "identification of the IPv4 header; 0 for IPv6, which has none"),
            "fingerprint": (pl.UInt64, "the same for the same packet on the other side"),
            "advance": (pl.Int64, "bytes by which it moves its flow on: their sum is the goodput"),
            "resent": (pl.Boolean, "TCP data that moves nothing on"),
        },
        (*_SETTING, *_CAPTURES),
        _of_victim(_packets),
    ),
    "sojourn": Table(
        "a packet of victim, contender or probes on the way down, through the bottleneck",
        {
            "t": (pl.Float64, "Unix s, before the router"),
            "of": (pl.String, "`victim`, `contender`, `probe` (Not-ECT) or `ect1_probe`"),
            "queue": (pl.String, "`L` or `C` of dualpi2 (RFC 9332); all other queues are `C`"),
            "sojourn_ms": (
                pl.Float64,
                "time through the router less the delay of the path; null: lost; below 0: a clock or the path is off",
            ),
            **_FLOW,
            "ip_bytes": (pl.UInt16, "IP header and all after it"),
            "payload": (pl.UInt16, "bytes after the TCP or UDP header"),
            "ecn": (pl.UInt8, f"{_ECN}; before the router"),
            "marked": (pl.Boolean, "CE behind the router, not before"),
            "late": (pl.Boolean, "overtaken by a later packet of its flow"),
        },
        (*_SETTING, *_CAPTURES),
        _of_victim(_sojourn),
    ),
    "frames": Table(
        "a frame of the recording",
        {
            "t": (pl.Float64, "Unix s"),
            "frame": (pl.Int64, "number of the film's frame that it shows, ever rising; null: no strip was read"),
            "height": (pl.Int32, "lines of the rendition shown; null where the strip names none"),
        },
        (*_SETTING, "screen.json", "screen.mp4"),
        _of_victim(_frames),
    ),
    "probes": Table(
        "a packet of a latency probe (irtt), 50 a second of each through the bottleneck",
        {
            "t": (pl.Float64, "Unix s of its sending"),
            "path": (pl.String, "`bottleneck`, or `unshaped`: past its queue"),
            "ecn": (pl.UInt8, f"{_ECN}; as sent: in dualpi2 0 sees the C queue, 1 the L queue"),
            "rtt_ms": (pl.Float64, "round-trip time; null: lost"),
        },
        (
            *(*_SETTING, "options.json"),
            *(f"{name}.json{gz}" for name in (*(it.file for it in PROBES), _UNSHAPED) for gz in (".gz", "")),
        ),
        _of_victim(_probes),
    ),
    "player": Table(
        "what the player said, every 250 ms and at events",
        {
            "t": (pl.Float64, "Unix s"),
            "event": (pl.String, "name of an event; null in a sample"),
            "detail": (pl.String, "what came with the event, as JSON"),
            "playing": (pl.Boolean, "whether it says that it plays"),
            "waiting": (pl.Boolean, "whether it waits for data"),
            "quality": (pl.String, "its own name of the rendition"),
            "width": (pl.Float64, "of the picture that it decodes, in pixels"),
            "height": (pl.Float64, "the same"),
            "position_s": (pl.Float64, "where in the film it is"),
            "buffer_s": (pl.Float64, "film ahead in its buffer, s"),
            "frames": (pl.Float64, "frames decoded so far"),
            "dropped": (pl.Float64, "frames dropped so far"),
        },
        (*_SETTING, "player.jsonl"),
        _of_victim(_player),
    ),
    "queue": Table(
        "a qdisc of the router in a sample of `tc -s`, ten a second",
        {
            "t": (pl.Float64, "Unix s"),
            "dev": (pl.String, "device: `lan` is the way down"),
            "kind": (pl.String, "dualpi2, fq_codel, htb, …"),
            "handle": (pl.String, "as tc has it"),
            "parent": (pl.String, "as tc has it; null at the root"),
            "backlog_bytes": (pl.Float64, "bytes that wait"),
            "qlen": (pl.Float64, "packets that wait"),
            "bytes": (pl.Float64, "sent so far"),
            "packets": (pl.Float64, "sent so far"),
            "drops": (pl.Float64, "so far"),
            "marks": (pl.Float64, "CE marks so far; null where the kind has none"),
            "sce_marks": (pl.Float64, "packets made ECT(1) for SCE so far; null where it marks none"),
            "delay_c_ms": (pl.Float64, "dualpi2: how long the head of its C queue has waited"),
            "delay_l_ms": (pl.Float64, "the same of the L queue"),
        },
        (*_SETTING, "qdisc.jsonl"),
        _of_victim(_queue),
    ),
    "sockets": Table(
        "a socket of a contender in a sample of `ss -tin`",
        {
            "t": (pl.Float64, "Unix s"),
            "place": (pl.String, "the host that was asked"),
            "flow": (pl.String, "source>destination"),
            "cc": (pl.String, "congestion control"),
            "ecn": (pl.Boolean, "ECN negotiated"),
            "cwnd": (pl.Float64, "congestion window, segments"),
            "ssthresh": (pl.Float64, "segments"),
            "mss": (pl.Float64, "bytes"),
            "rtt_ms": (pl.Float64, "smoothed round-trip time"),
            "minrtt_ms": (pl.Float64, "the least so far"),
            "delivery_rate_bps": (pl.Float64, "as TCP estimates it"),
            "pacing_rate_bps": (pl.Float64, "as TCP paces"),
            "delivered": (pl.Float64, "segments so far"),
            "delivered_ce": (pl.Float64, "of them with CE"),
            "bytes_acked": (pl.Float64, "so far"),
            "bytes_retrans": (pl.Float64, "so far"),
            "app_limited": (pl.Boolean, "what was last acknowledged left when there was no more to send"),
            "notsent": (pl.Float64, "bytes that wait to be sent for the first time"),
            "busy_ms": (pl.Float64, "time with data to send"),
            "rwnd_limited_ms": (pl.Float64, "of it held back by the receiver's window"),
            "sndbuf_limited_ms": (pl.Float64, "of it held back by the send buffer"),
            "alpha": (pl.Float64, "DCTCP's and Prague's moving average of the marked share"),
        },
        (*_SETTING, "ss.jsonl", "ss-up.jsonl"),
        _of_victim(_sockets),
    ),
    "fetches": Table(
        "a short flow of a web user who competed",
        {
            "phase": (pl.String, "in which he did"),
            "server_port": (pl.UInt16, "where he fetched: each user of a load has another"),
            "start": (pl.Float64, "Unix s of its SYN"),
            "port": (pl.UInt16, "the client's"),
            "bytes": (pl.UInt64, "how much he asked for"),
            "fct_s": (pl.Float64, "until its last byte was there; null: it did not end in the phase"),
        },
        (*_SETTING, "bulk.json"),
        _of_victim(_fetches),
    ),
}
