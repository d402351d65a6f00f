# SPDX-License-Identifier: Apache-2.0
"""The captures of both sides: the whole timeline, both directions, every packet, none larger than the link's MTU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import covers, gate, gate_of_runs
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence

MTU = 1500


@gate_of_runs("capture-complete")
def complete(run: RunEvidence) -> Iterable[Gate]:
    """Both captures span the timeline; an unreadable capture fails as a file."""
    for side, capture in run.captures.items():
        times = None if capture is None else capture.packets.all["t_ns"].to_numpy() / 1e9
        yield covers("capture-complete", f"{side} capture", times, run.setting.span, run.limits)


@gate_of_runs("capture-both-ways")
def two_ways(run: RunEvidence) -> Iterable[Gate]:
    """Both captures saw both directions."""
    for side, capture in run.captures.items():
        if capture is not None:
            yield both_ways(side, capture.down, capture.up)


@gate_of_runs("capture-drops")
def drops(run: RunEvidence) -> Iterable[Gate]:
    """Neither capture lost a packet."""
    for side, capture in run.captures.items():
        if capture is not None:
            yield capture_drops(side, capture.dropped)


@gate_of_runs("offloads-off")
def sizes(run: RunEvidence) -> Iterable[Gate]:
    """Judge runs in which both captures are complete."""
    if run.behind and run.before:
        yield offloads(max(run.behind.largest, run.before.largest))


def capture_drops(name: str, dropped: int | None) -> Gate:
    """No packets lost by the capture; a capture without a count fails."""
    measured = "no count" if dropped is None else f"{dropped} packets"
    return gate("capture-drops", f"{name} capture drops", dropped == 0, measured, "0 packets")


def both_ways(name: str, down: int, up: int) -> Gate:
    """A capture must hold packets to and from the near side: every flow has replies."""
    measured = f"{down} packets down, {up} up"
    return gate("capture-both-ways", f"{name} capture both ways", down > 0 and up > 0, measured, "packets of both")


def offloads(largest: int) -> Gate:
    """No captured packet may exceed the link's MTU: segmentation offload would hide the queue."""
    measured = f"largest IP packet {largest} bytes"
    return gate("offloads-off", "offloads off", largest <= MTU, measured, f"at most {MTU} bytes")
