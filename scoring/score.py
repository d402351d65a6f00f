# SPDX-License-Identifier: Apache-2.0
"""Everything that a run's raw files say, as one document: scores.json.

The same files always give the same document: nothing is random, no clock is read, floats are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
import polars as pl
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from scoring import frames, freezes, glass, latency, packets, pcapng, queue_delay, records, rendition, sojourn, validity
from scoring.blind import resolution, viewer
from scoring.harm import METRICS, Better, harm, solo_windows
from scoring.validity import Gate, Limits, Validity

SCHEMA = 1
SCORER = "1.6"
SCORES = "scores.json"
OWN = ", as the qdisc tells"  # what follows the name of such a curve
FAR = "far"  # the folder of a call's other end
_PERCENTS = (("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99), ("max_ms", 100))
_LAB = ("name", "rate_down_bps", "rate_up_bps", "rtt_ms", "qdisc_down", "qdisc_up")

Number = Annotated[float, AfterValidator(lambda value: round(value, 4) + 0.0)]
Window = tuple[float, float]
Read = TypeVar("Read")


class Metrics(BaseModel):
    """What was measured inside some windows; None where it was not recorded.

    Rates in Mbit/s of payload, heights in lines, lengths in s, RTT in ms; `speed` is media time per time, `frame_…_ms`
    the capture-to-display latency of a call's frames.
    """

    seconds: Number
    victim_mbps: Number | None = None
    contender_mbps: Number | None = None
    fps: Number | None = None
    speed: Number | None = None
    mean_height: Number | None = None
    dominant_height: int | None = None
    lowest_height: int | None = None
    height_seconds: dict[int, Number] = {}
    drops: int | None = None
    stalls: int | None = None
    stall_s: Number | None = None
    freezes: int | None = None
    freeze_s: Number | None = None
    drops_per_min: Number | None = None
    stall_s_per_min: Number | None = None
    freezes_per_min: Number | None = None
    rtt_p50_ms: Number | None = None
    rtt_p90_ms: Number | None = None
    rtt_p99_ms: Number | None = None
    rtt_p999_ms: Number | None = None
    rtt_max_ms: Number | None = None
    probe_loss: Number | None = None
    unread_share: Number | None = None
    frame_p50_ms: Number | None = None
    frame_p90_ms: Number | None = None
    frame_p99_ms: Number | None = None
    frame_max_ms: Number | None = None


class PhaseScores(Metrics):
    """A row of the main table; `start` and `end` are seconds from the start of the first phase."""

    name: str
    contender: str | None
    start: Number
    end: Number


class Harm(BaseModel):
    """Harm of one metric in one contender phase against the solo baseline of the run."""

    phase: str
    contender: str
    metric: str
    better: Better
    solo: Number
    value: Number
    harm: Number


class FreezeEntry(BaseModel):
    """One freeze: `t` in s from the start, `length` in s; `kind` tells the definition."""

    t: Number
    length: Number
    kind: Literal["webrtc", "stall"]
    phase: str | None
    uncertain: bool


class RenditionChange(BaseModel):
    """At `t` (s from the start) the picture's height went from `before` to `after`."""

    t: Number
    before: int
    after: int
    drop: bool
    phase: str | None


class Flow(BaseModel):
    """A contender's data flow in its phase; codepoints and resent as sent, `ce` behind the bottleneck."""

    phase: str
    contender: str
    sport: int
    data_packets: int
    bytes: int
    not_ect: int
    ect0: int
    ect1: int
    ce: int
    resent: int
    accecn_syn: bool | None
    d_ss_mbps: Number | None


class Sojourn(BaseModel):
    """What the way down through the router did to the packets of one sender in one phase and queue.

    `queue` is dualpi2's by codepoint, C where there is no other. `packets` came before the router; `lost` of them did
    not come out, `marked` came out as CE, `late` behind a later one of their flow; `alike`, beside them, cannot be told
    from each other and are not followed. Times in ms, less the path's own. Of "qdisc": the delay that the queue itself
    told, by as many samples as there are `packets`.
    """

    phase: str
    of: Literal["victim", "contender", "probe", "qdisc"]
    queue: Literal["L", "C"]
    packets: int
    lost: int | None = None
    marked: int | None = None
    late: int | None = None
    alike: int | None = None
    p50_ms: Number | None
    p90_ms: Number | None
    p99_ms: Number | None
    max_ms: Number | None


