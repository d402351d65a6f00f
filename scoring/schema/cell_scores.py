# SPDX-License-Identifier: Apache-2.0
"""scores.json of a matrix's cell: the types of the document, and the addresses of its figures.

Times are s of the cell, rates Mbit/s (decimal, payload), delays ms. A figure that does not apply to a run is omitted;
one that applies but is missing is null. A figure's address is its path over these fields
(`flows.0.d_ss_mbps`, `probes.1.p99_ms`), by which matrices name it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainSerializer, field_serializer, field_validator

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
    d_ss_mbps: Figure | None
    """Mean of the sender's delivery rate in the steady-state window. If a flow of the same direction reports none
    (iperf3 in simulated time, programs, UDP), all of them have `window_goodput_mbps` here."""
    window_goodput_mbps: Figure
    """Payload that arrived in the steady-state window."""
    goodput_mbps: Figure
    """Mean of the whole flow, with slow start."""
    steady_start_s: Figure
    """Where the warm-up ends (`sojourn.scoring.transport.steady`)."""
    steady_mbps: Figure
    """Goodput without the warm-up."""
    rtt_mean_ms: Figure | None = None
    """Of TCP's smoothed RTT over all samples."""
    rtt_max_ms: Figure | None = None
    cwnd_mean: Figure | None = None
    """Segments, over the steady-state window."""
    retrans: int | None = None
    """Packets."""
    retrans_share: Figure | None = None
    """Share of the packets sent; absent if the sender does not report deliveries."""
    ce_share: Figure | None = None
    """Of the packets delivered."""
    normalised: Figure | None = None
    """Window goodput over an equal share of the bottleneck, of flows down."""
    normalised_window: Figure | None = None
    """`cwnd_mean` over an equal share of capacity · path RTT (METRICS 5), of flows down."""


class Period(CellRecord):
    """A stretch of constant bottleneck rate, down."""

    start_s: Figure
    end_s: Figure
    rate_mbps: Figure | None
    goodput_mbps: Figure
    """Of the flows down, since the first of them began."""
    utilisation: Figure | None = None
    height_ms: Figure | None = None
    """The spike of the first flow's TCP RTT after the rate changed; see `sojourn.scoring.transport.spikes`."""
    spike_s: Figure | None = None
    spike_over: bool | None = None


class Ccdf(CellRecord):
    """P(delay > x): `percent[i]` of the packets took longer than `ms[i]`, lost ones among them."""

    ms: list[Figure]
    percent: list[Figure]


class DelayScores(CellRecord):
    """Delays of a probe's packets; a lost one is infinitely late."""

    sent: int
    loss: Figure | None
    p50_ms: Figure | None = None
    p90_ms: Figure | None = None
    p95_ms: Figure | None = None
    p99_ms: Figure | None = None
    p999_ms: Figure | None = None
    max_ms: Figure | None = None
    """Of the packets that arrived."""
    negative: int | None = None
    """Packets faster than the path, which is impossible: the clocks or the path delay are wrong."""
    ccdf: Ccdf | None = None
    """Of the delay that the queues add to the path's."""


class WhileFlow(CellRecord):
    """A probe's figures while a flow runs."""

    p95_ms: Figure | None
    loss: Figure | None


class ProbeScores(DelayScores):
    """A probe of the cell over its whole length, and while each flow runs, by the flow's number."""

    probe: int
    ecn: str
    while_flow: list[WhileFlow]


class CallScores(CellRecord):
    """One direction of a call; delays if recorded, a lost packet is infinitely late."""

    mbps: Figure
    """Payload that arrived."""
    loss: Figure | None = None
    p50_ms: Figure | None = None
    p99_ms: Figure | None = None
    max_ms: Figure | None = None
    """Of the packets that arrived."""


class CompletionScores(CellRecord):
    """Completion times of short flows, s; an unfinished one is infinitely late."""

    count: int
    unfinished: int
    geometric_mean_s: Figure | None = None
    median_s: Figure | None = None
    p95_s: Figure | None = None


class WireScores(CellRecord):
    """The data down by its outer headers: flows with 1 % of all bytes or more, the largest IP packet, and the share of
    the packets by ECN field.
    """

    flows: int
    largest_bytes: int | None
    not_ect: Figure | None = None
    ect0: Figure | None = None
    ect1: Figure | None = None
    ce: Figure | None = None


class ReplayScores(CellRecord):
    """Packets dropped by a tunnel's replay window, and the window that would have been large enough, in packets."""

    late: int
    """Down: packets too old for the window."""
    late_up: int
    late_share: Figure
    """Share of all packets that arrived, down."""
    c_peak_ms: Figure | None = None
    """Longest queue delay of the Not-ECT probe; late packets are dropped, so a narrow window hides the longest."""
    l_peak_ms: Figure | None = None
    """The same for the ECT(1) probe."""
    needed: Figure | None = None


class PacketScores(CellRecord):
    """Single packets at the end of the path, by Pantheon's definitions; null if none arrived."""

    packets: int
    """Sent."""
    egress_mbps: Figure | None
    p95_owd_ms: Figure | None
    loss: Figure | None
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
    """The steady-state window, from and to."""
    flows: list[FlowScores]
    jain: Figure | None = None
    """Jain's index of D_SS of the downlink flows, if there are at least two."""
    jain_whole: Figure | None = None
    """Of `goodput_mbps`."""
    ratio: Figure | None = None
    """D_SS of the first over that of the second of two flows down."""
    inverse_ratio: Figure | None = None
    """The second over the first."""
    convergence_s: Figure | None = None
    """`sojourn.scoring.transport.rates.convergence_s` of the flows down."""
    up_jain: Figure | None = None
    """This field and the next: the same figures for uplink flows."""
    up_jain_whole: Figure | None = None
    up_ratio: Figure | None = None
    up_inverse_ratio: Figure | None = None
    up_convergence_s: Figure | None = None
    periods: list[Period]
    utilisation: Figure | None = None
    """The flows' share of the bottleneck in the steady-state window."""
    last: FlowScores | None
    """The last flow; an empty object where there is none."""
    probes: list[ProbeScores] | None = None
    call: list[CallScores] | None = None
    """Down, up."""
    packets: PacketsScores | None = None
    short: CompletionScores | None = None
    wire: WireScores | None = None
    """The downlink data at the bottleneck."""
    replay: ReplayScores | None = None
    active_queues: int | float | None = None
    """Flow queues in use at the same time, down: median of the samples."""

    @field_serializer("last")
    def _nothing_is_empty(self, last: FlowScores | None) -> dict[str, Any]:
        return last.document() if last else {}

    @field_validator("last", mode="before")
    @classmethod
    def _empty_is_nothing(cls, last: Any) -> Any:
        return last or None
