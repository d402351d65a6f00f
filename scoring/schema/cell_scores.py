# SPDX-License-Identifier: Apache-2.0
"""scores.json of a matrix's cell: the types of the document, and the addresses of its figures.

Times are s of the cell, rates Mbit/s (decimal, payload), delays ms. A figure that does not apply to a run is omitted;
one that applies but is missing is null. A figure's address is its path over these fields
(`flows.0.d_ss_mbps`, `probes.1.p99_ms`), by which matrices name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isnan
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PlainSerializer, field_serializer, field_validator

from sojourn.scoring.schema.metric import Metric, metric_of, metrics_of
from sojourn.scoring.statistics.numbers import in_json

Figure = Annotated[float, PlainSerializer(in_json, return_type=float | str, when_used="json")]
"""A figure, rounded when it is computed; if infinite, it is text in JSON (`sojourn.scoring.statistics.numbers`)."""


class CellRecord(BaseModel):
    """A part of the document."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def document(self) -> dict[str, Any]:
        """Return JSON-ready data, without figures that do not apply."""
        return self.model_dump(mode="json", exclude_unset=True)


class FlowScores(CellRecord):
    """One bulk flow, by its number in the cell."""

    flow: int
    contender: str
    rtt_ms: float
    up: bool
    window_s: tuple[Figure, Figure] | None = None
    """Its steady-state window, from and to, where not all flows run at the same time (`CellScores.window_s`)."""
    d_ss_mbps: Annotated[Figure | None, Metric("D_SS")]
    """Mean of the sender's delivery rate in the steady-state window. If a flow of the same direction reports none
    (iperf3 in simulated time, programs, UDP), all of them have `window_goodput_mbps` here. Null if its
    window is empty, as of a flow that is no longer than what is cut off its end."""
    window_goodput_mbps: Annotated[Figure | None, Metric("goodput in the window")]
    """Payload that arrived in the steady-state window; null if it is empty."""
    goodput_mbps: Annotated[Figure, Metric("goodput of the whole flow")]
    """Mean of the whole flow, with slow start."""
    steady_start_s: Annotated[Figure, Metric("steady from", digits=0)]
    """Where the warm-up ends (`sojourn.scoring.transport.steady`)."""
    steady_mbps: Annotated[Figure, Metric("steady goodput")]
    """Goodput without the warm-up. A flow of less than 20 s is too short for the rule, and keeps its warm-up."""
    rtt_mean_ms: Annotated[Figure | None, Metric("TCP RTT, mean", "less")] = None
    """Of TCP's smoothed RTT over all samples."""
    rtt_max_ms: Annotated[Figure | None, Metric("TCP RTT, largest", "less", digits=1)] = None
    cwnd_mean: Annotated[Figure | None, Metric("congestion window, mean", digits=1)] = None
    """Segments, over the steady-state window."""
    retrans: Annotated[int | None, Metric("packets retransmitted", "less", digits=0)] = None
    """Packets."""
    retrans_share: Annotated[Figure | None, Metric("share retransmitted", "less", digits=4)] = None
    """Share of the packets sent; absent if the sender does not report deliveries."""
    ce_share: Annotated[Figure | None, Metric("share marked CE", digits=4)] = None
    """Of the packets delivered."""
    normalised: Annotated[Figure | None, Metric("goodput in the window over an equal share")] = None
    """Window goodput over an equal share of the bottleneck, of flows down."""
    normalised_window: Annotated[Figure | None, Metric("congestion window over an equal share")] = None
    """`cwnd_mean` over an equal share of capacity · path RTT (METRICS 5), of flows down."""


class Period(CellRecord):
    """A stretch of constant bottleneck rate, down."""

    start_s: Figure
    end_s: Figure
    rate_mbps: Annotated[Figure | None, Metric("rate of the bottleneck", measured=False, digits=1)]
    goodput_mbps: Annotated[Figure, Metric("goodput")]
    """Of the flows down, since the first of them began."""
    utilisation: Annotated[Figure | None, Metric("utilisation", "more", digits=3)] = None
    height_ms: Annotated[Figure | None, Metric("largest RTT above the path's", "less", digits=1)] = None
    """The spike of the first flow's TCP RTT after the rate changed; see `sojourn.scoring.transport.spikes`."""
    spike_s: Annotated[Figure | None, Metric("length of the spike", "less", digits=1)] = None
    spike_over: Annotated[bool | None, Metric("spike ended within the period", digits=0)] = None


class Ccdf(CellRecord):
    """P(delay > x): `percent[i]` of the packets took longer than `ms[i]`, lost ones among them."""

    ms: list[Figure]
    percent: list[Figure]