class Blind(BaseModel):
    """What a picture without a strip told by itself, see docs/scoring.md; times in s from the start.

    `place` is the video's on the screen (x, y, width, height in px), `heights` its effective resolution each second;
    `differing` are the seconds in which the player told of another one; `undecided` are the stretches (t, length) in
    which the picture stood still as in a freeze or in a still scene.
    """

    place: tuple[int, int, int, int]
    heights: list[int | None]
    differing: list[int]
    undecided: list[tuple[Number, Number]]


class Series(BaseModel):
    """One value a step; bin i covers t[i] to t[i] + step_s, in s from the start of the first phase."""

    step_s: float
    t: list[Number]
    victim_mbps: list[Number] | None = None
    contender_mbps: list[Number] | None = None
    height: list[Number | None] | None = None
    fps: list[Number] | None = None
    stalled_s: list[Number] | None = None


class Curve(BaseModel):
    """P(r > x): `percent[i]` of the probes took longer than `ms[i]`."""

    name: str
    ms: list[Number]
    percent: list[Number]
    probes: int


class Jitter(BaseModel):
    """What the lab itself adds: RTT of the unshaped probe above the RTT asked for, in ms."""

    p50: Number
    p99: Number
    max: Number


class Host(BaseModel):
    """The host during the timeline: cores in use of those there, and the longest scheduling stall."""

    cpu_cores_mean: Number
    cpu_cores_max: Number
    cores: int
    stall_worst_ms: Number


class Scores(BaseModel):
    """scores.json. `harm` is empty when the run is void: a void run gives reasons, no result."""

    model_config = ConfigDict(ser_json_inf_nan="null")
    schema_version: int = SCHEMA
    scorer: str = SCORER
    t0: float  # Unix s of the start of the first phase; every other time is counted from it
    lab: dict[str, Any]
    picture: Literal["strip", "blind", "player", "none"]  # whence freezes; without a strip the player tells heights
    validity: Validity
    jitter_ms: Jitter | None = None
    host: Host | None = None
    phases: list[PhaseScores]
    baseline: Metrics | None
    baseline_windows: list[tuple[Number, Number]]
    harm: list[Harm]
    renditions: list[RenditionChange]
    freezes: list[FreezeEntry]
    flows: list[Flow]
    series: Series
    goodput_100ms: Series
    ccdf: list[Curve] = Field(description="one a phase, then solo (the baseline) and unshaped")
    sojourn: list[Sojourn] = []
    sojourn_ccdf: list[Curve] = Field(
        [], description='P(sojourn time > x) of all in a phase and queue, "cubic C"; then "cubic C, as the qdisc tells"'
    )
    frame_ccdf: list[Curve] = Field([], description="of a call: how long frames took, one a phase, then solo")
    blind: Blind | None = Field(None, description="of a picture without a strip")
    far: list[PhaseScores] = Field([], description="of a call: what its other end saw, `victim_mbps` upwards")


@dataclass(frozen=True)
class Phase:
    """A phase of timeline.json; times in Unix s."""

    name: str
    contender: str | None
    start: float
    end: float


@dataclass
class _Picture:
    """What a recording and the player beside it hold; None for what was not recorded."""

    source: Literal["strip", "blind", "player", "none"] = "none"
    frames: pl.DataFrame | None = None  # t, frame (ever rising, null unread)
    changes: pl.DataFrame | None = None
    stalls: Sequence[freezes.Freeze] | None = None
    webrtc: Sequence[freezes.Freeze] = ()
    blind: Blind | None = None
    segments: list[rendition.Segment] | None = None
    delays: pl.DataFrame | None = None  # of a call's frames


class _Capture(NamedTuple):
    """Largest IP packet (bytes), all packets, those of victim and contender down, and those of a call up."""

    largest: int
    all: pl.DataFrame
    victim: pl.DataFrame
    contender: pl.DataFrame
    back: pl.DataFrame


