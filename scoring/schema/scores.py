# SPDX-License-Identifier: Apache-2.0
"""scores.json: the types of the document. Rates in Mbit/s, lengths in s, delays in ms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from sojourn.scoring.schema.metric import Metric, metrics_of
from sojourn.scoring.statistics.harm import Better
from sojourn.scoring.statistics.numbers import Number
from sojourn.scoring.validity import Text, Validity

SCHEMA = 1
SCORER = "2.11"
LAST_CHANGES = {"room": "2.10"}
"""The last scorer that changed the scores of a service's runs; that of all other services is `LAST_CHANGE`.

2.11 changed only runs whose queue has its own rate (`cake bandwidth 5mbit`), which no published table has.
"""
LAST_CHANGE = "2.9"
SCORES = "scores.json"
OWN = ", as reported by the qdisc"  # the suffix of such a curve's name
#: Of a field that only some victims have: without a value, it is not in the document.
_SOME = Field(exclude_if=lambda value: value is None)


def last_change(services: Iterable[str]) -> str:
    """Return the last scorer that changed the scores of runs with one of these services."""
    versions = (LAST_CHANGES.get(service, LAST_CHANGE) for service in services)
    return max(versions, key=lambda version: tuple(map(int, version.split("."))), default=LAST_CHANGE)


class Metrics(BaseModel):
    """The measurements inside some windows; None for what was not recorded.

    Rates in Mbit/s of payload, heights in lines, lengths in s, RTT in ms; `speed` is media time per time, `frame_…_ms`
    the capture-to-display latency of a call's frames. In percentiles, anything lost or never shown is infinitely
    late, and a percentile that falls on it is infinite (`Infinity`, as text, in JSON); a maximum is over what arrived.
    `played_share` is the time without stalls, `unfrozen_share` that without WebRTC's freezes, `played_height` the mean
    height of the picture, 0 while it stalls; `rtt_…`, `probe_loss` and `answered_share` (of those sent) are the Not-ECT
    probe's, those with the prefix `ect1_` the ECT(1) probe's; `frame_loss` the share of frames never shown,
    `frames_in_time` that of those shown within `sojourn.scoring.sound.summary.IN_TIME_MS`. `rtt_answered_p99_ms` and
    `frame_shown_p99_ms` are percentiles over what arrived; `buffer_fall_s` is the largest fall of the player's buffer
    within a window. `rtt_in_time` is the share of the probes sent that were answered within
    `sojourn.scoring.metrics.ANSWER_IN_TIME_MS`. `fair_share_met` is the goodput over the victim's max-min fair share
    (`sojourn.scoring.transport.demand.fair_share_mbps`), at most 1, which it is alone and where its demand was met.
    `foreign_rpm` is the foreign responsiveness of draft-ietf-ippm-responsiveness-09 (`--rpm`), `foreign_…_ms` the
    trimmed means of which it consists, of the answered probes; `foreign_answered_share` is their share of those sent.
    `media_…` and `ccfb_received` are a SCReAM call's, as its browser counts them every second: RTP packets sent and
    received with these codepoints, those whose ECT(1) was cleared on the way, and the other end's RFC 8888 reports.
    `live_…`, `playback_rate` and `catch_up_share` are a broadcast's with low latency (`sojourn.scoring.live_latency`).
    `page_loads` began within the windows; `fcp_…`, `lcp_…` and `load_…` are their times from the navigation's start
    until something was painted, the largest content was, and everything had loaded (`sojourn.scoring.page_loads`).
    Their percentiles are infinite if too many loads were cut off before.
    `ear_…` are a call's sound, every 20 ms of it (`sojourn.scoring.sound.ear`): delay from the other end's microphone
    to this end's ear, and as for frames, `ear_loss`, and the shares within the limits of ITU-T G.114. `ear_gap_share`
    and `ear_repeated_share` are of the time at the ear without the speaker's pauses; `neteq_…` are NetEq's own
    counters, as shares of its samples, and the mean time that samples waited in its buffer.
    `lip_sync_p50_ms` is the delay of a picture less that of the sound spoken at its capture, positive where the sound
    is ahead, and `lip_sync_in_limits` the share of pictures within the thresholds of detection of ITU-R BT.1359-1, of
    those that were shown and whose sound was heard.
    `r_factor` and `mos_cqe` are the E-model's (ITU-T G.107, `sojourn.scoring.sound.emodel`) of the inputs `e_model`:
    mean delay (`ta_ms`), loss in percent (`ppl`), its burst ratio, and what is assumed of the codec (`ie`, `bpl`); all
    others have their default values. `r_factor_wb` and `mos_cqe_wb` are those of G.107.1, for wideband speech.
    `tick_…` are a game's packets down, `input_…` those up: one-way delay, loss, jitter, and the shares of all sent that
    were at most so late (`sojourn.scoring.game`).
    """

    seconds: Number
    played_height: Annotated[
        Number | None, Metric("effective resolution, 0 while stalled", "more", harm=True, alone=True)
    ] = None
    mean_height: Annotated[Number | None, Metric("mean height of the picture", "more", harm=True, alone=True)] = None
    dominant_height: int | None = None
    lowest_height: Annotated[int | None, Metric("lowest picture", "more", alone=True)] = None
    height_seconds: dict[int, Number] = {}
    drops: Annotated[int | None, Metric("drops of resolution", "less")] = None
    played_share: Annotated[Number | None, Metric("time without stalls", "more", harm=True, measured=False)] = None
    stalls: Annotated[int | None, Metric("stalls of 0.5 s or more", "less")] = None
    stall_s: Annotated[Number | None, Metric("stalled", "less")] = None
    unfrozen_share: Annotated[
        Number | None, Metric("time without freezes (WebRTC)", "more", harm=True, measured=False)
    ] = None
    freezes: Annotated[int | None, Metric("freezes (WebRTC)", "less")] = None
    freeze_s: Annotated[Number | None, Metric("frozen (WebRTC)", "less")] = None
    fps: Annotated[Number | None, Metric("displayed frame rate", "more", harm=True, alone=True)] = None
    speed: Number | None = None
    unread_share: Number | None = None
    buffer_fall_s: Number | None = None
    victim_mbps: Annotated[Number | None, Metric("goodput of the victim", "more", harm=True, alone=True)] = None
    fair_share_met: Annotated[
        Number | None, Metric("goodput over its fair share, at most 1", "more", harm=True, measured=False)
    ] = None
    contender_mbps: Annotated[Number | None, Metric("goodput of the contender")] = None
    contender_up_mbps: Annotated[Number | None, Metric("goodput of its uploads")] = None
    rtt_p50_ms: Annotated[Number | None, Metric("RTT of the probe (Not-ECT), P50", "less", harm=True, alone=True)] = (
        None
    )
    ect1_rtt_p50_ms: Annotated[
        Number | None, Metric("RTT of the probe (ECT(1)), P50", "less", harm=True, alone=True)
    ] = None
    rtt_p90_ms: Number | None = None
    ect1_rtt_p90_ms: Number | None = None
    rtt_p99_ms: Annotated[Number | None, Metric("RTT of the probe (Not-ECT), P99", "less", alone=True)] = None
    ect1_rtt_p99_ms: Annotated[Number | None, Metric("RTT of the probe (ECT(1)), P99", "less", alone=True)] = None
    rtt_p999_ms: Number | None = None
    ect1_rtt_p999_ms: Number | None = None
    rtt_max_ms: Number | None = None
    ect1_rtt_max_ms: Number | None = None
    rtt_answered_p99_ms: Annotated[
        Number | None, Metric("RTT of the answered probes (Not-ECT), P99", "less", harm=True, alone=True)
    ] = None
    ect1_rtt_answered_p99_ms: Annotated[
        Number | None, Metric("RTT of the answered probes (ECT(1)), P99", "less", harm=True, alone=True)
    ] = None
    rtt_in_time: Annotated[
        Number | None, Metric("probes answered within 100 ms (Not-ECT)", "more", harm=True, alone=True)
    ] = None
    ect1_rtt_in_time: Annotated[
        Number | None, Metric("probes answered within 100 ms (ECT(1))", "more", harm=True, alone=True)
    ] = None
    probe_loss: Annotated[Number | None, Metric("probes lost (Not-ECT)", alone=True, measured=False)] = None
    ect1_probe_loss: Annotated[Number | None, Metric("probes lost (ECT(1))", alone=True, measured=False)] = None
    answered_share: Annotated[Number | None, Metric("probes answered (Not-ECT)", "more", harm=True, measured=False)] = (
        None
    )
    ect1_answered_share: Annotated[
        Number | None, Metric("probes answered (ECT(1))", "more", harm=True, measured=False)
    ] = None
    foreign_rpm: Annotated[
        Number | None, _SOME, Metric("responsiveness of new connections", "more", harm=True, alone=True)
    ] = None
    foreign_tcp_ms: Annotated[
        Number | None, _SOME, Metric("TCP handshake of new connections, trimmed mean", "less", alone=True)
    ] = None
    foreign_tls_ms: Annotated[
        Number | None, _SOME, Metric("TLS handshake of new connections, trimmed mean", "less", alone=True)
    ] = None
    foreign_http_ms: Annotated[
        Number | None, _SOME, Metric("GET on new connections, trimmed mean", "less", alone=True)
    ] = None
    foreign_answered_share: Annotated[
        Number | None, _SOME, Metric("new connections answered", "more", harm=True, measured=False)
    ] = None
    live_latency_s: Annotated[
        Number | None, _SOME, Metric("behind the broadcast, mean", "less", harm=True, alone=True)
    ] = None
    live_latency_max_s: Annotated[Number | None, _SOME, Metric("behind the broadcast, most", "less")] = None
    live_drift_s: Annotated[Number | None, _SOME, Metric("change of the latency behind the broadcast", "less")] = None
    playback_rate: Annotated[Number | None, _SOME, Metric("speed of playback, mean")] = None
    catch_up_share: Annotated[Number | None, _SOME, Metric("time played faster to catch up", "less", alone=True)] = None
    frames_in_time: Annotated[Number | None, Metric("frames shown within 0.4 s", "more", harm=True, alone=True)] = None
    frame_p50_ms: Annotated[Number | None, Metric("camera to screen, P50", "less", alone=True)] = None
    frame_p90_ms: Number | None = None
    frame_p99_ms: Annotated[Number | None, Metric("camera to screen, P99", "less", alone=True)] = None
    frame_max_ms: Number | None = None
    frame_shown_p99_ms: Annotated[
        Number | None, Metric("camera to screen of the frames shown, P99", "less", harm=True, alone=True)
    ] = None
    frame_loss: Annotated[Number | None, Metric("frames never shown", alone=True, measured=False)] = None
    ear_in_time: Annotated[Number | None, _SOME, Metric("sound heard within 0.4 s", "more", harm=True, alone=True)] = (
        None
    )
    ear_interactive: Annotated[
        Number | None, _SOME, Metric("sound heard within 0.15 s", "more", harm=True, alone=True)
    ] = None
    ear_p50_ms: Annotated[Number | None, _SOME, Metric("mouth to ear, P50", "less", alone=True)] = None
    ear_p95_ms: Annotated[Number | None, _SOME, Metric("mouth to ear, P95", "less", alone=True)] = None
    ear_heard_p95_ms: Annotated[
        Number | None, _SOME, Metric("mouth to ear of the sound heard, P95", "less", harm=True, alone=True)
    ] = None
    ear_loss: Annotated[Number | None, _SOME, Metric("sound never heard", "less", alone=True)] = None
    ear_gap_share: Annotated[Number | None, _SOME, Metric("gaps in the sound", "less", alone=True)] = None
    ear_repeated_share: Annotated[Number | None, _SOME, Metric("sound heard twice", alone=True, measured=False)] = None
    neteq_concealed_share: Annotated[
        Number | None, _SOME, Metric("samples concealed by NetEq", alone=True, measured=False)
    ] = None
    neteq_stretched_share: Annotated[
        Number | None, _SOME, Metric("samples inserted by NetEq", alone=True, measured=False)
    ] = None
    neteq_shortened_share: Annotated[
        Number | None, _SOME, Metric("samples removed by NetEq", alone=True, measured=False)
    ] = None
    neteq_buffer_ms: Annotated[Number | None, _SOME, Metric("in NetEq's buffer, mean", alone=True, measured=False)] = (
        None
    )
    lip_sync_p50_ms: Annotated[Number | None, _SOME, Metric("lead of the sound over the picture", alone=True)] = None
    lip_sync_in_limits: Annotated[
        Number | None, _SOME, Metric("pictures in sync with the sound", "more", harm=True, alone=True)
    ] = None
    tick_in_16ms: Annotated[Number | None, _SOME, Metric("ticks at most 16 ms late", "more", harm=True, alone=True)] = (
        None
    )
    tick_in_50ms: Annotated[Number | None, _SOME, Metric("ticks at most 50 ms late", "more", harm=True, alone=True)] = (
        None
    )
    tick_in_100ms: Annotated[
        Number | None, _SOME, Metric("ticks at most 100 ms late", "more", harm=True, alone=True)
    ] = None
    tick_p50_ms: Annotated[Number | None, _SOME, Metric("delay of ticks (down), P50", "less", alone=True)] = None
    tick_p99_ms: Annotated[
        Number | None, _SOME, Metric("delay of ticks (down), P99", "less", harm=True, alone=True)
    ] = None
    tick_jitter_ms: Annotated[Number | None, _SOME, Metric("jitter of ticks", "less", alone=True)] = None
    tick_loss: Annotated[Number | None, _SOME, Metric("ticks lost", alone=True, measured=False)] = None
    input_in_50ms: Annotated[
        Number | None, _SOME, Metric("inputs at most 50 ms late", "more", harm=True, alone=True)
    ] = None
    input_p50_ms: Annotated[Number | None, _SOME, Metric("delay of inputs (up), P50", "less", alone=True)] = None
    input_p99_ms: Annotated[
        Number | None, _SOME, Metric("delay of inputs (up), P99", "less", harm=True, alone=True)
    ] = None
    input_jitter_ms: Annotated[Number | None, _SOME, Metric("jitter of inputs", "less", alone=True)] = None
    input_loss: Annotated[Number | None, _SOME, Metric("inputs lost", alone=True, measured=False)] = None
    r_factor: Annotated[Number | None, _SOME, Metric("E-model's R", "more", alone=True)] = None
    mos_cqe: Annotated[Number | None, _SOME, Metric("E-model's MOS", "more", alone=True, measured=False)] = None
    r_factor_wb: Annotated[Number | None, _SOME, Metric("wideband E-model's R", "more", alone=True)] = None
    mos_cqe_wb: Annotated[
        Number | None, _SOME, Metric("wideband E-model's MOS", "more", alone=True, measured=False)
    ] = None
    e_model: Annotated[dict[str, Number] | None, _SOME] = None
    page_loads: Annotated[int | None, _SOME, Metric("page loads", measured=False)] = None
    page_loads_unfinished: Annotated[int | None, _SOME, Metric("page loads not finished", measured=False)] = None
    fcp_p50_ms: Annotated[
        Number | None, _SOME, Metric("First Contentful Paint, P50", "less", harm=True, alone=True)
    ] = None
    fcp_p95_ms: Annotated[
        Number | None, _SOME, Metric("First Contentful Paint, P95", "less", harm=True, alone=True)
    ] = None
    lcp_p50_ms: Annotated[
        Number | None, _SOME, Metric("Largest Contentful Paint, P50", "less", harm=True, alone=True)
    ] = None
    lcp_p95_ms: Annotated[
        Number | None, _SOME, Metric("Largest Contentful Paint, P95", "less", harm=True, alone=True)
    ] = None
    load_p50_ms: Annotated[Number | None, _SOME, Metric("page load, P50", "less", harm=True, alone=True)] = None
    load_p95_ms: Annotated[Number | None, _SOME, Metric("page load, P95", "less", harm=True, alone=True)] = None
    media_sent_ect1: Annotated[int | None, _SOME, Metric("RTP packets sent as ECT(1)", measured=False)] = None
    media_received_ect1: Annotated[int | None, _SOME, Metric("RTP packets received as ECT(1)", measured=False)] = None
    media_received_ce: Annotated[int | None, _SOME, Metric("RTP packets received as CE", measured=False)] = None
    media_bleached: Annotated[int | None, _SOME, Metric("RTP packets that lost their ECT(1)", measured=False)] = None
    ccfb_received: Annotated[int | None, _SOME, Metric("CCFB messages received", measured=False)] = None


class PhaseScores(Metrics):
    """A row of the main table; `start` and `end` are seconds from the start of the first phase.

    Contenders other than bulk flows: `web_…`, started and unfinished fetches and the duration of the others (s),
    `…_least_s` a lower bound for an infinite percentile: unfinished flows count with the time that they had;
    `recovery_s` and `goodput_recovery_s` are the times from the phase's end until the picture keeps its height
    alone, and until the victim gets its goodput alone (`sojourn.scoring.recovery`), infinite if the following solo
    phase does not contain them; None without one. `second_…`, the main height of a second video and its stall time
    (s), from its player; `call_…`, loss share and one-way delay (ms) of a call in both directions; `game_…`, those of a
    game, with the shares of its ticks that were at most so late (`sojourn.scoring.game`); `test_…`, the result of a
    Responsiveness Test: all, its foreign and its self probes.
    """

    name: Text
    contender: Text | None
    start: Number
    end: Number
    recovery_s: Annotated[Number | None, Metric("recovery of the picture afterwards", "less")] = None
    goodput_recovery_s: Annotated[Number | None, Metric("recovery of the victim's goodput afterwards", "less")] = None
    web_flows: Annotated[int | None, Metric("web flows begun", measured=False)] = None
    web_unfinished: Annotated[int | None, Metric("web flows not finished", measured=False)] = None
    web_fct_p50_s: Annotated[Number | None, Metric("web user in competition: completion of flows, P50")] = None
    web_fct_p95_s: Annotated[Number | None, Metric("web user in competition: completion of flows, P95")] = None
    web_fct_p50_least_s: Annotated[
        Number | None, Metric("web user in competition: completion of flows, P50, lower bound", measured=False)
    ] = None
    web_fct_p95_least_s: Annotated[
        Number | None, Metric("web user in competition: completion of flows, P95, lower bound", measured=False)
    ] = None
    second_height: Annotated[int | None, Metric("video in competition: height, mostly")] = None
    second_stall_s: Annotated[Number | None, Metric("video in competition: stalled")] = None
    call_down_loss: Annotated[Number | None, Metric("call in competition: loss, down")] = None
    call_down_p99_ms: Annotated[Number | None, Metric("call in competition: delay down, P99")] = None
    call_up_loss: Annotated[Number | None, Metric("call in competition: loss, up", measured=False)] = None
    call_up_p99_ms: Annotated[Number | None, Metric("call in competition: delay up, P99", measured=False)] = None
    game_in_16ms: Annotated[Number | None, _SOME, Metric("game in competition: ticks at most 16 ms late")] = None
    game_in_50ms: Annotated[Number | None, _SOME, Metric("game in competition: ticks at most 50 ms late")] = None
    game_in_100ms: Annotated[Number | None, _SOME, Metric("game in competition: ticks at most 100 ms late")] = None
    game_down_loss: Annotated[Number | None, _SOME, Metric("game in competition: loss, down", measured=False)] = None
    game_down_p99_ms: Annotated[Number | None, _SOME, Metric("game in competition: delay down, P99")] = None
    game_up_loss: Annotated[Number | None, _SOME, Metric("game in competition: loss, up", measured=False)] = None
    game_up_p99_ms: Annotated[Number | None, _SOME, Metric("game in competition: delay up, P99", measured=False)] = None
    test_rpm: Annotated[Number | None, _SOME, Metric("responsiveness by its test")] = None
    test_foreign_rpm: Annotated[Number | None, _SOME, Metric("responsiveness of its foreign probes")] = None
    test_self_rpm: Annotated[Number | None, _SOME, Metric("responsiveness of its self probes")] = None


METRICS = metrics_of(PhaseScores)
"""The figures of a phase, by field, in the order in which tables show them."""
HARMED: dict[str, Better] = {name: it.better for name, it in METRICS.items() if it.harm and it.better}
"""Those on which harm is computed, and their better direction."""


class Harm(BaseModel):
    """Harm of one metric in one contender phase against the solo baseline of the run.

    `demand_met`, for goodput: the path did not limit the victim (`sojourn.scoring.transport.demand`), so `harm` is
    0.
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
    """One freeze: `t` in s from the start, `length` in s; `kind` is the definition."""

    t: Number
    length: Number
    kind: Literal["webrtc", "stall"]
    phase: Text | None
    uncertain: bool


