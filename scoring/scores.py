# SPDX-License-Identifier: Apache-2.0
"""What scores.json holds: the types of its document. Rates in Mbit/s, lengths in s, delays in ms."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from scoring.harm import Better
from scoring.validity import Text, Validity

SCHEMA = 1
SCORER = "1.8"
SCORES = "scores.json"
OWN = ", as the qdisc tells"  # what follows the name of such a curve

Number = Annotated[float, AfterValidator(lambda value: round(value, 4) + 0.0)]


class Metrics(BaseModel):
    """What was measured inside some windows; None where it was not recorded.

    Rates in Mbit/s of payload, heights in lines, lengths in s, RTT in ms; `speed` is media time per time, `frame_…_ms`
    the capture-to-display latency of a call's frames.
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

    name: Text
    contender: Text | None
    start: Number
    end: Number


class Harm(BaseModel):
    """Harm of one metric in one contender phase against the solo baseline of the run."""

    phase: Text
    contender: Text
    metric: Text
    better: Better
    solo: Number
    value: Number
    harm: Number


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
    """A contender's data flow in its phase; codepoints and resent as sent, `ce` behind the bottleneck."""

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

    phase: Text
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

    model_config = ConfigDict(ser_json_inf_nan="null")
    schema_version: int = SCHEMA
    scorer: Text = SCORER
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
    flows: list[ContenderFlow]
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