@dataclass(frozen=True)
class _Evidence:
    """What the raw files hold; None for what was not recorded."""

    picture: _Picture
    clip_fps: float
    victim: pl.DataFrame | None = None
    contender: pl.DataFrame | None = None
    probes: pl.DataFrame | None = None

    def metrics(self, windows: Sequence[Window]) -> dict[str, Any]:
        """The fields of Metrics over the windows together."""
        seconds = sum(end - start for start, end in windows)
        found: dict[str, Any] = {"seconds": seconds}

        def weighted(values: Iterator[float]) -> float:
            return sum(v * (b - a) for v, (a, b) in zip(values, windows, strict=True)) / seconds

        for name, table in (("victim_mbps", self.victim), ("contender_mbps", self.contender)):
            if table is not None:
                found[name] = weighted(packets.goodput_bps(table, a, b) / 1e6 for a, b in windows)
        if self.picture.changes is not None and self.picture.frames is not None:
            inside = latency.within(self.picture.frames, list(windows))
            found |= {
                "fps": weighted(freezes.fps_series(self.picture.changes, window)[0] for window in windows),
                "speed": weighted(freezes.speed(self.picture.changes, a, b, self.clip_fps) for a, b in windows),
                "unread_share": inside["frame"].null_count() / inside.height if inside.height else None,
            }
        if self.picture.stalls is not None:
            found |= {
                "stalls": sum(freezes.begun(self.picture.stalls, a, b) for a, b in windows),
                "stall_s": sum(freezes.frozen_s(self.picture.stalls, a, b) for a, b in windows),
                "freezes": sum(freezes.begun(self.picture.webrtc, a, b) for a, b in windows),
                "freeze_s": sum(freezes.frozen_s(self.picture.webrtc, a, b) for a, b in windows),
            }
        if self.picture.segments is not None:
            shown = rendition.shares(self.picture.segments, windows)
            drops = [c.t for c in rendition.changes(self.picture.segments) if c.drop]
            found |= {
                "mean_height": rendition.mean_height(shown),
                "dominant_height": rendition.dominant(shown),
                "lowest_height": min(shown, default=None),
                "height_seconds": shown,
                "drops": sum(a <= t < b for t in drops for a, b in windows),
            }
        for count in ("drops", "stall_s", "freezes"):
            if found.get(count) is not None:
                found[f"{count}_per_min"] = found[count] * 60 / seconds
        if self.probes is not None:
            probes = latency.within(self.probes, list(windows))
            for percent, name in ((50, "p50"), (90, "p90"), (99, "p99"), (99.9, "p999"), (100, "max")):
                found[f"rtt_{name}_ms"] = latency.percentile(probes, percent)
            found["probe_loss"] = latency.loss(probes)
        if self.picture.delays is not None:
            delays = latency.within(self.picture.delays, list(windows))
            for percent, name in ((50, "p50"), (90, "p90"), (99, "p99"), (100, "max")):
                found[f"frame_{name}_ms"] = latency.percentile(delays, percent, "delay_ms")
        return found


def _limits_of(run: Path, real_time: bool, gates: list[Gate]) -> Limits:
    """The limits that the run was judged by when it was made."""
    asked = _optional(run, "options.json", records.OPTIONS, gates) or {}
    usual = Limits() if real_time else validity.SIMULATED
    gate_ms = asked.get("jitter_gate_ms")
    return usual if gate_ms is None else usual.model_copy(update={"jitter_ms": gate_ms})


