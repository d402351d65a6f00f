# SPDX-License-Identifier: Apache-2.0
"""The latency probes: every probe sampled the queue throughout, with its codepoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import polars as pl

from sojourn.scoring.gates.base import covers, gate_of_runs
from sojourn.scoring.gates.marking import ecn_fields, marked
from sojourn.scoring.packets import per_flow
from sojourn.scoring.packets.pcapng import UDP
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("probe-complete")
def complete(run: RunEvidence) -> Iterable[Gate]:
    """Every probe spans the timeline."""
    for probe in run.probes:
        times = None if probe.sent is None else probe.sent["t"]
        yield covers("probe-complete", probe.name, times, run.setting.span, run.limits)


@gate_of_runs("probe-marked")
def codepoints(run: RunEvidence) -> Iterable[Gate]:
    """Both ends' packets carry the probe's codepoint before they pass the bottleneck."""
    addresses, span = run.setting.lab.get("addresses", {}), run.setting.span  # missing in old runs
    for probe in run.probes:
        if probe.port is None:
            continue
        for end, side, here in (("client", run.behind, "dport"), ("server", run.before, "sport")):
            own = side and side.all.filter(
                per_flow.is_at("src", addresses[end]), pl.col("proto") == UDP, pl.col(here) == probe.port
            )
            yield marked("probe-marked", probe.name, end, ecn_fields(own, span), probe.codepoint, run.limits)
