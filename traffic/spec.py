# SPDX-License-Identifier: Apache-2.0
"""What a run sends, as data: bulk flows, short flows, probes, a call. Times in s, rates in bit/s, delays in µs."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sojourn.traffic import ports, recorded_call
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.irtt import Codepoint
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.user_program import is_user_program
from sojourn.traffic.web import P5_BYTES, P95_BYTES


class Specified(BaseModel):
    """A part of a specification: frozen, without unknown fields."""

    # A copy with other fields is checked where it becomes part of a cell, a cell where it becomes part of a matrix.
    model_config = ConfigDict(frozen=True, extra="forbid", revalidate_instances="always")


UNRESPONSIVE: dict[str, Codepoint] = {"udp": "not-ect", "udp-ect1": "ect1", "udp-nqb": "nqb"}
"""Contenders that send UDP packets at a fixed rate regardless of loss, and their codepoint.

The packets have 1500 bytes, in a tunnel as many as it carries whole."""


class Flow(Specified):
    """One bulk flow, from the server side to the client side (`up`: the other way). Times in s."""

    contender: str
    """A name of `sojourn.traffic.contender.CONTENDERS`, `sojourn.traffic.program.PROGRAMS` or `UNRESPONSIVE`, or of a
    user's program (`sojourn.traffic.user_program`)."""
    rate_bps: int | None = Field(default=None, ge=10_000, le=10_000_000_000)
    """For unresponsive flows only: bit/s of frames, as the bottleneck counts them. The gaps between packets are
    those of full frames: in a tunnel whose outer packets are smaller, the rate is up to 5 % lower."""
    rtt_us: int = Field(ge=0, le=4_000_000)
    """Round-trip delay of its path, half each way, µs; flows with the same rtt share a host."""
    start_s: float = Field(default=0, ge=0)
    stop_s: float | None = Field(default=None, gt=0)
    """Default: the end of the cell."""
    up: bool = False
    from_port: int | None = Field(default=None, ge=ports.FIRST_SENDER, le=ports.LAST_SENDER)
    """Its sender's TCP port, which determines the queue that a hash assigns; default: the next of those ports."""
    pacing_bps: int | None = Field(default=None, ge=10_000, le=10_000_000_000)
    """The sender's maximum rate, bit/s (SO_MAX_PACING_RATE): paced packets are not in bursts."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        own = is_user_program(self.contender)
        if not (own or any(self.contender in known for known in (CONTENDERS, PROGRAMS, UNRESPONSIVE))):
            known = (*CONTENDERS, *PROGRAMS, *UNRESPONSIVE)
            raise ValueError(f"unknown contender {self.contender!r}; known: {', '.join(known)}")
        if (self.rate_bps is not None) != (self.contender in UNRESPONSIVE):
            raise ValueError(f"{self.contender}: {', '.join(UNRESPONSIVE)} need rate_bps, others take none")
        if self.up and not own and self.contender not in CONTENDERS:
            raise ValueError(f"{self.contender}: flows down only")
        if self.pacing_bps and self.contender not in CONTENDERS:
            raise ValueError(f"{self.contender}: pacing_bps is for the kernel's TCP only")
        if self.stop_s is not None and self.stop_s <= self.start_s:
            raise ValueError(f"a flow cannot stop at {self.stop_s:g} s when it starts at {self.start_s:g} s")
        return self


class ShortFlows(Specified):
    """Flows of lognormal length that arrive at random, each fetched by a separate connection.

    The metric is their completion time: from the client's SYN, through its request, to the last byte.
    """

    contender: str = "cubic"
    """A name of `sojourn.traffic.contender.CONTENDERS`."""
    rtt_us: int = Field(ge=0, le=4_000_000)
    start_s: float = Field(default=0, ge=0)
    count: int = Field(default=900, ge=1)
    mean_gap_s: float = Field(default=0.2, gt=0)
    """Mean of the exponential time between arrivals, s."""
    p5_bytes: int = P5_BYTES
    p95_bytes: int = P95_BYTES
    remember_ssthresh: bool = False
    """Whether a flow starts with the slow start threshold that an earlier one left in the server's route metrics, as
    Linux did until 5.6 and still does with `net.ipv4.tcp_no_ssthresh_metrics_save=0`."""

    @field_validator("contender")
    @classmethod
    def _known(cls, contender: str) -> str:
        if contender not in CONTENDERS:
            raise ValueError(f"short flows are TCP: unknown contender {contender!r}; known: {', '.join(CONTENDERS)}")
        return contender


class Probe(Specified):
    """Small UDP packets at a fixed interval whose delays sample the queue; one way down, one clock makes them exact."""

    interval_s: float = Field(default=0.01, gt=0)
    ecn: Codepoint = "not-ect"
    rtt_us: int = Field(ge=0, le=4_000_000)
    round_trip: bool = False
    """Whether the delay is the round trip, through the queues of both directions."""


class Call(Specified):
    """A video call between two browsers that lasts as long as the cell, both ways between the two ends.

    In a cell that no real-time lab can run, a talker each way sends frames at the bit rate regardless of loss.
    """

    bitrate_bps: int = Field(default=1_790_000, ge=10_000, le=20_000_000)
    """Bit rate of the video, each way."""
    ecn: Literal["not-ect", "ect1", "nqb"] = "not-ect"
    """ect1: in dualpi2 the L queue. nqb: DSCP 45, by talkers only."""
    cc: Literal["gcc", "scream"] = Field(default="gcc", exclude_if=lambda cc: cc == "gcc")
    """Congestion control of both browsers. scream sends media as ECT(1), whatever `ecn` is."""
    trial: str = Field(default="", exclude_if=lambda trial: not trial, pattern=r"^([A-Za-z0-9]+:[A-Za-z0-9.]+(,|$))*$")
    """Parameters of Chromium's field trial of scream, as `VirtualRtt:50ms,MinRefWindow:3000`; empty: its defaults."""
    sound: bool = Field(default=False, exclude_if=lambda sound: not sound)
    """Both ends speak numbered tones, and what each hears is measured; between browsers in simulated time."""
    rtt_us: int = Field(ge=0, le=4_000_000)

    @model_validator(mode="after")
    def _answers_marks(self) -> Self:
        if self.cc == "scream" and self.ecn != "not-ect":
            raise ValueError(f"ecn={self.ecn!r}: marks packets of a GCC call; scream marks its own")
        if self.trial and self.cc != "scream":
            raise ValueError("trial: needs cc='scream'")
        return self


class RecordedCall(Call):
    """A published Skype call (`sojourn.traffic.recorded_call`) instead of one between browsers, in simulated time."""

    recorded: Literal["skype"] = "skype"
    bitrate_bps: int = Field(default=recorded_call.BITRATE_BPS, ge=10_000, le=20_000_000)
    """Both ways together, with IPv4 headers, as published; the default is the recording's. At another rate, the
    recording is replayed faster or slower, and its bursts keep their size."""
    ecn_above_bytes: int = Field(default=0, ge=0, le=1500)
    """Only packets with more bytes than this, IP header included, have the codepoint; the others are Not-ECT."""

    @model_validator(mode="after")
    def _is_replayed(self) -> Self:
        if self.cc != "gcc":
            raise ValueError("cc: a recorded call has no congestion control")
        if self.sound:
            raise ValueError("sound: a recorded call has none")
        return self