def score_run(run: Path, *, limits: Limits | None = None, settle: float = 20.0) -> Scores:
    """Score the run directory `run` from its raw files.

    `limits` are those of the run's own options when none are given. `settle` (s) is what is left out of a solo
    phase after a contender, see `scoring.harm.solo_windows`. Records that are missing, damaged or cut off fail their
    gate and leave their metrics None. Raises RecordError when timeline.json or lab.json is missing or damaged.
    """
    gates: list[Gate] = []
    timeline, lab = (
        records.read(run / "timeline.json", records.TIMELINE), records.read(run / "lab.json", records.LAB)
    )  # fmt: skip
    real_time = lab.get("real_time", True)
    limits = limits or _limits_of(run, real_time, gates)
    phases = [Phase(p["name"], p["contender"], p["start"], p["end"]) for p in timeline["phases"]]
    t0, end = phases[0].start, phases[-1].end
    need = (t0, end)
    clip = lab.get("clip")  # a live service has none, but a live call's cameras do
    live = bool(lab.get("live", clip is None))
    clip_fps = float(clip.get("fps", 30)) if clip else 30.0
    call = lab.get("call")
    picture = _picture(run, clip, live, run / FAR if call else None, need, limits, gates, real_time)

    # The packets: the client side lies behind the downlink bottleneck, the server side before it.
    bulk = (_optional(run, "bulk.json", records.BULK, gates) or {}).get("flows", [])
    behind = _capture(run, "client", lab, live, need, limits, gates)
    victim, contender = (behind.victim, behind.contender) if behind else (None, None)
    before = _capture(run, "server", lab, live, need, limits, gates)
    if behind and before:
        gates.append(validity.offloads(max(behind.largest, before.largest)))

    # The delay.
    probes = _probes(run, "irtt.json", gates)
    unshaped = _probes(run, "irtt-unshaped.json", gates)
    calm = latency.within(unshaped, [need]) if unshaped is not None else None
    jitter = _jitter(calm, lab["rtt_ms"]) if calm is not None else None
    lost = latency.loss(calm) if calm is not None else None
    gates += [
        validity.covers("probe", probes["t"] if probes is not None else None, need, limits),
        validity.covers("unshaped probe", unshaped["t"] if unshaped is not None else None, need, limits),
        validity.at_most("unshaped probe lost", lost, limits.unshaped_loss, "%", 100),
        validity.jitter("jitter of the lab (P99)", jitter.p99 if jitter else None, limits),
    ]

    # The host and the router.
    sockets = [s for s in _lines(run / "ss.jsonl", records.SOCKETS, gates) if s.get("flow")]
    watch = _host_samples(run, need, limits, gates) if real_time else []
    names, queues = lab.get("interfaces", {}), _lines(run / "qdisc.jsonl", records.QDISC, gates)
    for side, asked in (("lan", lab["qdisc_down"]), ("wan", lab["qdisc_up"])):
        dev = names.get(side, side)
        seen = [s for s in queues if s["dev"] == dev]
        gates += [
            validity.covers(f"qdisc samples of {dev}", [s["t"] for s in seen], need, limits),
            validity.read_back(dev, asked, (s["qdiscs"] for s in seen if t0 <= s["t"] <= end)),
        ]
    if "verified_at_end" in lab:
        gates.append(validity.verified_at_end(lab["verified_at_end"]))
    if not real_time:
        captures = (("client.pcapng", behind), ("server.pcapng", before))
        clocks: dict[str, Any] = {
            "timeline.json": [t for p in phases for t in (p.start, p.end)],
            "qdisc.jsonl": [s["t"] for s in queues],
            **({"ss.jsonl": [s["t"] for s in sockets]} if sockets else {}),
            **{name: capture.all["t_ns"].to_numpy() for name, capture in captures if capture},
        }
        gates.append(validity.forwards(clocks))

    # The contenders.
    flows: list[Flow] = []
    measured: dict[str, Window] = {}  # a phase beside a contender counts while its flow is there
    for phase in phases:
        measured[phase.name] = phase.start, phase.end
        if phase.contender is None:
            continue
        record: dict[str, Any] = next((f for f in bulk if f["phase"] == phase.name), {})
        span = (record["start"], record["end"]) if {"start", "end"} <= record.keys() else None
        gates.append(validity.contender_throughout(phase.name, span, measured[phase.name], limits))
        if span and max(phase.start, span[0]) < min(phase.end, span[1]):
            measured[phase.name] = max(phase.start, span[0]), min(phase.end, span[1])
        flow = _flow(
            phase, measured[phase.name], record.get("sender_port"), contender, before.contender if before else None
        )
        row = None
        if flow is not None:
            flows.append(flow)
            row = flow.model_dump()
        port = f":{flow.sport}>" if flow else ":"
        sampled = [s for s in sockets if phase.start <= s["t"] <= phase.end and port in s["flow"]]
        ccs = {s["cc"] for s in sampled}
        gates.append(validity.contender_proven(phase.name, phase.contender, row, ccs, lab["qdisc_down"], limits))
        gates.append(validity.never_limited(phase.name, sampled, limits))

    evidence = _Evidence(picture, clip_fps, victim, contender, probes)

    def table(of: _Evidence) -> list[PhaseScores]:
        return [
            PhaseScores(name=p.name, contender=p.contender, start=p.start - t0, end=p.end - t0,
                        **of.metrics([measured[p.name]]))
            for p in phases
        ]  # fmt: skip

    rows, far = table(evidence), []
    if call:
        other = _picture(run / FAR, clip, live, run, need, limits, gates, real_time)
        far = table(_Evidence(other, clip_fps, before.back if before else None))
        if live:
            told = [
                s
                for s in _lines(run / "player.jsonl", records.PLAYER, gates)
                if s.get("event") == "call" and t0 <= s["t"] <= end
            ]
            gates.append(validity.call_path([s["detail"].get("path") for s in told], call["client"]))
        else:
            sent = {"client": behind.back if behind else None, "server": before.victim if before else None}
            gates += [validity.call_marked(end, _sent(part, need), call["ecn"], limits) for end, part in sent.items()]
    first_solo = [(p.start, p.end) for p in phases if p.contender is None][:1]
    shown = picture.segments
    best = rendition.dominant(rendition.shares(shown, first_solo)) if shown else None
    windows = solo_windows(
        phases,
        settle,
        since_recovery=lambda window: rendition.since_recovery(shown, window, best) if shown else window,
    )
    baseline = Metrics(**evidence.metrics(windows)) if windows else None
    lan = [s for s in queues if s["dev"] == names.get("lan", "lan")]
    own = queue_delay.delays(lan)
    waits, wait_curves = (
        _sojourn(before.all, behind.all, own, lab, measured, windows) if before and behind else ([], [])
    )
    fair = limits.model_copy(update={"baseline_fps_share": limits.call_fps_share}) if call else limits
    gates += [
        _healthy(name, part, evidence, not live, fair)
        for name, part in (("first solo phase", first_solo), ("solo baseline", windows))
    ]
    verdict = Validity.of(gates)

    def phase_at(t: float) -> str | None:
        return next((p.name for p in phases if p.start <= t < p.end), None)

    return Scores(
        t0=t0,
        lab={key: lab.get(key) for key in _LAB},
        picture=picture.source,
        validity=verdict,
        jitter_ms=jitter,
        host=_host(watch),
        phases=rows,
        baseline=baseline,
        baseline_windows=[(a - t0, b - t0) for a, b in windows],
        harm=_harms(rows, baseline) if verdict.valid and baseline else [],
        renditions=[
            RenditionChange(t=c.t - t0, before=c.before, after=c.after, drop=c.drop, phase=phase_at(c.t))
            for c in (rendition.changes(picture.segments) if picture.segments else [])
        ],
        freezes=[
            FreezeEntry(
                t=f.onset - t0,
                length=f.length,
                kind=f.kind,
                phase=phase_at(f.onset),
                uncertain=f.uncertain,
            )
            for f in sorted([*(picture.stalls or ()), *picture.webrtc], key=lambda f: (f.onset, f.kind))
        ],
        flows=flows,
        series=_series(evidence, t0, end, 1.0),
        goodput_100ms=_goodput(evidence, t0, end, 0.1),
        ccdf=_curves(measured, windows, probes, calm),
        sojourn=waits,
        sojourn_ccdf=wait_curves,
        frame_ccdf=_curves(measured, windows, picture.delays, None, "delay_ms"),
        blind=picture.blind,
        far=far,
    )  # fmt: skip


