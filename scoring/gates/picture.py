# SPDX-License-Identifier: Apache-2.0
"""The picture, at both ends of a call: recorded without gaps, readable, and with the player's samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sojourn.scoring.gates.base import at_most, covers, gate, gate_of_runs
from sojourn.scoring.picture import frames
from sojourn.scoring.validity import Gate, Limits

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


#: By how much a frame may be on the screen before or after the player's position says so, s.
_PRESENTED_S = 0.1
#: The film advances by that much more than the time between two samples only if the player jumps, s.
_JUMP_S = 1.0


@gate_of_runs("recorder-frames-missing", "recording-complete", "player-samples-complete", "every-frame-recorded",
              "sound-complete", "strip-unread", "every-frame-logged", "frame-log-agrees")  # fmt: skip
def recording(run: RunEvidence) -> Iterable[Gate]:
    """Judge the records of recorder, player and sound at every end; only simulated time requires every frame."""
    span, limits = run.setting.span, run.limits
    if run.setting.web:  # what a page shows has no strip; its browser reports when
        recorded = run.picture.recording
        if not run.setting.screening:
            yield recorder(None if recorded is None else recorded.screen, limits)
            yield covers("recording-complete", "recording", None if recorded is None else recorded.times, span, limits)
        return
    if run.setting.game:
        return
    if run.setting.screening:
        yield covers("player-samples-complete", "player samples", run.picture.sampled, span, limits)
        varies = limits.log_differing if run.evidence.live is not None else 0.0
        yield every_frame_logged(run.picture.frames, run.picture.sampled, run.picture.positions, varies)
        return
    for who, heard in run.sounds:
        yield covers("sound-complete", f"{who}sound", None if heard is None else heard.ear["t"], span, limits)
    for who, seen in run.pictures:
        recorded = seen.recording
        times = None if recorded is None else recorded.times
        yield recorder(None if recorded is None else recorded.screen, limits, who)
        yield covers("recording-complete", f"{who}recording", times, span, limits)
        yield covers("player-samples-complete", f"{who}player samples", seen.sampled, span, limits)
        if recorded is not None and not run.setting.real_time:
            yield every_frame(recorded.times, recorded.screen.get("fps", 30), who)
        if seen.presented is not None and seen.frames is not None and not run.setting.real_time:
            yield log_agrees(seen.frames, seen.presented, (run.setting.clip or {}).get("heights", ()), limits)
        if not run.setting.live or seen.source == "strip":
            yield at_most("strip-unread", f"{who}strip unread", seen.unread, limits.unread_share, "% of frames", 100)


def recorder(screen: Mapping[str, Any] | None, limits: Limits, who: str = "") -> Gate:
    """Frames missed by the recorder, from screen.json; `who` prefixes the gate's name."""
    share = screen["missing"] / screen["expected"] if screen and screen["expected"] else None
    name = f"{who}recorder frames missing"
    return at_most("recorder-frames-missing", name, share, limits.missing_share, "%", 100)


def log_agrees(recorded: pl.DataFrame, logged: pl.DataFrame, heights: Sequence[int], limits: Limits) -> Gate:
    """The recording and the player's log show the same frames at the same times: a screening run has only the log."""
    share = frames.agreement(recorded, logged, heights, limits.log_apart_s)
    measured = "not recorded" if share is None else f"{share:.2%} of the recorded frames"
    limit = (
        f"{1 - limits.log_differing:.0%} are in the log within {limits.log_apart_s * 1000:g} ms, with the same height"
    )
    ok = share is not None and share >= 1 - limits.log_differing
    return gate("frame-log-agrees", "recording and frame log agree", ok, measured, limit)


def every_frame_logged(
    logged: pl.DataFrame | None, sampled: Sequence[float], positions: Sequence[float], share: float = 0.0
) -> Gate:
    """The log of a screening run has every frame that the player presented, as the player counts them.

    Nor does the film advance between two samples (Unix s, and s of the film) without a frame in the log; a player that
    jumps is faster than the film. `share` of the frames may be missing: a browser reports frames as best it can
    (https://wicg.github.io/video-rvfc), and not all of a player that changes its speed.
    """
    missing, times = 0, np.array([]) if logged is None else logged["t"].to_numpy()[:-1]  # the last repeats one
    if logged is not None and times.size:
        steps = np.diff(logged["count"].to_numpy()[:-1])
        missing = int(np.abs(steps - 1).sum())
        since = np.searchsorted(times, np.asarray(sampled) - _PRESENTED_S)
        unseen = np.searchsorted(times, np.asarray(sampled)[1:] + _PRESENTED_S) == since[:-1]
        advanced = np.diff(positions)
        played = (advanced > _PRESENTED_S) & (advanced < np.diff(sampled) + _JUMP_S)
        missing += int((unseen & played).sum())
    name, most = "every frame logged", int(share * times.size)
    limit = f"at most {most} missing" if most else "none missing"
    return gate("every-frame-logged", name, bool(times.size) and missing <= most, f"{missing} missing", limit)


def every_frame(times: Sequence[float], fps: float, who: str = "") -> Gate:
    """In simulated time, a recorder of `fps` frames/s must have every frame; `times` in s."""
    gaps = np.diff(np.asarray(times, dtype=np.float64))
    missing = int(np.maximum(np.round(gaps * fps) - 1, 0).sum())
    measured = f"{missing} missing of {fps:g} a second"
    name = f"{who}every frame recorded"
    return gate("every-frame-recorded", name, bool(gaps.size) and not missing, measured, "none missing")
