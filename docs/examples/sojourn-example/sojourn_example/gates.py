# SPDX-License-Identifier: Apache-2.0
"""A gate of every run: our laboratory believes no run without a thousand probes."""

from __future__ import annotations

from collections.abc import Iterable

from sojourn.scoring.gates import gate, gate_of_runs
from sojourn.scoring.run_evidence import RunEvidence
from sojourn.scoring.validity import Gate

LEAST = 1000


@gate_of_runs("laboratory-probes")
def probed_throughout(run: RunEvidence) -> Iterable[Gate]:
    probes = run.files.probes("irtt.json")
    count = 0 if probes is None else len(probes)
    limit = f"at least {LEAST}"
    return [gate("laboratory-probes", "probes enough for our laboratory", count >= LEAST, str(count), limit)]