def _host_samples(run: Path, need: Window, limits: Limits, gates: list[Gate]) -> list[dict[str, Any]]:
    """What the host told of itself during the timeline `need`, and the gates that a host in real time must pass."""
    watch = _lines(run / "host.jsonl", records.HOST, gates)
    gates.append(validity.covers("host samples", [s["t"] for s in watch], need, limits))
    # A phase ends by the wall clock, which has gone on when a suspended host wakes.
    gates += validity.host_awake([s for s in watch if need[0] <= s["t"] <= need[1] + 2], limits)
    watch = [s for s in watch if need[0] <= s["t"] <= need[1] + 1]
    gates.append(validity.host_stalls([s["stall_ms"] for s in watch], limits))
    return watch


def _picture(
    folder: Path,
    clip: Mapping[str, Any] | None,
    live: bool,
    other: Path | None,
    need: Window,
    limits: Limits,
    gates: list[Gate],
    real_time: bool,
) -> _Picture:
    """What the screen recorded in `folder` showed, and its gates; `other` is the folder of a call's other end."""
    who = f"{FAR} end's " if folder.name == FAR else ""
    screen = _optional(folder, "screen.json", records.SCREEN, gates)
    video = folder / "screen.mp4"
    shown: pl.DataFrame | None = None
    if screen is not None and video.exists():
        shown = _whole(video, lambda: frames.read_recording(video, screen["start"]), gates)
    lines = _lines(folder / "player.jsonl", records.PLAYER, gates)
    samples = [s for s in lines if "event" not in s]
    gates += [
        validity.recorder(screen if shown is not None else None, limits, who),
        validity.covers(f"{who}recording", shown["t"] if shown is not None else None, need, limits),
        validity.covers(f"{who}player samples", [s["t"] for s in samples], need, limits),
    ]
    if not real_time and screen and shown is not None:
        gates.append(validity.every_frame(shown["t"].to_list(), screen.get("fps", 30), who))
    found = _Picture()
    unread: float | None = None if shown is None else 1.0
    facts = clip or {}
    fps = float(facts.get("fps", 30))
    if shown is not None and (shown["frame"] >= 0).any():
        found.source = "strip"
        # A camera's strip names no rendition: what the encoder makes of it, only the player knows.
        heights = facts.get("heights", rendition.LADDER)
        if heights:  # a strip that names a rung which the ladder lacks was misread
            known = pl.col("rendition") < len(heights)
            shown = shown.with_columns(
                pl.when(known).then(pl.col(it)).otherwise(-1).alias(it) for it in ("frame", "rendition")
            )
            found.segments = rendition.from_recording(shown, heights)
        else:
            found.segments = rendition.from_player(samples)
        if other is not None:
            camera = glass.camera_log(_lines(other / "player.jsonl", records.PLAYER, gates), facts["frames"])
            shown = glass.shown_frames(shown, camera, facts["frames"] / fps)
            found.delays = glass.frame_delays(shown)
        else:
            shown = shown.with_columns(frame=frames.unwrap(shown["frame"], facts.get("frames")))
        found.frames, found.changes = shown, freezes.displayed(shown["t"], shown["frame"], fps)
        found.webrtc, found.stalls = freezes.webrtc_freezes(found.changes), freezes.stalls(found.changes)
        inside = shown.filter(pl.col("t").is_between(*need))
        unread = inside["frame"].null_count() / inside.height if inside.height else None
    elif live:
        # Only a live picture has no strip: a stand-in's player is never believed instead of its picture.
        if samples:
            found.source, found.segments = "player", rendition.from_player(samples)
        if shown is not None and screen is not None:
            seen = _whole(video, lambda: viewer.watch(video, screen["start"], lines), gates)
            if seen is not None:
                found.source, found.stalls, found.webrtc = "blind", seen.stalls, seen.webrtc
                found.blind = _blind(seen, found.segments, need)
    if not live or found.source == "strip":
        gates.append(validity.at_most(f"{who}strip unread", unread, limits.unread_share, "% of frames", 100))
    return found