class DelayScores(CellRecord):
    """Delays of a probe's packets; a lost one is infinitely late."""

    sent: Annotated[int, Metric("packets sent", digits=0)]
    loss: Annotated[Figure | None, Metric("share lost", "less", digits=4)]
    p50_ms: Annotated[Figure | None, Metric("delay, P50", "less")] = None
    p90_ms: Annotated[Figure | None, Metric("delay, P90", "less")] = None
    p95_ms: Annotated[Figure | None, Metric("delay, P95", "less")] = None
    p99_ms: Annotated[Figure | None, Metric("delay, P99", "less")] = None
    p999_ms: Annotated[Figure | None, Metric("delay, P99.9", "less")] = None
    max_ms: Annotated[Figure | None, Metric("delay, largest", "less")] = None
    """Of the packets that arrived."""
    negative: Annotated[int | None, Metric("packets faster than the path", digits=0)] = None
    """Packets faster than the path, which is impossible: the clocks or the path delay are wrong."""
    ccdf: Ccdf | None = None
    """Of the delay that the queues add to the path's."""


class WhileFlow(CellRecord):
    """A probe's figures while a flow runs."""

    p95_ms: Annotated[Figure | None, Metric("delay, P95", "less")]
    loss: Annotated[Figure | None, Metric("share lost", "less", digits=4)]


class ProbeScores(DelayScores):
    """A probe of the cell over its whole length, and while each flow runs, by the flow's number."""

    probe: int
    ecn: str
    while_flow: list[WhileFlow]


class CallScores(CellRecord):
    """One direction of a call; delays if recorded, a lost packet is infinitely late."""

    mbps: Annotated[Figure, Metric("rate that arrived", "more")]
    """Payload that arrived."""
    loss: Annotated[Figure | None, Metric("share lost", "less", digits=4)] = None
    p50_ms: Annotated[Figure | None, Metric("delay, P50", "less")] = None
    p99_ms: Annotated[Figure | None, Metric("delay, P99", "less")] = None
    max_ms: Annotated[Figure | None, Metric("delay, largest", "less")] = None
    """Of the packets that arrived."""
    window_mbps: Annotated[Figure | None, Metric("rate that arrived in the window", "more")] = None
    """Payload that arrived in the steady-state window; this and the following between browsers only."""
    packet_bytes: Annotated[Figure | None, Metric("payload of a packet, mean", digits=0)] = None
    """Of the packets that arrived in the window: UDP payload, bytes."""
    ce_share: Annotated[Figure | None, Metric("share marked CE", "less", digits=4)] = None
    """Of the packets that arrived in the window."""
    available_min_mbps: Annotated[Figure | None, Metric("rate allowed, least", "more")] = None
    """The rate that the sender's congestion control allows (`availableOutgoingBitrate`), per second in the window."""
    available_max_mbps: Annotated[Figure | None, Metric("rate allowed, largest", "more")] = None
    ear_p50_ms: Annotated[Figure | None, Metric("mouth to ear, P50", "less")] = None
    """Of the sound spoken in the window, for the end that hears it; this and the following of a call with sound, see
    `sojourn.scoring.schema.scores.Metrics`."""
    ear_p95_ms: Annotated[Figure | None, Metric("mouth to ear, P95", "less")] = None
    ear_in_time: Annotated[Figure | None, Metric("sound heard within 0.4 s", "more", digits=4)] = None
    ear_loss: Annotated[Figure | None, Metric("sound never heard", "less", digits=4)] = None
    ear_gap_share: Annotated[Figure | None, Metric("gaps in the sound", "less", digits=4)] = None
    neteq_buffer_ms: Annotated[Figure | None, Metric("in NetEq's buffer, mean")] = None
    neteq_concealed_share: Annotated[Figure | None, Metric("samples concealed by NetEq", "less", digits=4)] = None
    r_factor: Annotated[Figure | None, Metric("E-model's R", "more", digits=1)] = None
    r_factor_wb: Annotated[Figure | None, Metric("wideband E-model's R", "more", digits=1)] = None


class MediaPhase(CellRecord):
    """What media gets alone or while a flow runs: a call down, or the video of a program. See
    `sojourn.scoring.media_phases`."""

    contender: str | None
    """Of the flow; null: alone."""
    window_s: tuple[Figure, Figure]
    """What is scored, from and to."""
    mbps: Annotated[Figure, Metric("rate that arrived", "more")]
    """Payload."""
    contender_mbps: Annotated[Figure | None, Metric("rate of the contender")] = None
    """Goodput."""
    loss: Annotated[Figure | None, Metric("share lost", "less", digits=4)]
    queue_p50_ms: Annotated[Figure | None, Metric("time in the queue, P50", "less")]
    """Of the media's packets in the bottleneck; a lost one is infinitely late."""
    queue_p99_ms: Annotated[Figure | None, Metric("time in the queue, P99", "less")]
    ce_share: Annotated[Figure | None, Metric("share marked CE", "less", digits=4)] = None
    """Of the packets that arrived; absent for a program."""
    frames: Annotated[int | None, Metric("frames captured", digits=0)] = None
    """By the camera of a call; this and the following are absent for a program."""
    frames_in_time: Annotated[Figure | None, Metric("frames delivered in time", "more", digits=3)] = None
    """Share of the captured frames that the other end's page has within 400 ms, decoded."""
    frame_p50_ms: Annotated[Figure | None, Metric("camera to page, P50", "less", digits=1)] = None
    """A frame that never arrives is infinitely late."""


