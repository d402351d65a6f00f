# SPDX-License-Identifier: Apache-2.0
"""The clocks of captures on two machines, and of a physical router."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import at_most, gate, gate_of_runs
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.validity import Gate, Limits

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence

#: For how long before the end of the last phase the router's clock may not have been sampled, s.
_UNSAMPLED_S = 5.0


@gate_of_runs("capture-clocks")
def kept_together(run: RunEvidence) -> Iterable[Gate]:
    """Judge runs with a black box between the captures, and those with captures on two machines."""
    if run.setting.box or "tap_clocks" in run.setting.lab:
        yield tap_clocks(run.setting.lab.get("tap_clocks", ()), run.limits)


@gate_of_runs("router-clock")
def steady(run: RunEvidence) -> Iterable[Gate]:
    """Judge runs with a physical router, whose clock is sampled."""
    if run.router_clock:
        yield router_clock(run.router_clock, run.setting.span, run.limits)


def router_clock(samples: Sequence[Mapping[str, float]], span: Window, limits: Limits) -> Gate:
    """The router's clock was not set during `span`: its captures are aligned with the phases by one offset."""
    code, name, times = "router-clock", "router clock moved", [sample["t"] for sample in samples]
    if times[0] > span[0] or times[-1] < span[1] - _UNSAMPLED_S:
        measured = f"sampled from {times[0] - span[0]:+.0f} s to {times[-1] - span[1]:+.0f} s"
        return gate(code, name, False, measured, "sampled from the first phase to the end of the last")
    ahead_s = [sample["offset_s"] for sample in samples]
    return at_most(code, name, max(ahead_s) - min(ahead_s), limits.router_clock_s, "s")


def tap_clocks(clocks: Sequence[Mapping[str, Mapping[str, float]]], limits: Limits) -> Gate:
    """The clocks of both captures did not drift apart: drift looks like a queue, a constant offset does not.

    `clocks` has the offset of every end's clock to this host's, `seconds` ± `error`, at the start and at the end.
    """
    return _drifted("capture-clocks", "clocks of both captures", clocks, limits)


def probe_clock(offsets: Sequence[Mapping[str, float]], limits: Limits) -> Gate:
    """The clock of the probes' server, on another machine, did not drift: one-way delays are corrected by one offset.

    `offsets` are those of its clock to this host's, `seconds` ± `error`, at the start and at the end.
    """
    here = {"seconds": 0.0, "error": 0.0}
    clocks = [{"client": here, "server": offset} for offset in offsets]
    return _drifted("probe-clock", "clock of the probes' server", clocks, limits)


def _drifted(code: str, name: str, clocks: Sequence[Mapping[str, Mapping[str, float]]], limits: Limits) -> Gate:
    limit = f"drifted by at most {limits.tap_clocks_ms:g} ms, error included"
    if len(clocks) < 2:
        return gate(code, name, False, "not measured at start and end", limit)
    apart = [each["server"]["seconds"] - each["client"]["seconds"] for each in clocks]
    error = 1e3 * sum(clock["error"] for each in clocks for clock in (each["client"], each["server"]))
    drift = 1e3 * (max(apart) - min(apart))
    measured = f"drifted by {drift:.2f} ms, give or take {error:.2f} ms"
    return gate(code, name, drift + error <= limits.tap_clocks_ms, measured, limit)