class RenditionChange(BaseModel):
    """A change of the picture's height from `before` to `after`, at `t` (s from the start)."""

    t: Number
    before: int
    after: int
    drop: bool
    phase: Text | None


class ContenderFlow(BaseModel):
    """A contender's data flow in its phase; codepoints and resent as sent, `ce` after the bottleneck.

    `sce` is the number of packets that the bottleneck changed to ECT(1); `esce` the number of acknowledgements that
    echo SCE to a sender that supports it. `window_goodput_mbps` is over the steady-state window
    (`per_flow.window_goodput_bps`).
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
    window_goodput_mbps: Number | None


class Sojourn(BaseModel):
    """Sojourn times, losses and marks of one sender's downlink packets in one phase and queue.

    `queue` is dualpi2's by codepoint, C for other queues. `packets` arrived at the router: `lost` of them did not leave
    it, `marked` left as CE, `late` after a later packet of their flow. In addition, `alike` packets are ambiguous and
    not matched. `negative` packets were faster than the path alone, which is impossible, by up to `-least_ms`. Times
    in ms, less the path's own; in percentiles, lost packets are infinitely late. For "qdisc": the queue's own delay,
    in `packets` samples.
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
    """The scores of a picture without a strip, see docs/scoring.md; times in s from the start.

    `place` is the video's on the screen (x, y, width, height in px), `heights` its effective resolution each second;
    `differing` are the seconds in which the player reported another one; `undecided` are the periods (t, length) that
    are either freezes or still scenes.
    """

    place: tuple[int, int, int, int]
    heights: list[int | None]
    differing: list[int]
    undecided: list[tuple[Number, Number]]


