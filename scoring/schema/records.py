# SPDX-License-Identifier: Apache-2.0
"""The required contents of a run's JSON files. Files may contain more. Times are Unix s, rates bit/s."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import polars as pl
from polars.exceptions import PolarsError
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.hardware.machine.files import plain
from sojourn.hardware.machine.json_text import bounded, values
from sojourn.hardware.machine.messages import first_wrong
from sojourn.scoring.schema.columns import Columns, TableColumn
from sojourn.traffic.load import parse_load


class RecordError(RuntimeError):
    """A file that is missing, damaged or invalid; the message names it and the first fault."""


class _Record(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow", allow_inf_nan=False)  # type: ignore[misc]


PUBLIC = "public"
"""Marks a text that its author publishes: it stays in an anonymised bundle."""
#: Maximum Unix s, and minimum if negated: any date that can be written.
Time = Annotated[float, Field(ge=-253_402_300_800, le=253_402_300_800)]
_T = Annotated[Time, TableColumn(pl.Float64, "Unix s")]
#: Longest time from the start of the first phase to the end of the last, s: a week. Scoring holds everything in memory.
_LONGEST_S = 7 * 86_400


def _forward(span: Any) -> Any:
    if span["end"] < span["start"]:
        raise ValueError("ends before it starts")
    return span


def _bounded(phases: Any) -> Any:
    if max(phase["end"] for phase in phases) - min(phase["start"] for phase in phases) > _LONGEST_S:
        raise ValueError(f"take longer than {_LONGEST_S // 86_400} days")
    return phases


def _load(contenders: str | None) -> str | None:
    if contenders is not None:
        parse_load(contenders)
    return contenders


class PhaseRecord(_Record):
    name: Annotated[str, TableColumn(pl.String, "name of the phase", name="phase")]
    contender: Annotated[
        str | None, AfterValidator(_load), TableColumn(pl.String, "the contender; null in a solo phase")
    ]
    start: _T
    end: _T


class RateRecord(_Record):
    t: Time
    direction: Literal["down", "up"]
    rate_bps: Annotated[float, Field(gt=0)]


class TimelineRecord(_Record):
    phases: Annotated[
        list[Annotated[PhaseRecord, AfterValidator(_forward)]],
        Field(min_length=1, max_length=1000),
        AfterValidator(_bounded),
    ]
    rates: NotRequired[Annotated[list[RateRecord], Field(max_length=10_000)]]


class ClipRecord(_Record):
    frames: NotRequired[Annotated[int, Field(gt=0, le=100_000_000)]]
    fps: NotRequired[Annotated[float, Field(gt=0, le=1000)]]
    heights: NotRequired[Annotated[list[int], Field(max_length=100)]]
    rates_bps: NotRequired[list[float]]


class EndRecord(_Record):
    address: NotRequired[str | None]
    port: NotRequired[int | None]


class CallRecord(_Record):
    width: NotRequired[int]
    height: NotRequired[int]
    bitrate_bps: NotRequired[int]
    client_port: NotRequired[int]
    cc: NotRequired[Literal["gcc", "scream"]]
    ecn: NotRequired[Literal["not-ect", "ect0", "ect1"]]
    sound: NotRequired[bool]
    speech: NotRequired[Annotated[str, Field(pattern="^[0-9a-f]{64}$"), PUBLIC]]
    client: NotRequired[EndRecord]
    far: NotRequired[EndRecord]


_Party = Annotated[int, Field(ge=1, le=8)]
_Pixels = Annotated[int, Field(ge=0, le=8192)]


class TilePlace(_Record):
    party: _Party
    place: tuple[_Pixels, _Pixels, _Pixels, _Pixels]


class RoomRecord(_Record):
    layers: Literal["simulcast", "svc"]
    heights: Annotated[list[int], Field(min_length=1, max_length=16)]
    tiles: Annotated[list[TilePlace], Field(min_length=1, max_length=8)]


class SitePageRecord(_Record):
    requests: Annotated[int, Field(ge=1, le=100_000)]
    bytes: Annotated[int, Field(ge=0, le=2**40)]
    hosts: Annotated[int, Field(ge=1, le=100_000)]


class SiteRecord(_Record):
    pages: Annotated[list[SitePageRecord], Field(min_length=1, max_length=5000)]
    digest: NotRequired[str]


class GameRecord(_Record):
    tick_hz: Annotated[float, Field(gt=0, le=1000)]
    dscp: Annotated[int, Field(ge=0, le=63)]


def _known(queue: str) -> str:
    parse_qdisc(queue, "queue")
    return queue


Queue = Annotated[str, AfterValidator(_known)]


def _of_all_hosts(addresses: dict[str, str]) -> dict[str, str]:
    if missing := {"client", "receiver", "server", "sender"} - {*addresses}:
        raise ValueError(f"no address of the {min(missing)}")
    return addresses


class ClockRecord(_Record):
    seconds: float
    error: Annotated[float, Field(ge=0)]


class TapClocks(_Record):
    client: ClockRecord
    server: ClockRecord


class LabRecord(_Record):
    name: NotRequired[str]
    box: NotRequired[Annotated[str, PUBLIC]]
    rtt_ms: float | None
    rate_down_bps: float | None
    rate_up_bps: NotRequired[float | None]
    qdisc_down: Queue | None
    qdisc_up: Queue | None
    addresses: NotRequired[Annotated[dict[str, str], AfterValidator(_of_all_hosts)]]
    ports: NotRequired[dict[str, int]]
    interfaces: NotRequired[dict[str, str]]
    clip: NotRequired[ClipRecord | None]
    call: NotRequired[CallRecord | None]
    room: NotRequired[RoomRecord]
    web: NotRequired[SiteRecord]
    game: NotRequired[GameRecord]
    delay_down_ms: NotRequired[float]
    path_varies_ms: NotRequired[Annotated[float, Field(ge=0)]]
    path_loss: NotRequired[Annotated[float, Field(ge=0, le=1)]]
    capture_offset_s: NotRequired[dict[str, Annotated[float, Field(ge=-4e9, le=4e9)]]]
    clock_offset_s: NotRequired[dict[str, Annotated[float, Field(ge=-4e9, le=4e9)]]]
    clock_error_s: NotRequired[dict[str, Annotated[float, Field(ge=0, le=4e9)]]]
    tap_clocks: NotRequired[list[TapClocks]]
    verified_at_end: NotRequired[bool | str]
    router_kernel: NotRequired[bool | str]
    router_drops: NotRequired[dict[str, int]]
    real_time: NotRequired[bool]
    screening: NotRequired[bool]
    frame_log: NotRequired[bool]
    processor_share: NotRequired[Annotated[float, Field(ge=0, le=1)]]


class FetchRecord(_Record):
    at: float
    start: Annotated[Time, TableColumn(pl.Float64, "Unix s of the SYN")]
    port: Annotated[int | None, TableColumn(pl.UInt16, "client port")]
    bytes: Annotated[int, Field(gt=0), TableColumn(pl.UInt64, "size of the response")]
    fct_s: Annotated[
        Annotated[float, Field(ge=0)] | None,
        TableColumn(pl.Float64, "flow completion time; null: unfinished when the phase ended"),
    ]


_Took = Annotated[float, Field(ge=0)] | None


class RpmProbe(_Record):
    probe: Annotated[
        Literal["foreign", "self"],
        TableColumn(pl.String, "`foreign`: a new connection; `self`: a load-generating connection of contender `rpm`"),
    ]
    t: Annotated[Time, TableColumn(pl.Float64, "Unix s of the SYN; of `self`, of the GET")]
    port: Annotated[int | None, TableColumn(pl.UInt16, "client port")]
    tcp_ms: NotRequired[Annotated[_Took, TableColumn(pl.Float64, "TCP handshake; null: not complete, or `self`")]]
    tls_t: NotRequired[Annotated[Time | None, TableColumn(pl.Float64, "Unix s when the TLS handshake began")]]
    tls_ms: NotRequired[Annotated[_Took, TableColumn(pl.Float64, "TLS 1.3 handshake, one round trip; null as before")]]
    http_t: Annotated[Time | None, TableColumn(pl.Float64, "Unix s of the GET")]
    http_ms: Annotated[_Took, TableColumn(pl.Float64, "from the GET to the whole response; null: unanswered")]


class ResponsivenessRecord(_Record):
    Responsiveness: Annotated[float, Field(ge=0)] | None
    Foreign_Responsiveness: Annotated[float, Field(ge=0)] | None
    Loaded_Responsiveness: Annotated[float, Field(ge=0)] | None
    confidence: dict[str, Literal["Low", "Medium", "High"]]


_Ns = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Number = Annotated[int, Field(ge=0, lt=2**32)]


class GameLine(_Record):
    t_ns: _Ns
    sent: NotRequired[_Number]
    bytes: NotRequired[Annotated[int, Field(ge=0, le=65_535)]]
    received: NotRequired[_Number]
    sent_ns: NotRequired[_Ns]


GameLines = Annotated[list[GameLine], Field(max_length=10_000_000)]


class HeardRecord(_Record):
    loss: NotRequired[float | None]
    delay_p99_ms: NotRequired[float | None]


def _only_a_box_has_nulls(record: Any) -> Any:
    """Raise ValueError if a lab other than a black box has nulls."""
    for name in ("rtt_ms", "rate_down_bps", "qdisc_down", "qdisc_up"):
        if record[name] is None and "box" not in record:
            raise ValueError(f"{name} is null, and it names no box")
    return record


class FlowRecord(_Record):
    phase: str
    start: NotRequired[Time]
    end: NotRequired[Time]
    sender_port: NotRequired[int | None]
    server_port: NotRequired[int]
    serves: NotRequired[bool]
    contender: NotRequired[str]
    up: NotRequired[bool]
    heard: NotRequired[dict[Literal["down", "up"], HeardRecord]]
    draw: NotRequired[str]
    fetches: NotRequired[Annotated[list[FetchRecord], Field(max_length=1_000_000)]]
    responsiveness: NotRequired[ResponsivenessRecord | None]
    probes: NotRequired[Annotated[list[RpmProbe], Field(max_length=1_000_000)]]
    packets: NotRequired[dict[Literal["client", "server"], GameLines]]


class Bulk(_Record):
    flows: Annotated[list[FlowRecord], Field(max_length=10_000)]


class ScreenRecord(_Record):
    width: NotRequired[Any]
    height: NotRequired[Any]
    frames: NotRequired[Any]
    recorder: NotRequired[Any]
    on_change: NotRequired[bool]
    start: Time
    expected: int
    missing: int
    fps: NotRequired[Annotated[float, Field(gt=0)]]


class ProgramRecord(_Record):
    name: str
    ecn: NotRequired[str | None]


class OptionsRecord(_Record):
    programs: NotRequired[Annotated[list[ProgramRecord], Field(max_length=1000)]]
    jitter_gate_ms: NotRequired[float | None]
    rpm: NotRequired[bool]
    origin_cc: NotRequired[str]
    origin_protocol: NotRequired[str]
    origin_server: NotRequired[str]


class HostSample(_Record):
    t: Time
    cpu_cores_used: float
    stall_ms: float
    cpu_idle_cores: NotRequired[float]
    cpu_steal_cores: NotRequired[float]
    suspended_ms: NotRequired[float]
    clock_step_ms: NotRequired[float]


class RouterClockSample(_Record):
    t: Time
    offset_s: float


class PathRecord(_Record):
    port: NotRequired[Any]
    local: NotRequired[Any]
    remote: NotRequired[Any]
    protocol: NotRequired[Any]
    address: NotRequired[Any]
    remotePort: NotRequired[Any]


_Counter = Annotated[int, Field(ge=0)] | None


class MarksRecord(_Record):
    packetsSentWithEct1: NotRequired[_Counter]
    packetsReceivedWithEct1: NotRequired[_Counter]
    packetsReceivedWithCe: NotRequired[_Counter]
    packetsWithBleachedEct1Marking: NotRequired[_Counter]
    ccfbMessagesReceived: NotRequired[_Counter]


class NetEqRecord(_Record):
    totalSamplesReceived: NotRequired[_Counter]
    concealedSamples: NotRequired[_Counter]
    insertedSamplesForDeceleration: NotRequired[_Counter]
    removedSamplesForAcceleration: NotRequired[_Counter]
    jitterBufferDelay: NotRequired[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None]
    jitterBufferEmittedCount: NotRequired[_Counter]


class TileRecord(_Record):
    bytesReceived: NotRequired[_Counter]


class CallSecond(_Record):
    tiles: NotRequired[dict[Literal["1", "2", "3", "4", "5", "6", "7", "8"], TileRecord]]
    path: NotRequired[PathRecord | None]
    marks: NotRequired[MarksRecord]
    sound: NotRequired[NetEqRecord]


_Index = Annotated[int, Field(ge=0, le=2**40)]
_Clock = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]
_Sample = Annotated[int, Field(ge=-32768, le=32767)]


class TapSecond(_Record):
    rate: Annotated[float, Field(ge=8000, le=192_000)]
    count: _Index
    marks: list[tuple[_Index, _Clock, _Clock]]
    excerpts: NotRequired[list[tuple[_Index, list[_Sample]]]]


class Decision(_Record):
    segment: Annotated[_Index, TableColumn(pl.Int64, "number of the requested segment")]
    height: Annotated[_Index, TableColumn(pl.Int64, "lines of the chosen rendition")]
    rate_bps: Annotated[_Index, TableColumn(pl.Int64, "mean rate of the chosen rendition, bit/s")]
    buffer_s: Annotated[_Clock, TableColumn(pl.Float64, "buffered media ahead, s")]
    throughput_bps: Annotated[
        _Index | None, TableColumn(pl.Int64, "the player's own estimate, bit/s; null: it had none yet")
    ]
    stalls: Annotated[_Index, TableColumn(pl.Int64, "times at which it has run out of data so far")]


class LatencySample(_Record):
    latency_s: _Clock
    rate: Annotated[float, Field(ge=0, le=16)]


_Milestone = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None


class LoadRecord(_Record):
    page: Annotated[_Index, TableColumn(pl.UInt16, "number of the page, from 1 on")]
    url: Annotated[str, TableColumn(pl.String, "address of its document")]
    requests: Annotated[_Index, TableColumn(pl.UInt32, "complete responses")]
    bytes: Annotated[_Index, TableColumn(pl.UInt64, "of their bodies")]
    ttfb_ms: Annotated[_Milestone, TableColumn(pl.Float64, "first byte; this and what follows: ms from `start`")]
    fcp_ms: Annotated[_Milestone, TableColumn(pl.Float64, "First Contentful Paint; null, here and below: not reached")]
    lcp_ms: Annotated[_Milestone, TableColumn(pl.Float64, "Largest Contentful Paint so far")]
    dcl_ms: Annotated[_Milestone, TableColumn(pl.Float64, "DOMContentLoaded")]
    load_ms: Annotated[_Milestone, TableColumn(pl.Float64, "load event")]
    until: Annotated[Time, TableColumn(pl.Float64, "Unix s when it had loaded, or the user left it")]
    errors: Annotated[_Index, TableColumn(pl.UInt32, "resources that could not be used")]
    failed: Annotated[str | None, TableColumn(pl.String, "why the page could not be loaded; null: it was")]


DETAILS: dict[str, Any] = {
    "ad": bool,
    "call": CallSecond,
    "camera": list[tuple[int, float, float]],
    "decision": Decision,
    "delivered": list[tuple[int, float, float]],
    "heard": TapSecond,
    "latency": LatencySample,
    "load": LoadRecord,
    "muted": bool,
    "speakers": Annotated[list[_Party], Field(max_length=8)],
    "spoken": TapSecond,
    "tile": tuple[_Party, Annotated[int, Field(ge=0, le=100_000)]],
    "frame": tuple[
        Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)],
        Annotated[int, Field(ge=0, le=100_000)],
        Annotated[int, Field(ge=0, le=2**40)],
    ],
}
"""Type of an event's data: whether an advertisement is shown (captures/player.js); a call's path, and every frame of
its camera and, in cells, of the other end's (captures/call.js); party and height (lines) of a room's tile from then on,
the parties that it shows as active speakers (apps/standins/room/room.js); whether a speaker has muted itself; a
segment that a player requests, and its latency (apps/standins/players/watch.js); the times of a call's sound, and
excerpts of it (captures/sound.js); position (s), height (lines) and number of a presented frame
(captures/frames.js); a load of a web page (apps/standins/web/session.py)."""
_DETAILS: dict[str, TypeAdapter[Any]] = {event: TypeAdapter(shape) for event, shape in DETAILS.items()}


def _detailed(line: Any) -> Any:
    if shape := _DETAILS.get(line.get("event", "")):
        line["detail"] = shape.validate_python(line.get("detail"))
    return line


class PlayerLine(_Record):
    t: _T
    event: NotRequired[Annotated[str, TableColumn(pl.String, "name of an event; null in a sample")]]
    playing: NotRequired[Annotated[Any, TableColumn(pl.Boolean, "whether the player reports that it plays")]]
    waiting: NotRequired[Annotated[bool, TableColumn(pl.Boolean, "whether the player waits for data")]]
    quality: NotRequired[Annotated[Any, TableColumn(pl.String, "the player's name of the rendition")]]
    width: NotRequired[Annotated[Any, TableColumn(pl.Float64, "width of the decoded picture, px")]]
    height: NotRequired[Annotated[float | None, TableColumn(pl.Float64, "height of the decoded picture, px")]]
    place: NotRequired[Annotated[list[int], Field(min_length=4, max_length=4)] | None]
    currentTime: NotRequired[Annotated[Any, TableColumn(pl.Float64, "position in the film, s", name="position_s")]]
    buffer: NotRequired[Annotated[float | None, TableColumn(pl.Float64, "buffered media ahead, s", name="buffer_s")]]
    totalFrames: NotRequired[Annotated[float | None, TableColumn(pl.Float64, "frames decoded so far", name="frames")]]
    droppedFrames: NotRequired[
        Annotated[float | None, TableColumn(pl.Float64, "frames dropped so far", name="dropped")]
    ]


class QdiscOptions(_Record):
    flows: NotRequired[int]
    limit: NotRequired[int | str]


_Delays = TypedDict("_Delays", {"delay-c": NotRequired[float], "delay-l": NotRequired[float]})


class QdiscRecord(_Record, _Delays):
    kind: Annotated[str, TableColumn(pl.String, "dualpi2, fq_codel, htb, …")]
    handle: NotRequired[Annotated[str, TableColumn(pl.String, "as in tc")]]
    parent: NotRequired[Annotated[str, TableColumn(pl.String, "as in tc; null at the root")]]
    backlog: NotRequired[Annotated[float, TableColumn(pl.Float64, "queued bytes", name="backlog_bytes")]]
    qlen: NotRequired[Annotated[float, TableColumn(pl.Float64, "queued packets")]]
    bytes: NotRequired[Annotated[float, TableColumn(pl.Float64, "bytes sent so far")]]
    packets: NotRequired[Annotated[float, TableColumn(pl.Float64, "packets sent so far")]]
    drops: NotRequired[Annotated[float, TableColumn(pl.Float64, "packets dropped so far")]]
    ecn_mark: NotRequired[float]
    ecn_marks: NotRequired[float]
    marked: NotRequired[float]
    options: NotRequired[QdiscOptions]


class ClassStatistics(_Record):
    ldelay: NotRequired[float]


class QueueClass(_Record):
    parent: NotRequired[str]
    stats: NotRequired[ClassStatistics]


class QdiscSample(_Record):
    t: Time
    dev: str
    qdiscs: list[QdiscRecord]
    classes: NotRequired[list[QueueClass]]


class SocketSample(_Record):
    t: _T
    place: NotRequired[Annotated[Any, TableColumn(pl.String, "the host of the socket")]]
    flow: NotRequired[Annotated[str | None, TableColumn(pl.String, "source>destination")]]
    cc: NotRequired[Annotated[str | None, TableColumn(pl.String, "congestion control")]]
    ecn: NotRequired[Annotated[Any, TableColumn(pl.Boolean, "ECN negotiated")]]
    cwnd: NotRequired[Annotated[Any, TableColumn(pl.Float64, "congestion window, segments")]]
    ssthresh: NotRequired[Annotated[Any, TableColumn(pl.Float64, "segments")]]
    mss: NotRequired[Annotated[Any, TableColumn(pl.Float64, "bytes")]]
    rtt_ms: NotRequired[Annotated[Any, TableColumn(pl.Float64, "smoothed round-trip time")]]
    minrtt_ms: NotRequired[Annotated[Any, TableColumn(pl.Float64, "smallest round-trip time so far")]]
    delivery_rate_bps: NotRequired[Annotated[Any, TableColumn(pl.Float64, "TCP's estimate")]]
    pacing_rate_bps: NotRequired[Annotated[Any, TableColumn(pl.Float64, "TCP's pacing rate")]]
    delivered: NotRequired[Annotated[Any, TableColumn(pl.Float64, "segments delivered so far")]]
    delivered_ce: NotRequired[Annotated[Any, TableColumn(pl.Float64, "delivered segments with CE")]]
    bytes_acked: NotRequired[Annotated[Any, TableColumn(pl.Float64, "bytes acknowledged so far")]]
    bytes_retrans: NotRequired[Annotated[Any, TableColumn(pl.Float64, "bytes retransmitted so far")]]
    app_limited: NotRequired[
        Annotated[
            bool, TableColumn(pl.Boolean, "whether the last acknowledged segment was sent without further data to send")
        ]
    ]
    notsent: NotRequired[Annotated[int, TableColumn(pl.Float64, "bytes not sent yet")]]
    busy_ms: NotRequired[Annotated[int, TableColumn(pl.Float64, "time with data to send")]]
    rwnd_limited_ms: NotRequired[
        Annotated[int, TableColumn(pl.Float64, "part of `busy_ms` limited by the receive window")]
    ]
    sndbuf_limited_ms: NotRequired[
        Annotated[int, TableColumn(pl.Float64, "part of `busy_ms` limited by the send buffer")]
    ]
    alpha: NotRequired[
        Annotated[Any, TableColumn(pl.Float64, "DCTCP's or Prague's moving average of the marked share")]
    ]


#: Maximum bytes of a .json and of a .jsonl file: ten times those of a night.
_LARGEST, _LARGEST_LINES = 64 << 20, 1 << 30
#: Maximum number of values in a .jsonl file: twice those of a night.
_MOST_VALUES = 1 << 24

TIMELINE: TypeAdapter[TimelineRecord] = TypeAdapter(TimelineRecord)
LAB: TypeAdapter[LabRecord] = TypeAdapter(Annotated[LabRecord, AfterValidator(_only_a_box_has_nulls)])
BULK: TypeAdapter[Bulk] = TypeAdapter(Bulk)
GAME: TypeAdapter[list[GameLine]] = TypeAdapter(list[GameLine])
SCREEN: TypeAdapter[ScreenRecord] = TypeAdapter(ScreenRecord)
OPTIONS: TypeAdapter[OptionsRecord] = TypeAdapter(OptionsRecord)
HOST: TypeAdapter[list[HostSample]] = TypeAdapter(list[HostSample])
PLAYER: TypeAdapter[list[PlayerLine]] = TypeAdapter(list[Annotated[PlayerLine, AfterValidator(_detailed)]])
QDISC: TypeAdapter[list[QdiscSample]] = TypeAdapter(list[QdiscSample])
RPM: TypeAdapter[list[RpmProbe]] = TypeAdapter(list[RpmProbe])
ROUTER_CLOCK: TypeAdapter[list[RouterClockSample]] = TypeAdapter(list[RouterClockSample])
SOCKETS: TypeAdapter[list[SocketSample]] = TypeAdapter(list[SocketSample])


def read(file: Path, shape: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the object in a .json file. Raises RecordError."""
    try:
        document: dict[str, Any] = _checked(json.loads(bounded(_content(file, _LARGEST))), shape, file)
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{file} cannot be read: {error}") from error
    return document