def _blind(seen: viewer.Seen, told: Sequence[rendition.Segment] | None, need: Window) -> Blind:
    """The seconds of the timeline; the player's heights are `told`."""
    found: list[int | None] = []
    differing = []
    lines = resolution.video_lines(seen.place.height, seen.place.width)
    for second, t in enumerate(_edges(*need, 1.0)[:-1]):
        height = seen.heights.get(int(t + 0.5 - seen.start))
        found.append(height)
        shown = rendition.shares(told, [(t, t + 1)]) if told else {}
        most = max(shown, key=lambda h: shown[h], default=None)
        if height is None or most is None:
            continue
        # A rung above the picture's lines is shown with all of these, as the next one is.
        if height != min(most, resolution.classes([most, *resolution.LADDER], lines)[-1]):
            differing.append(second)
    still = [(at - need[0], length) for at, length in seen.undecided if need[0] <= at < need[1]]
    return Blind(
        place=(seen.place.x, seen.place.y, seen.place.width, seen.place.height),
        heights=found,
        differing=differing,
        undecided=still,
    )


def _jitter(calm: pl.DataFrame, rtt_ms: float) -> Jitter | None:
    found = [latency.percentile(calm, percent) for percent in (50, 99, 100)]
    p50, p99, most = (None if rtt is None else rtt - rtt_ms for rtt in found)
    return None if p50 is None or p99 is None or most is None else Jitter(p50=p50, p99=p99, max=most)


def _host(watch: Sequence[Mapping[str, Any]]) -> Host | None:
    if not watch:
        return None
    used = [s["cpu_cores_used"] for s in watch]
    last = watch[-1]
    cores = sum(last.get(f"cpu_{what}", 0) for what in ("cores_used", "idle_cores", "steal_cores"))
    return Host(
        cpu_cores_mean=sum(used) / len(used), cpu_cores_max=max(used), cores=round(cores),
        stall_worst_ms=max(s["stall_ms"] for s in watch),
    )  # fmt: skip


def _healthy(name: str, windows: Sequence[Window], evidence: _Evidence, strip: bool, limits: Limits) -> Gate:
    """Judge the victim alone, inside the windows; `strip`: by its pictures too, whose rate is known."""
    found = evidence.metrics(windows) if windows else {}
    stalls = changes = None
    if evidence.picture.changes is not None:
        long = freezes.stalls(evidence.picture.changes, limits.baseline_stall_s)
        stalls = sum(freezes.frozen_s([stall], a, b) > 0 for stall in long for a, b in windows)
    if evidence.picture.segments:
        # A window that begins with the recovery begins at a change, which lies before it.
        changes = sum(a < c.t < b for c in rendition.changes(evidence.picture.segments) for a, b in windows)
    return validity.baseline(
        name, evidence.clip_fps if strip else None, stalls, found.get("fps"), found.get("victim_mbps"), changes, limits
    )


def _harms(rows: Sequence[PhaseScores], baseline: Metrics) -> list[Harm]:
    found = []
    for row in rows:
        for metric, better in METRICS.items() if row.contender else ():
            solo, value = getattr(baseline, metric), getattr(row, metric)
            if solo is not None and value is not None:
                found.append(
                    Harm(phase=row.name, contender=row.contender or "", metric=metric, better=better,
                         solo=solo, value=value, harm=harm(solo, value, better))
                )  # fmt: skip
    return found


