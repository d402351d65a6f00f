# SPDX-License-Identifier: Apache-2.0
"""The clocks of the two captures around a black box."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import gate, gate_of_runs
from sojourn.scoring.validity import Gate, Limits

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("capture-clocks")
def kept_together(run: RunEvidence) -> Iterable[Gate]:
    """Judge runs with a black box between the captures."""
    if run.setting.box:
        yield tap_clocks(run.setting.lab.get("tap_clocks", ()), run.limits)


def tap_clocks(clocks: Sequence[Mapping[str, Mapping[str, float]]], limits: Limits) -> Gate:
    """The clocks of both captures did not drift apart: drift looks like a queue, a constant offset does not.

    `clocks` has the offset of every end's clock to this host's, `seconds` ± `error`, at the start and at the end.
    """
    code, name = "capture-clocks", "clocks of both captures"
    limit = f"drifted by at most {limits.tap_clocks_ms:g} ms, error included"
    if len(clocks) < 2:
        return gate(code, name, False, "not measured at start and end", limit)
    apart = [each["server"]["seconds"] - each["client"]["seconds"] for each in clocks]
    error = 1e3 * sum(clock["error"] for each in clocks for clock in (each["client"], each["server"]))
    drift = 1e3 * (max(apart) - min(apart))
    measured = f"drifted by {drift:.2f} ms, give or take {error:.2f} ms"
    return gate(code, name, drift + error <= limits.tap_clocks_ms, measured, limit)