def read_lines(file: Path, shape: TypeAdapter[Any]) -> list[dict[str, Any]]:
    """Return the objects of a .jsonl file; an incomplete last line is skipped. Raises RecordError."""
    objects: list[dict[str, Any]] = []
    count = 0
    try:
        for line in io.BytesIO(_content(file, _LARGEST_LINES)):
            if (count := count + values(line)) > _MOST_VALUES:
                raise RecordError(f"{file} has more than {_MOST_VALUES} values; none of a run has")
            try:
                objects.append(json.loads(line))
            except (ValueError, RecursionError):
                if line.endswith(b"\n"):
                    raise RecordError(f"{file} has a line that is no JSON: {line[:60]!r}") from None
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror}") from error
    objects = _checked(objects, shape, file)
    return objects


def _content(file: Path, most: int) -> bytes:
    with open(file, "rb", opener=plain) as opened:
        if (size := os.fstat(opened.fileno()).st_size) > most:
            raise RecordError(f"{file} has {size} bytes; none of a run has more than {most}")
        return opened.read(most)


def _checked(value: Any, shape: TypeAdapter[Any], file: Path) -> Any:
    try:
        return shape.validate_python(value)
    except ValidationError as error:
        raise RecordError(f"{file}: {first_wrong(error)}") from error


def read_judgement(file: Path, columns: Columns, most_bytes: int) -> pl.DataFrame | None:
    """Return what `sojourn quality` stored in a run; None if there is no such file.

    Raises RecordError if the file is damaged or too large.
    """
    if not file.exists():
        return None
    try:
        if file.stat().st_size > most_bytes:
            raise RecordError(f"{file.name}: larger than {most_bytes >> 20} MiB")
        return pl.read_csv(file, schema=columns, glob=False)
    except (PolarsError, OSError) as error:
        raise RecordError(f"{file.name}: cannot be read: {str(error).splitlines()[0]}") from error