class TimeSeries(BaseModel):
    """One value per step; bin i covers t[i] to t[i] + step_s, in s from the start of the first phase.

    `ear_ms` is the median mouth-to-ear delay of the sound spoken in a bin that was heard, `ear_gap_s` the length of the
    gaps at the ear. `tick_late_ms` is the median lateness of a game's ticks sent in a bin that arrived, `…_latest_ms`
    the largest.
    """

    step_s: float
    t: list[Number]
    victim_mbps: list[Number] | None = None
    contender_mbps: list[Number] | None = None
    height: list[Number | None] | None = None
    fps: list[Number] | None = None
    stalled_s: list[Number] | None = None
    ear_ms: Annotated[list[Number | None] | None, _SOME] = None
    ear_gap_s: Annotated[list[Number] | None, _SOME] = None
    tick_late_ms: Annotated[list[Number | None] | None, _SOME] = None
    tick_latest_ms: Annotated[list[Number | None] | None, _SOME] = None
    input_latest_ms: Annotated[list[Number | None] | None, _SOME] = None


class Curve(BaseModel):
    """P(r > x): `percent[i]` of the probes took longer than `ms[i]`, including lost ones."""

    name: Text
    ms: list[Number]
    percent: list[Number]
    probes: int


class Jitter(BaseModel):
    """What the lab itself adds: RTT of the unshaped probe above the configured RTT, in ms."""

    p50: Number
    p99: Number
    max: Number


