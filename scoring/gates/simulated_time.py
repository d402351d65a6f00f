# SPDX-License-Identifier: Apache-2.0
"""Simulated time only moves forward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sojourn.scoring.gates.base import gate, gate_of_runs
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("time-forwards")
def clock(run: RunEvidence) -> Iterable[Gate]:
    """Judge the times in simulated time of the timeline, the samples of queues and sockets, and the captures."""
    if run.setting.real_time:
        return
    captures = (("client.pcapng", run.behind), ("server.pcapng", run.before))
    yield forwards(
        {
            "timeline.json": [t for phase in run.setting.phases for t in (phase.start, phase.end)],
            "qdisc.jsonl": [sample["t"] for sample in run.queues],
            **{name: [line["t"] for line in lines] for name, lines in run.socket_files.items() if lines},
            **{name: capture.all["t_ns"].to_numpy() for name, capture in captures if capture},
        }
    )


def forwards(records: Mapping[str, npt.ArrayLike]) -> Gate:
    """Simulated time only moves forward: no record in `records` (times in written order) steps back."""
    arrays = {name: np.asarray(times) for name, times in records.items()}
    odd = [f"{name} is empty" for name, times in arrays.items() if not times.size]
    odd += [name for name, times in arrays.items() if np.any(times[1:] < times[:-1])]
    measured = ", ".join(odd) or f"in {len(arrays)} records"
    return gate("time-forwards", "time goes forwards", bool(arrays) and not odd, measured, "no step back in any record")
