# SPDX-License-Identifier: Apache-2.0
"""The picture, at both ends of a call: recorded without gaps, readable, and with the player's samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.scoring.gates.base import at_most, covers, gate, gate_of_runs
from sojourn.scoring.validity import Gate, Limits

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("recorder-frames-missing", "recording-complete", "player-samples-complete", "every-frame-recorded",
              "strip-unread")  # fmt: skip
def recording(run: RunEvidence) -> Iterable[Gate]:
    """Judge the records of recorder and player at every end; only simulated time requires every frame."""
    span, limits = run.setting.span, run.limits
    for who, seen in run.pictures:
        recorded = seen.recording
        times = None if recorded is None else recorded.times
        yield recorder(None if recorded is None else recorded.screen, limits, who)
        yield covers("recording-complete", f"{who}recording", times, span, limits)
        yield covers("player-samples-complete", f"{who}player samples", seen.sampled, span, limits)
        if recorded is not None and not run.setting.real_time:
            yield every_frame(recorded.times, recorded.screen.get("fps", 30), who)
        if not run.setting.live or seen.source == "strip":
            yield at_most("strip-unread", f"{who}strip unread", seen.unread, limits.unread_share, "% of frames", 100)


def recorder(screen: Mapping[str, Any] | None, limits: Limits, who: str = "") -> Gate:
    """Frames missed by the recorder, from screen.json; `who` prefixes the gate's name."""
    share = screen["missing"] / screen["expected"] if screen and screen["expected"] else None
    name = f"{who}recorder frames missing"
    return at_most("recorder-frames-missing", name, share, limits.missing_share, "%", 100)


def every_frame(times: Sequence[float], fps: float, who: str = "") -> Gate:
    """In simulated time, a recorder of `fps` frames/s must have every frame; `times` in s."""
    gaps = np.diff(np.asarray(times, dtype=np.float64))
    missing = int(np.maximum(np.round(gaps * fps) - 1, 0).sum())
    measured = f"{missing} missing of {fps:g} a second"
    name = f"{who}every frame recorded"
    return gate("every-frame-recorded", name, bool(gaps.size) and not missing, measured, "none missing")
