# SPDX-License-Identifier: Apache-2.0
"""What the JSON files of a run must hold to be scored. A file may hold more; times are Unix s, rates bit/s."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from bottleneck.qdiscs import parse_qdisc
from hardware.machine.messages import first_wrong


class RecordError(RuntimeError):
    """A file that is missing, damaged, or holds what it should not; the text names it and the first thing wrong."""


class _Record(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow", allow_inf_nan=False)  # type: ignore[misc]


def _forward(span: Any) -> Any:
    if span["end"] < span["start"]:
        raise ValueError("ends before it starts")
    return span


class PhaseRecord(_Record):
    name: str
    contender: str | None
    start: float
    end: float


class TimelineRecord(_Record):
    phases: Annotated[list[Annotated[PhaseRecord, AfterValidator(_forward)]], Field(min_length=1)]


class ClipRecord(_Record):
    frames: NotRequired[Annotated[int, Field(gt=0)]]
    fps: NotRequired[Annotated[float, Field(gt=0)]]
    heights: NotRequired[list[int]]


class EndRecord(_Record):
    address: NotRequired[str | None]


class CallRecord(_Record):
    client_port: NotRequired[int]
    ecn: NotRequired[Literal["not-ect", "ect0", "ect1"]]
    client: NotRequired[EndRecord]


def _known(queue: str) -> str:
    parse_qdisc(queue, "queue")
    return queue


Queue = Annotated[str, AfterValidator(_known)]


class LabRecord(_Record):
    rtt_ms: float
    rate_down_bps: float
    rate_up_bps: NotRequired[float]
    qdisc_down: Queue
    qdisc_up: Queue
    addresses: NotRequired[dict[str, str]]
    ports: NotRequired[dict[str, int]]
    interfaces: NotRequired[dict[str, str]]
    clip: NotRequired[ClipRecord | None]
    call: NotRequired[CallRecord | None]
    delay_down_ms: NotRequired[float]
    capture_offset_s: NotRequired[dict[str, Annotated[float, Field(ge=-4e9, le=4e9)]]]
    verified_at_end: NotRequired[bool | str]
    real_time: NotRequired[bool]


class FlowRecord(_Record):
    phase: str
    start: NotRequired[float]
    end: NotRequired[float]
    sender_port: NotRequired[int | None]


class Bulk(_Record):
    flows: list[FlowRecord]


class ScreenRecord(_Record):
    start: float
    expected: int
    missing: int
    fps: NotRequired[Annotated[float, Field(gt=0)]]


class Asked(_Record):
    jitter_gate_ms: NotRequired[float | None]


class HostSample(_Record):
    t: float
    cpu_cores_used: float
    stall_ms: float
    cpu_idle_cores: NotRequired[float]
    cpu_steal_cores: NotRequired[float]
    suspended_ms: NotRequired[float]
    clock_step_ms: NotRequired[float]


class CallSecond(_Record):
    path: NotRequired[dict[str, Any] | None]


#: By event: what a call's page tells of its path, and of each frame of its camera, see captures/call.js.
_DETAILS: dict[str, TypeAdapter[Any]] = {
    "call": TypeAdapter(CallSecond),
    "camera": TypeAdapter(list[tuple[int, float, float]]),
}


def _detailed(line: Any) -> Any:
    if shape := _DETAILS.get(line.get("event", "")):
        line["detail"] = shape.validate_python(line.get("detail"))
    return line


class PlayerLine(_Record):
    t: float
    event: NotRequired[str]
    height: NotRequired[float | None]
    place: NotRequired[Annotated[list[int], Field(min_length=4, max_length=4)] | None]
    totalFrames: NotRequired[float | None]
    droppedFrames: NotRequired[float | None]


class _Options(_Record):
    flows: NotRequired[int]
    limit: NotRequired[int | str]


_Delays = TypedDict("_Delays", {"delay-c": NotRequired[float], "delay-l": NotRequired[float]})


class Qdisc(_Record, _Delays):
    kind: str
    handle: NotRequired[str]
    parent: NotRequired[str]
    bytes: NotRequired[float]
    backlog: NotRequired[float]
    drops: NotRequired[float]
    ecn_mark: NotRequired[float]
    ecn_marks: NotRequired[float]
    marked: NotRequired[float]
    options: NotRequired[_Options]


class ClassStatistics(_Record):
    ldelay: NotRequired[float]


class QueueClass(_Record):
    parent: NotRequired[str]
    stats: NotRequired[ClassStatistics]


class QdiscSample(_Record):
    t: float
    dev: str
    qdiscs: list[Qdisc]
    classes: NotRequired[list[QueueClass]]


class SocketSample(_Record):
    t: float
    flow: NotRequired[str | None]
    cc: NotRequired[str | None]
    busy_ms: NotRequired[int]
    rwnd_limited_ms: NotRequired[int]
    sndbuf_limited_ms: NotRequired[int]


TIMELINE: TypeAdapter[TimelineRecord] = TypeAdapter(TimelineRecord)
LAB: TypeAdapter[LabRecord] = TypeAdapter(LabRecord)
BULK: TypeAdapter[Bulk] = TypeAdapter(Bulk)
SCREEN: TypeAdapter[ScreenRecord] = TypeAdapter(ScreenRecord)
OPTIONS: TypeAdapter[Asked] = TypeAdapter(Asked)
HOST: TypeAdapter[list[HostSample]] = TypeAdapter(list[HostSample])
PLAYER: TypeAdapter[list[PlayerLine]] = TypeAdapter(list[Annotated[PlayerLine, AfterValidator(_detailed)]])
QDISC: TypeAdapter[list[QdiscSample]] = TypeAdapter(list[QdiscSample])
SOCKETS: TypeAdapter[list[SocketSample]] = TypeAdapter(list[SocketSample])


def read(file: Path, shape: TypeAdapter[Any]) -> dict[str, Any]:
    """The object in a .json file. Raises RecordError."""
    try:
        document: dict[str, Any] = _checked(json.loads(file.read_bytes()), shape, file)
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{file} cannot be read: {error}") from error
    return document


def read_lines(file: Path, shape: TypeAdapter[Any]) -> list[dict[str, Any]]:
    """The objects of a .jsonl file; a last line cut off by a kill is left out. Raises RecordError."""
    objects: list[dict[str, Any]] = []
    try:
        for line in file.read_bytes().splitlines(keepends=True):
            try:
                objects.append(json.loads(line))
            except (ValueError, RecursionError):
                if line.endswith(b"\n"):
                    raise RecordError(f"{file} has a line that is no JSON: {line[:60]!r}") from None
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror}") from error
    objects = _checked(objects, shape, file)
    return objects


def _checked(value: Any, shape: TypeAdapter[Any], file: Path) -> Any:
    try:
        return shape.validate_python(value)
    except ValidationError as error:
        raise RecordError(f"{file}: {first_wrong(error)}") from error