class CompletionScores(CellRecord):
    """Completion times of short flows, s; an unfinished one is infinitely late."""

    count: Annotated[int, Metric("flows", digits=0)]
    unfinished: Annotated[int, Metric("not finished", "less", digits=0)]
    geometric_mean_s: Annotated[Figure | None, Metric("completion time, geometric mean", "less", digits=3)] = None
    median_s: Annotated[Figure | None, Metric("completion time, median", "less", digits=3)] = None
    p95_s: Annotated[Figure | None, Metric("completion time, P95", "less", digits=3)] = None


class WireScores(CellRecord):
    """The data down by its outer headers: flows with 1 % of all bytes or more, the largest IP packet, and the share of
    the packets by ECN field.
    """

    flows: Annotated[int, Metric("flows by outer headers", digits=0)]
    largest_bytes: Annotated[int | None, Metric("largest packet", digits=0)]
    not_ect: Annotated[Figure | None, Metric("share of Not-ECT", digits=4)] = None
    ect0: Annotated[Figure | None, Metric("share of ECT(0)", digits=4)] = None
    ect1: Annotated[Figure | None, Metric("share of ECT(1)", digits=4)] = None
    ce: Annotated[Figure | None, Metric("share of CE", digits=4)] = None


class ReplayScores(CellRecord):
    """Packets dropped by a tunnel's replay window, and the window that would have been large enough, in packets."""

    late: Annotated[int, Metric("packets dropped, down", "less", digits=0)]
    """Down: packets too old for the window."""
    late_up: Annotated[int, Metric("packets dropped, up", "less", digits=0)]
    late_share: Annotated[Figure, Metric("share of packets dropped, down", "less", digits=4)]
    """Share of all packets that arrived, down."""
    c_peak_ms: Annotated[Figure | None, Metric("longest queue delay, Not-ECT", "less")] = None
    """Longest queue delay of the Not-ECT probe; late packets are dropped, so a narrow window hides the longest."""
    l_peak_ms: Annotated[Figure | None, Metric("longest queue delay, ECT(1)", "less")] = None
    """The same for the ECT(1) probe."""
    needed: Annotated[Figure | None, Metric("window needed, packets", digits=0)] = None


class ProtectionScores(CellRecord):
    """Queue protection at the bottleneck, down: what it sent from the L queue to the C queue."""

    sanctioned: Annotated[int, Metric("packets sanctioned", digits=0)]
    sanctioned_flows: Annotated[int, Metric("flows sanctioned", digits=0)]
    """Flows with a sanctioned packet; one that comes back after another has taken its bucket counts again."""
    sanctioned_share: Annotated[Figure | None, Metric("share sanctioned", digits=4)]
    """Of the packets for L."""
    window_sanctioned_share: Annotated[Figure | None, Metric("share sanctioned in the window", digits=4)]
    """The same in the steady-state window."""


class PacketScores(CellRecord):
    """Single packets at the end of the path, by Pantheon's definitions; null if none arrived."""

    packets: Annotated[int, Metric("packets sent", digits=0)]
    """Sent."""
    egress_mbps: Annotated[Figure | None, Metric("egress")]
    p95_owd_ms: Annotated[Figure | None, Metric("one-way delay, P95", "less")]
    loss: Annotated[Figure | None, Metric("share of bytes lost", "less", digits=4)]
    """Share of the bytes."""
    series: list[Figure]
    """Egress in each bin of `sojourn.scoring.transport.single_packets.BIN_S`."""


class PacketsScores(CellRecord):
    """Each flow's packets, and all together."""

    flows: list[PacketScores]
    total: PacketScores