class Host(BaseModel):
    """The host during the timeline: cores in use of those there, and the longest scheduling stall."""

    cpu_cores_mean: Number
    cpu_cores_max: Number
    cores: int
    stall_worst_ms: Number


class LayerStep(BaseModel):
    """How a party's picture followed a step of the bottleneck's rate, to `mbps`, in the `seconds` until the next step.

    The next step is that in the same direction, or the end of the run. `first_drop_s` is the time from the step until
    the picture first lost lines, or the start of the first second that showed less than `sojourn.scoring.room.THINNED`
    of the frame rate before the step; None if it lost neither. `lowest_fps` is the frame rate of the worst second.

    A dip begins with a step down and ends with a step up. For a step up, `before_height` and `before_fps` are height
    and frame rate when the dip began (the latter over `sojourn.scoring.recovery.HELD_S`), and `recovery_s` is the time
    from the step until the picture had that height and at least `THINNED` of that frame rate again, and kept both for
    `sojourn.scoring.recovery.REGAINED_S` without a stall. It is infinite if the picture did not do so within `seconds`:
    the recovery took longer than `seconds` minus `REGAINED_S` (it is censored). All three are None for a step down.
    """

    t: Number
    direction: Literal["down", "up"]
    mbps: Number
    seconds: Number
    first_drop_s: Number | None
    lowest_height: int | None
    lowest_fps: Number | None = None
    before_height: int | None = None
    before_fps: Number | None = None
    recovery_s: Number | None = None


