# SPDX-License-Identifier: Apache-2.0
"""The router's queues are the requested ones throughout, and nothing is lost outside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.scoring.gates.base import covers, gate, gate_of_runs
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence

#: The parameters that tc shows unchanged in packets, flows or bytes.
_SIZES = ("flows", "limit")


@gate_of_runs("qdisc-samples-complete", "qdisc-read-back", "router-read-back-at-end", "router-kernel", "router-drops")
def queues(run: RunEvidence) -> Iterable[Gate]:
    """Judge the queues of a router; the queues of a black box are unknown."""
    if run.setting.box:
        return
    lab, (start, end) = run.setting.lab, run.setting.span
    requested: dict[Literal["lan", "wan"], str] = {"lan": lab["qdisc_down"], "wan": lab["qdisc_up"]}
    for side, queue in requested.items():
        device, seen = run.setting.device(side), run.queues_of(side)
        times, name = [s["t"] for s in seen], f"qdisc samples of {device}"
        yield covers("qdisc-samples-complete", name, times, run.setting.span, run.limits)
        yield read_back(device, queue, (s["qdiscs"] for s in seen if start <= s["t"] <= end))
    if "verified_at_end" in lab:
        yield verified_at_end(lab["verified_at_end"])
    yield from on_router(lab)


def read_back(dev: str, requested: str, samples: Iterable[Sequence[Mapping[str, Any]]]) -> Gate:
    """Every sample of `tc -s -j qdisc show` must have the requested kind, with the requested flows and limit.

    All other parameters are compared once, when the router is set up; this check shows that nothing changed.
    """
    kind, *words = parse_qdisc(requested).tc_args()
    sizes = {key: int(value) for key, value in pairwise(words) if key in _SIZES and value.isdigit()}
    count, wrong = 0, ""
    for qdiscs in samples:
        count += 1
        # The shaper may have a second queue of the same kind, for the unshaped probe.
        settings = [q.get("options", {}) for q in qdiscs if q.get("kind") == kind]
        if not any(all(options.get(key, value) == value for key, value in sizes.items()) for options in settings):
            shown = [{key: options.get(key) for key in sizes} for options in settings]
            others = ", ".join(str(q.get("kind")) for q in qdiscs) or "nothing"
            wrong = wrong or (f"{kind} {shown}" if settings else f"no {kind} among {others}")
    measured = wrong or (f"equal in {count} samples" if count else "not sampled")
    return gate("qdisc-read-back", f"qdisc of {dev}", not wrong and count > 0, measured, requested)


def verified_at_end(verdict: bool | str) -> Gate:
    """The router's queues, read back again after the run: true, false, or the differences."""
    measured = verdict if isinstance(verdict, str) else "equal" if verdict else "different"
    code, name = "router-read-back-at-end", "router read back at the end"
    return gate(code, name, verdict is True, measured, "as it was set up")


def on_router(lab: Mapping[str, Any]) -> Iterable[Gate]:
    """What a router on another machine counted, where it could: `router_kernel` and `router_drops` of lab.json."""
    if "router_kernel" in lab:
        yield sound_kernel(lab["router_kernel"])
    if "router_drops" in lab:
        yield no_drops(lab["router_drops"])


def sound_kernel(verdict: bool | str) -> Gate:
    """The router's kernel did not warn of itself during the run: true, or its last warning."""
    measured = "none" if verdict is True else str(verdict)
    return gate("router-kernel", "warnings of the router's kernel", verdict is True, measured, "none")


def no_drops(lost: Mapping[str, int]) -> Gate:
    """A physical router's network cards and processors lost no packet: its queue is the bottleneck."""
    measured = ", ".join(f"{where} {count}" for where, count in lost.items()) or "0 packets"
    return gate("router-drops", "lost outside the router's queue", not lost, measured, "0 packets")
