# SPDX-License-Identifier: Apache-2.0
"""What scores.json holds: the types of its document. Rates in Mbit/s, lengths in s, delays in ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field

from sojourn.scoring.statistics.harm import Better
from sojourn.scoring.statistics.numbers import Number
from sojourn.scoring.validity import Text, Validity

SCHEMA = 1
SCORER = "2.3"
SCORES = "scores.json"
OWN = ", as the qdisc tells"  # what follows the name of such a curve


class Metrics(BaseModel):
    """What was measured inside some windows; None where it was not recorded.

    Rates in Mbit/s of payload, heights in lines, lengths in s, RTT in ms; `speed` is media time per time, `frame_…_ms`
    the capture-to-display latency of a call's frames. In percentiles what was lost or never shown is infinitely late,
    and they are infinite where they fall on it (`Infinity`, as text, in JSON); a maximum is that of what came.
    `played_share` is the time without stalls, `unfrozen_share` that without WebRTC's freezes, `played_height` the mean
    height of the picture, 0 while it stalls; `rtt_…`, `probe_loss` and `answered_share` (of those sent) are the Not-ECT
    probe's, those with `ect1_` before them the ECT(1) probe's; `frame_loss` the share of frames never shown,
    `frames_in_time` that of those shown within `sojourn.scoring.metrics.IN_TIME_MS`. `rtt_answered_p99_ms` and
    `frame_shown_p99_ms` are percentiles of what came alone; `buffer_fall_s` is by how much the player's buffer fell at
    most within a window.
    """

    seconds: Number
    victim_mbps: Number | None = None
    contender_mbps: Number | None = None
    contender_up_mbps: Number | None = None
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
    played_share: Number | None = None
    unfrozen_share: Number | None = None
    played_height: Number | None = None
    rtt_p50_ms: Number | None = None
    rtt_p90_ms: Number | None = None
    rtt_p99_ms: Number | None = None
    rtt_p999_ms: Number | None = None
    rtt_max_ms: Number | None = None
    rtt_answered_p99_ms: Number | None = None
    probe_loss: Number | None = None
    answered_share: Number | None = None
    ect1_rtt_p50_ms: Number | None = None
    ect1_rtt_p90_ms: Number | None = None
    ect1_rtt_p99_ms: Number | None = None
    ect1_rtt_p999_ms: Number | None = None
    ect1_rtt_max_ms: Number | None = None
    ect1_rtt_answered_p99_ms: Number | None = None
    ect1_probe_loss: Number | None = None
    ect1_answered_share: Number | None = None
    unread_share: Number | None = None
    frame_p50_ms: Number | None = None
    frame_p90_ms: Number | None = None
    frame_p99_ms: Number | None = None
    frame_max_ms: Number | None = None
    frame_shown_p99_ms: Number | None = None
    frame_loss: Number | None = None
    frames_in_time: Number | None = None
    buffer_fall_s: Number | None = None


class PhaseScores(Metrics):
    """A row of the main table; `start` and `end` are seconds from the start of the first phase.

    What competes besides bulk flows: `web_…`, fetches that began and those that did not end, and how long the others
    took (s), `…_least_s` what an infinite percentile of theirs took at least: unfinished flows count with the time that
    they had; `second_…`, lines that a second video mostly showed, and how long it waited (s), by its player; `call_…`,
    the share lost and the one-way delay (ms) of a call each way.
    """

    name: Text
    contender: Text | None
    start: Number
    end: Number
    web_flows: int | None = None
    web_unfinished: int | None = None
    web_fct_p50_s: Number | None = None
    web_fct_p95_s: Number | None = None
    web_fct_p50_least_s: Number | None = None
    web_fct_p95_least_s: Number | None = None
    second_height: int | None = None
    second_stall_s: Number | None = None
    call_down_loss: Number | None = None
    call_down_p99_ms: Number | None = None
    call_up_loss: Number | None = None
    call_up_p99_ms: Number | None = None


class Harm(BaseModel):
    """Harm of one metric in one contender phase against the solo baseline of the run.

    `demand_met`: of goodput, that the path did not limit the victim (`sojourn.scoring.transport.demand`); `harm` is
    then 0.
    """

    phase: Text
    contender: Text
    metric: Text
    better: Better
    solo: Number
    value: Number
    harm: Number
    demand_met: bool = False


class FreezeEntry(BaseModel):
    """One freeze: `t` in s from the start, `length` in s; `kind` tells the definition."""

    t: Number
    length: Number
    kind: Literal["webrtc", "stall"]
    phase: Text | None
    uncertain: bool


class RenditionChange(BaseModel):
    """At `t` (s from the start) the picture's height went from `before` to `after`."""

    t: Number
    before: int
    after: int
    drop: bool
    phase: Text | None