class PartyScores(BaseModel):
    """The picture of one party of a room: party 1 is the client, as the other end saw it; the client saw all others.

    `first_picture_s` is the time from when the client began to join to the first frame of the picture. `phases` have
    its figures alone; `victim_mbps` is the RTP payload received of it by its viewer, as the browser counts it. `harm`
    is that to this picture: of party 1 in the upward direction, of all others in the downward direction. `speaks` are
    the periods (s from the start) in which its viewer's page showed the party as an active speaker, `thinned` those in
    which every second showed less than `sojourn.scoring.room.THINNED` of the frame rate in the baseline.
    """

    party: int
    first_picture_s: Number | None
    phases: list[PhaseScores]
    harm: list[Harm] = []
    speaks: list[tuple[Number, Number]] = []
    renditions: list[RenditionChange]
    freezes: list[FreezeEntry]
    steps: list[LayerStep]
    thinned: Annotated[list[tuple[Number, Number]], Field(exclude_if=lambda thinned: not thinned)] = []


class PageLoad(BaseModel):
    """A load of a web page, from the start of its navigation at `t` (s from the start of the first phase).

    Times in ms as the browser reports them, None for what was not reached by the phase's end: first byte, first and
    largest contentful paint, DOMContentLoaded, load. `requests` and `bytes` are those of complete responses. `had_ms`
    is the time from `t` until the phase ended, the user left the page, or it had loaded. `errors` are resources that
    could not be used, `failed` why the page could not be loaded at all. `phase` is None if it began between two.
    """

    t: Number
    phase: Text | None
    page: int
    url: Text
    requests: int
    bytes: int
    ttfb_ms: Number | None = None
    fcp_ms: Number | None = None
    lcp_ms: Number | None = None
    dcl_ms: Number | None = None
    load_ms: Number | None = None
    had_ms: Number
    finished: bool
    errors: int = 0
    failed: Text | None = None