def _capture(
    run: Path, side: str, lab: Mapping[str, Any], live: bool, need: Window, limits: Limits, gates: list[Gate]
) -> _Capture | None:
    """One capture, and its gates."""
    file = next((f for f in (run / f"{side}.pcapng.zst", run / f"{side}.pcapng") if f.exists()), None)
    if file is None:
        gates.append(validity.covers(f"{side} capture", None, need, limits))
        return None
    capture = _whole(file, lambda: pcapng.read(file), gates)
    if capture is None:
        return None
    ahead_ns = round(lab.get("capture_offset_s", {}).get(side, 0) * 1e9)  # the clock where it was captured
    table, addresses = capture.packets.with_columns(pl.col("t_ns") - ahead_ns), lab["addresses"]
    near = [packets.address(addresses[name]) for name in ("client", "receiver")]
    whole = [
        validity.covers(f"{side} capture", table["t_ns"].to_numpy() / 1e9, need, limits),
        validity.both_ways(side, *(int(table[end].is_in(near).sum()) for end in ("dst", "src"))),
    ]
    gates += [*whole, validity.capture_drops(side, capture.dropped)]
    if not all(gate.ok for gate in whole):
        return None  # half of the packets would give half of a number
    # A live service's address is seldom known: whatever reaches the client from its port, but no contender.
    call = lab.get("call")
    found = call["client"]["address"] if live and call else None
    victim = packets.select(
        table,
        src=found if live else addresses["server"],
        sport=lab["ports"]["origin"],
        dst=addresses["client"],
    )
    if live:
        victim = victim.filter(pl.col("src") != packets.address(addresses["sender"]))
    contender = packets.select(table, src=addresses["sender"], dst=addresses["receiver"])
    largest = int(table["ip_bytes"].max() or 0)  # type: ignore[arg-type]
    back = packets.select(
        table,
        src=addresses["client"],
        sport=call["client_port"] if call else 0,
        dst=found if live else addresses["server"],
    )
    return _Capture(largest, table, *(packets.with_advance(part) for part in (victim, contender, back)))


def _sojourn(
    before: pl.DataFrame,
    behind: pl.DataFrame,
    own: pl.DataFrame,
    lab: Mapping[str, Any],
    phases: Mapping[str, Window],
    solo: list[Window],
) -> tuple[list[Sojourn], list[Curve]]:
    """The way down of each sender's packets: a row for each phase and queue, a curve for these and the baseline.

    `own` is what the queue itself told, see scoring.queue_delay; it has rows and curves as well.
    """
    here = {name: packets.address(lab["addresses"][name]) for name in ("client", "receiver", "sender")}
    ports = lab["ports"]
    senders: dict[Literal["victim", "contender", "probe"], pl.Expr] = {
        "victim": (pl.col("dst") == here["client"]) & (pl.col("sport") == ports["origin"]),
        "contender": (pl.col("src") == here["sender"]) & (pl.col("dst") == here["receiver"]),
        "probe": (pl.col("dst") == here["client"]) & (pl.col("sport") == ports.get("irtt", 0)),
    }
    named = pl.coalesce(*(pl.when(is_it).then(pl.lit(name)) for name, is_it in senders.items()))
    down = before.filter(pl.any_horizontal(*senders.values()))
    table = sojourn.crossings(down, behind, lab.get("delay_down_ms", lab["rtt_ms"] / 2)).with_columns(of=named)
    alike = sojourn.alike(down).with_columns(of=named)
    if lab["qdisc_down"].split()[0] != "dualpi2":
        table, alike = (part.with_columns(queue=pl.lit("C")) for part in (table, alike))
    rows, curves = [], []
    for name, windows in ({phase: [window] for phase, window in phases.items()} | {"solo": solo}).items():
        inside, told, same = (latency.within(part, windows) for part in (table, own, alike))
        for suffix, source in (("", inside), (OWN, told)):
            for (queue,), part in source.sort("queue").group_by("queue", maintain_order=True):
                x, above = latency.ccdf(part, "sojourn_ms")
                label = f"{name} {queue}{suffix}"
                curves.append(Curve(name=label, ms=x.tolist(), percent=above.tolist(), probes=part.height))
        if name not in phases:
            continue
        told = told.with_columns(of=pl.lit("qdisc"))
        for (of, queue), part in [
            *inside.sort("of", "queue").group_by("of", "queue", maintain_order=True),
            *told.sort("queue").group_by("of", "queue", maintain_order=True),
        ]:
            found: dict[str, Any] = {"phase": name, "of": of, "queue": queue, "packets": part.height}
            found |= {field: latency.percentile(part, percent, "sojourn_ms") for field, percent in _PERCENTS}
            if of != "qdisc":
                found |= {"lost": part["sojourn_ms"].null_count(), "marked": part["marked"].sum()}
                found |= {"late": part["late"].sum(), "alike": same.filter(of=of, queue=queue).height}
            rows.append(Sojourn.model_validate(found))
    return rows, curves