class ContenderFlow(BaseModel):
    """A contender's data flow in its phase; codepoints and resent as sent, `ce` behind the bottleneck.

    `sce` packets came out as ECT(1) more than went in so; `esce` acknowledgements said so to a sender that
    speaks SCE. `window_goodput_mbps` is over the steady-state window (`per_flow.window_goodput_bps`); scores before 2.3
    call it `d_ss_mbps`, which is the sender's delivery rate elsewhere.
    """

    phase: Text
    contender: Text
    up: bool = False
    sport: int
    data_packets: int
    bytes: int
    not_ect: int
    ect0: int
    ect1: int
    ce: int
    sce: int = 0
    esce: int = 0
    resent: int
    accecn_syn: bool | None
    window_goodput_mbps: Number | None = Field(validation_alias=AliasChoices("window_goodput_mbps", "d_ss_mbps"))


class Sojourn(BaseModel):
    """What the way down through the router did to the packets of one sender in one phase and queue.

    `queue` is dualpi2's by codepoint, C where there is no other. `packets` came before the router; `lost` of them did
    not come out, `marked` came out as CE, `late` behind a later one of their flow; `alike`, beside them, cannot be told
    from each other and are not followed; `negative` came sooner than the path alone takes, which no packet can, by up
    to `-least_ms`. Times in ms, less the path's own; percentiles with lost packets as infinitely late. Of "qdisc": the
    delay that the queue itself told, by as many samples as there are `packets`.
    """

    phase: Text
    of: Literal["victim", "contender", "probe", "ect1_probe", "qdisc"]
    queue: Literal["L", "C"]
    packets: int
    lost: int | None = None
    marked: int | None = None
    late: int | None = None
    alike: int | None = None
    negative: int | None = None
    p50_ms: Number | None
    p90_ms: Number | None
    p99_ms: Number | None
    max_ms: Number | None
    least_ms: Number | None = None


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


class TimeSeries(BaseModel):
    """One value a step; bin i covers t[i] to t[i] + step_s, in s from the start of the first phase."""

    step_s: float
    t: list[Number]
    victim_mbps: list[Number] | None = None
    contender_mbps: list[Number] | None = None
    height: list[Number | None] | None = None
    fps: list[Number] | None = None
    stalled_s: list[Number] | None = None


class Curve(BaseModel):
    """P(r > x): `percent[i]` of the probes took longer than `ms[i]`, the lost ones among them."""

    name: Text
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

    schema_version: int = SCHEMA
    scorer: Text = SCORER
    t0: float  # Unix s of the start of the first phase; every other time is counted from it
    lab: dict[str, Any]
    picture: Literal["strip", "blind", "player", "none"]  # whence freezes; without a strip the player tells heights
    primary: Text | None = Field(None, description="the metric by which this victim is judged")
    own_kind: Text | None = Field(None, description="the contender that is as the victim itself, if known")
    validity: Validity
    jitter_ms: Jitter | None = None
    host: Host | None = None
    phases: list[PhaseScores]
    baseline: Metrics | None
    baseline_windows: list[tuple[Number, Number]]
    harm: list[Harm]
    renditions: list[RenditionChange]
    freezes: list[FreezeEntry]
    flows: list[ContenderFlow]
    series: TimeSeries
    goodput_100ms: TimeSeries
    ccdf: list[Curve] = Field(description="of the Not-ECT probe: one a phase, then solo (the baseline) and unshaped")
    ect1_ccdf: list[Curve] = Field([], description="of the ECT(1) probe: one a phase, then solo")
    sojourn: list[Sojourn] = []
    sojourn_ccdf: list[Curve] = Field(
        [], description='P(sojourn time > x) of all in a phase and queue, "cubic C"; then "cubic C, as the qdisc tells"'
    )
    frame_ccdf: list[Curve] = Field([], description="of a call: how long frames took, one a phase, then solo")
    blind: Blind | None = Field(None, description="of a picture without a strip")
    far: list[PhaseScores] = Field([], description="of a call: what its other end saw, `victim_mbps` upwards")


def rate_steps(lab: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return when (s of the run) the bottleneck's rate down stepped, and to what (bit/s), by the `lab` of scores."""
    steps = [step for step in lab.get("rate_steps") or () if step["direction"] == "down"]
    return [(float(step["t"]), float(step["rate_bps"])) for step in steps]