class HomeFigure(BaseModel):
    """A figure of a member of a home, and its harm by bulk flows, the `update`, alone and with all other members.

    `member` is "victim" or an application's name in a load. `alone` is the figure in `alone_phase`, without bulk flows
    and with the fewest other applications; the victim's is its baseline. `update_phase` and `all_phase` are the
    phases of the other two; None: the timeline has no such phase.
    """

    member: Text
    metric: Text
    better: Better
    update: Text
    alone_phase: Text
    alone: Number
    update_phase: Text | None
    with_update: Number | None
    update_harm: Number | None
    all_phase: Text | None
    with_all: Number | None
    all_harm: Number | None


class Scores(BaseModel):
    """scores.json. `harm` is empty for an invalid run, which has reasons instead."""

    schema_version: int = SCHEMA
    scorer: Text = SCORER
    t0: float  # Unix s of the start of the first phase; the zero of all other times
    lab: dict[str, Any]
    picture: Literal["strip", "blind", "player", "none"]  # of freezes; without a strip, heights are the player's
    primary: Text | None = Field(None, description="the metric by which this victim is judged")
    own_kind: Text | None = Field(None, description="the contender of the victim's own kind, if known")
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
        [],
        description='P(sojourn time > x) by phase and queue, "cubic C"; then "cubic C, as reported by the qdisc"',
    )
    frame_ccdf: list[Curve] = Field([], description="of a call: how long frames took, one a phase, then solo")
    sound_begins: Annotated[Number | None, _SOME] = Field(
        None, description="of a call: when sound.flac begins, s from the start of the first phase"
    )
    blind: Blind | None = Field(None, description="of a picture without a strip")
    far: list[PhaseScores] = Field([], description="of a call: what its other end saw, `victim_mbps` upwards")
    parties: Annotated[list[PartyScores], Field(exclude_if=lambda parties: not parties)] = Field(
        [], description="of a room: the picture of every party"
    )
    loads: Annotated[list[PageLoad], Field(exclude_if=lambda loads: not loads)] = Field(
        [], description="of web pages: every load"
    )
    home: Annotated[list[HomeFigure], Field(exclude_if=lambda home: not home)] = Field(
        [], description="of a victim with several applications next to it: the harm to each of them"
    )


def rate_steps(lab: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return times (s of the run) and values (bit/s) of the steps of the downlink rate, from the `lab` of scores."""
    steps = [step for step in lab.get("rate_steps") or () if step["direction"] == "down"]
    return [(float(step["t"]), float(step["rate_bps"])) for step in steps]
