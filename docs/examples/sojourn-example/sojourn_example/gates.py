# SPDX-License-Identifier: Apache-2.0
"""A gate of every run: our laboratory believes no run without a thousand probes."""

from __future__ import annotations

from collections.abc import Iterable

from sojourn.scoring.evidence import RawFiles, Setting
from sojourn.scoring.gates import gate_of_runs
from sojourn.scoring.validity import Gate, Limits, gate

LEAST = 1000


@gate_of_runs
def probed_throughout(files: RawFiles, setting: Setting, limits: Limits) -> Iterable[Gate]:
    probes = files.probes("irtt.json")
    count = 0 if probes is None else len(probes)
    return [gate("probes enough for our laboratory", count >= LEAST, str(count), f"at least {LEAST}")]