class CellScores(CellRecord):
    """All scores of one run of a cell."""

    window_s: tuple[Figure, Figure]
    """The steady-state window of all flows, from and to; empty (two equal times) if they do not run at the same time.

    Then every flow has its own `window_s`, and the figures of several flows are absent: `jain` to `convergence_s` of a
    direction whose flows have different or empty windows, `utilisation`, and the flows' `normalised`."""
    flows: list[FlowScores]
    jain: Annotated[Figure | None, Metric("Jain's index of D_SS", digits=3)] = None
    """Jain's index of D_SS of the downlink flows, if there are at least two, and they run at the same time."""
    jain_whole: Annotated[Figure | None, Metric("Jain's index of whole flows", digits=3)] = None
    """Of `goodput_mbps`."""
    ratio: Annotated[Figure | None, Metric("D_SS of flow 1 over flow 2")] = None
    """D_SS of the first over that of the second of two flows down."""
    inverse_ratio: Annotated[Figure | None, Metric("D_SS of flow 2 over flow 1")] = None
    """The second over the first."""
    convergence_s: Annotated[Figure | None, Metric("convergence", digits=1)] = None
    """`sojourn.scoring.transport.rates.convergence_s` of the flows down."""
    up_jain: Annotated[Figure | None, Metric("Jain's index of D_SS, up", digits=3)] = None
    """This field and the next: the same figures for uplink flows."""
    up_jain_whole: Annotated[Figure | None, Metric("Jain's index of whole flows, up", digits=3)] = None
    up_ratio: Annotated[Figure | None, Metric("D_SS of flow 1 over flow 2, up")] = None
    up_inverse_ratio: Annotated[Figure | None, Metric("D_SS of flow 2 over flow 1, up")] = None
    up_convergence_s: Annotated[Figure | None, Metric("convergence, up", digits=1)] = None
    periods: list[Period]
    utilisation: Annotated[Figure | None, Metric("utilisation", "more", digits=3)] = None
    """The downlink bulk flows' share of what a full link would carry, in the steady-state window."""
    last: FlowScores | None
    """The last flow; an empty object where there is none."""
    probes: list[ProbeScores] | None = None
    call: list[CallScores] | None = None
    """Down, up."""
    media: list[MediaPhase] | None = None
    """Media that is alone first: alone, then with each flow."""
    packets: PacketsScores | None = None
    short: CompletionScores | None = None
    wire: WireScores | None = None
    """The downlink data at the bottleneck."""
    replay: ReplayScores | None = None
    protection: ProtectionScores | None = None
    active_queues: Annotated[int | float | None, Metric("flow queues in use, median", digits=1)] = None
    """Flow queues in use at the same time, down: median of the samples."""

    @field_serializer("last")
    def _nothing_is_empty(self, last: FlowScores | None) -> dict[str, Any]:
        return last.document() if last else {}

    @field_validator("last", mode="before")
    @classmethod
    def _empty_is_nothing(cls, last: Any) -> Any:
        return last or None


def figures_of(document: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the addresses and values of the measured figures in the document of a cell's run; none of what is null."""
    yield from _figures(CellScores, document, "")


def _figures(model: type[CellRecord], node: Mapping[str, Any], path: str) -> Iterator[tuple[str, float]]:
    parts = _parts(model)
    for name, field in model.model_fields.items():
        value, metric = node.get(name), metric_of(field)
        if metric and metric.measured:
            if isinstance(value, int | float) and not isinstance(value, bool) and not isnan(value):
                yield path + name, float(value)
            elif value == "Infinity":
                yield path + name, inf
        elif name in parts:
            inner, listed = parts[name]
            for n, part in enumerate(value if listed and isinstance(value, list) else [] if listed else [value]):
                if isinstance(part, Mapping):
                    yield from _figures(inner, part, f"{path}{name}.{n}." if listed else f"{path}{name}.")


def declared(address: str) -> tuple[str, Metric] | None:
    """Return the label of the figure at an address, with the number of its flow, probe or period from 1, and what its
    field declares; None if no such figure is declared.
    """
    model: type[CellRecord] = CellScores
    whose: list[str] = []
    *steps, last = address.split(".")
    path = iter(steps)
    for step in path:
        if step not in (parts := _parts(model)):
            return None
        model, listed = parts[step]
        number = next(path, "") if listed else "0"
        if not number.isdigit():
            return None
        name = step.replace("_", " ")
        whose.append(f"{name.removesuffix('s')} {int(number) + 1}" if listed else name)
    metric = metrics_of(model).get(last)
    return (", ".join([*whose, metric.label]), metric) if metric else None


def _parts(model: type[CellRecord]) -> dict[str, tuple[type[CellRecord], bool]]:
    """Return the records in a record by field, and whether it is a list of them; `last` repeats one of `flows`."""
    parts: dict[str, tuple[type[CellRecord], bool]] = {}
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        lists = [kind for kind in kinds if get_origin(kind) is list]
        for kind in (*kinds, *(inner for given in lists for inner in get_args(given))):
            if name != "last" and isinstance(kind, type) and issubclass(kind, CellRecord):
                parts[name] = kind, bool(lists)
    return parts