def _sent(table: pl.DataFrame | None, need: Window) -> list[int]:
    """The ECN fields of the packets that were sent inside the timeline."""
    inside = None if table is None else table.filter((pl.col("t_ns") / 1e9).is_between(*need))
    return [] if inside is None else inside["ecn"].to_list()


def _flow(
    phase: Phase, measured: Window, port: int | None, behind: pl.DataFrame | None, before: pl.DataFrame | None
) -> Flow | None:
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
    return Flow(
        phase=phase.name, contender=phase.contender or "", bytes=arrived["bytes"], ce=arrived["ce"],
        d_ss_mbps=d_ss, **{name: sent[name] for name in columns},
    )  # fmt: skip


def _edges(t0: float, end: float, step: float) -> list[float]:
    return [t0 + i * step for i in range(max(1, int(np.ceil((end - t0) / step - 1e-9))) + 1)]


def _goodput(evidence: _Evidence, t0: float, end: float, step: float) -> Series:
    def mbps(table: pl.DataFrame | None) -> list[float] | None:
        return None if table is None else (packets.goodput_series(table, t0, end, step) / 1e6).tolist()

    t = [edge - t0 for edge in _edges(t0, end, step)[:-1]]
    return Series(step_s=step, t=t, victim_mbps=mbps(evidence.victim), contender_mbps=mbps(evidence.contender))


def _series(evidence: _Evidence, t0: float, end: float, step: float) -> Series:
    edges = _edges(t0, end, step)
    series = _goodput(evidence, t0, end, step)
    if evidence.picture.segments is not None:
        series.height = [
            rendition.mean_height(rendition.shares(evidence.picture.segments, [bin_])) for bin_ in pairwise(edges)
        ]
    if evidence.picture.changes is not None:
        series.fps = freezes.fps_series(evidence.picture.changes, edges)
    if evidence.picture.stalls is not None:
        series.stalled_s = [freezes.frozen_s(evidence.picture.stalls, a, b) for a, b in pairwise(edges)]
    return Series(**series.model_dump())


def _curves(
    phases: Mapping[str, Window],
    solo: list[Window],
    probes: pl.DataFrame | None,
    calm: pl.DataFrame | None,
    column: str = "rtt_ms",
) -> list[Curve]:
    parts = [] if probes is None else [(name, latency.within(probes, [window])) for name, window in phases.items()]
    parts += [("solo", latency.within(probes, solo))] if probes is not None else []
    parts += [("unshaped", calm)] if calm is not None else []
    curves = []
    for name, part in parts:
        x, above = latency.ccdf(part, column)
        curves.append(Curve(name=name, ms=x.tolist(), percent=above.tolist(), probes=part.height))
    return curves


def _probes(run: Path, name: str, gates: list[Gate]) -> pl.DataFrame | None:
    file = next((f for f in (run / f"{name}.gz", run / name) if f.exists()), None)
    return None if file is None else _whole(file, lambda: latency.read_irtt(file), gates)


def _whole(file: Path, read: Callable[[], Read], gates: list[Gate]) -> Read | None:
    """What `read` makes of `file`; a damaged one fails a gate of its own and counts as not recorded."""
    try:
        return read()
    except (records.RecordError, frames.RecordingError, pcapng.CaptureError, latency.ProbeError) as error:
        name = f"{FAR}/{file.name}" if file.parent.name == FAR else file.name
        # The same files give the same text wherever they lie.
        if (damage := validity.damaged(name, str(error).replace(str(file), name))) not in gates:
            gates.append(damage)
        return None


def _optional(folder: Path, name: str, shape: TypeAdapter[Any], gates: list[Gate]) -> dict[str, Any] | None:
    """The JSON object of a file that need not be there."""
    file = folder / name
    return _whole(file, lambda: records.read(file, shape), gates) if file.exists() else None


def _lines(file: Path, shape: TypeAdapter[Any], gates: list[Gate]) -> list[dict[str, Any]]:
    """The objects of a .jsonl file; a missing one has none."""
    return _whole(file, lambda: records.read_lines(file, shape), gates) or [] if file.exists() else []
