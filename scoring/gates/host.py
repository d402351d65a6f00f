# SPDX-License-Identifier: Apache-2.0
"""The host of a real-time lab: recorded, awake, and on time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.scoring.gates.base import at_most, covers, gate, gate_of_runs
from sojourn.scoring.validity import Gate, Limits

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


#: What a run fails if its programs do not get the processors in time.
_BY_A_BUSY_HOST = frozenset({
    "host-stalls", "recorder-frames-missing", "recording-complete", "player-samples-complete", "strip-unread",
    "first-solo-phase", "solo-baseline", "lab-jitter", "capture-drops",
})  # fmt: skip
_UNKNOWN = "not recorded"


@gate_of_runs("host-samples-complete", "host-suspended", "wall-clock-stepped", "host-stalls")
def host(run: RunEvidence) -> Iterable[Gate]:
    """Judge runs in real time only: in simulated time no host is late."""
    if not run.setting.real_time:
        return
    (start, end), watch = run.setting.span, run.host_watch
    yield covers("host-samples-complete", "host samples", [s["t"] for s in watch], run.setting.span, run.limits)
    # A phase ends by the wall clock, which has advanced when a suspended host wakes.
    yield from host_awake([s for s in watch if start <= s["t"] <= end + 2], run.limits)
    yield host_stalls([s["stall_ms"] for s in run.host_in_timeline], run.limits)


def host_stalls(stalls_ms: Sequence[float], limits: Limits) -> Gate:
    """Only a few seconds may contain a host stall over the limit, and none a very long one.

    A watcher with normal priority is occasionally late on a healthy host; only lateness that lasts or that a
    viewer could see spoils a run.
    """
    limit = (
        f"over {limits.stall_ms:g} ms in at most {limits.stall_share:.0%} of seconds, "
        f"never over {limits.stall_worst_ms:g} ms"
    )
    if not stalls_ms:
        return gate("host-stalls", "host stalls", False, _UNKNOWN, limit)
    bad, worst = sum(s > limits.stall_ms for s in stalls_ms), max(stalls_ms)
    ok = bad <= limits.stall_share * len(stalls_ms) and worst <= limits.stall_worst_ms
    measured = f"{bad} of {len(stalls_ms)} seconds, worst {worst:.1f} ms"
    return gate("host-stalls", "host stalls", ok, measured, limit)


def with_cause(gates: Sequence[Gate], share: float | None, remedy: str, limits: Limits) -> list[Gate]:
    """Return the gates; if a busy host made the run invalid, the first reason begins with that, and with the remedy.

    The host was busy if a run got less than the limit's `share` of the processor time that it could use, or if it was
    stalled.
    """
    failed = [n for n, it in enumerate(gates) if not it.ok and it.code in _BY_A_BUSY_HOST]
    busy = share is not None and share < limits.processor_share
    stalled = any(gates[n].code == "host-stalls" and gates[n].measured != _UNKNOWN for n in failed)
    if not failed or not (busy or stalled):
        return list(gates)
    left = f": other programs left this run {share:.0%} of the processor time that it could use" if busy else ""
    first = gates[failed[0]]
    reason = f"the host was busy{left}; {remedy} ({first.reason})"
    return [it.model_copy(update={"reason": reason}) if it is first else it for it in gates]


def host_awake(samples: Sequence[Mapping[str, Any]], limits: Limits) -> list[Gate]:
    """The host was not suspended and its clock was not set; no gates for runs older than these records."""
    slept, steps = ([s[key] for s in samples if key in s] for key in ("suspended_ms", "clock_step_ms"))
    if not slept or not steps:
        return []
    step = max(map(abs, steps))
    return [
        at_most("host-suspended", "host suspended", sum(slept), limits.suspended_ms, "s", 1e-3),
        at_most("wall-clock-stepped", "wall clock stepped", step, limits.clock_step_ms, "s", 1e-3),
    ]
