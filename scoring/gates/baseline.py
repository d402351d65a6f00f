# SPDX-License-Identifier: Apache-2.0
"""The victim alone is undisturbed: harm against a disturbed baseline would mean nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import gate, gate_of_runs
from sojourn.scoring.picture import freezes, rendition
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.validity import Gate, Limits

if TYPE_CHECKING:
    from sojourn.scoring.metrics import Observations
    from sojourn.scoring.run_evidence import RunEvidence


#: Share of a game's packets that must be in time when it is alone.
_PUNCTUAL = 0.99
#: Share of a call's frames and sound that must be in time when it is alone: less leaves a contender little to harm.
_IN_TIME = 0.5
#: The fields of these shares, and their units.
_FRAMES, _EAR = ("frames_in_time", "% of frames in time"), ("ear_in_time", "% of sound in time")


@gate_of_runs("first-solo-phase", "solo-baseline")
def baselines(run: RunEvidence) -> Iterable[Gate]:
    """Judge first solo phase and baseline windows; a video in changing rates alone is compared with nothing."""
    setting, limits = run.setting, run.limits
    if setting.kind == "video" and setting.rates and not any(phase.contender for phase in setting.phases):
        return
    if setting.call:
        limits = limits.model_copy(update={"baseline_fps_share": limits.call_fps_share})
    in_time = [_FRAMES] * bool(setting.call and not setting.live) + [_EAR] * (setting.sound and not setting.speech)
    for code, windows in (("first-solo-phase", run.first_solo), ("solo-baseline", run.solo)):
        if setting.game or setting.web:
            alone = run.evidence.metrics(windows) if windows else {}
            yield punctual(code, alone) if setting.game else pages_alone(code, alone)
        else:
            yield healthy(
                code, windows, run.evidence, not setting.live, limits, elsewhere=setting.elsewhere, in_time=in_time
            )


def punctual(code: str, alone: Mapping[str, float | None]) -> Gate:
    """Judge a game alone by its Metrics: lost and late packets are rare, or harm has no baseline."""
    name, shares = code.replace("-", " "), [alone.get(it) for it in ("tick_in_50ms", "input_in_50ms")]
    ok = all(share is not None and share >= _PUNCTUAL for share in shares)
    known = " and ".join("not recorded" if share is None else f"{share:.1%}" for share in shares)
    limit = f"at least {_PUNCTUAL:.0%} of ticks and inputs at most 50 ms late"
    judged = gate(code, name, ok, f"{known} of ticks and inputs at most 50 ms late", limit)
    return (
        judged if ok else judged.model_copy(update={"reason": f"{name}: the baseline is disturbed: {judged.measured}"})
    )


def healthy(
    code: str,
    windows: Sequence[Window],
    evidence: Observations,
    strip: bool,
    limits: Limits,
    *,
    elsewhere: bool = False,
    in_time: Iterable[tuple[str, str]] = (),
) -> Gate:
    """Judge the victim alone, inside the windows; with `strip`, also by its frames, whose rate is known.

    A player other than Sojourn's (`elsewhere`) may occasionally try another rendition if one dominates. `in_time` are
    the fields and units of the shares of a call that must be in time.
    """
    alone = evidence.metrics(windows) if windows else {}
    stalls = changes = None
    if evidence.picture.changes is not None:
        long = freezes.stalls(evidence.picture.changes, limits.baseline_stall_s)
        stalls = sum(freezes.frozen_s([stall], a, b) > 0 for stall in long for a, b in windows)
    if evidence.picture.segments:
        # A window that begins after a recovery begins at a change, which belongs to the time before.
        changes = sum(a < c.t < b for c in rendition.changes(evidence.picture.segments) for a, b in windows)
    share = None
    if elsewhere and windows:
        minutes = math.ceil(sum(b - a for a, b in windows) / 60)
        limits = limits.model_copy(update={"baseline_changes": limits.live_changes * minutes})
        shown = alone.get("height_seconds") or {}
        share = max(shown.values()) / sum(shown.values()) if shown else None
    return undisturbed(
        code, evidence.clip_fps if strip else None, stalls, alone.get("fps"), alone.get("victim_mbps"), changes, limits,
        share, {unit: alone.get(name) for name, unit in in_time},
    )  # fmt: skip


def pages_alone(code: str, alone: Mapping[str, float | None]) -> Gate:
    """Judge the loads of pages alone, from the fields of their metrics: half of them must have finished."""
    begun, unfinished = (int(alone.get(it) or 0) for it in ("page_loads", "page_loads_unfinished"))
    name, measured = code.replace("-", " "), f"{begun - unfinished} of {begun} pages loaded"
    judged = gate(code, name, 0 < begun >= 2 * unfinished, measured, "at least half of them, and one")
    return (
        judged
        if judged.ok
        else judged.model_copy(
            update={"reason": f"{name}: the baseline is disturbed: {measured}; give it more time, or a higher rate"}
        )
    )


def undisturbed(
    code: str,
    clip_fps: float | None,
    stalls: int | None,
    fps: float | None,
    mbps: float | None,
    changes: int | None,
    limits: Limits,
    share: float | None = None,
    in_time: Mapping[str, float | None] = {},
) -> Gate:
    """Judge figures of the victim alone; the gates have these codes.

    `stalls` counts those of `baseline_stall_s` or longer, `fps` frames shown a second, `mbps` the victim's
    goodput, `changes` those of the rendition; None: not recorded, fails. `clip_fps` is None for a live
    picture, which has no strip to measure stalls and frame rate. `share` is the share of the rendition shown
    longest, for players that may change it, `in_time` the shares of a call that were in time, by their units.
    """
    checks = [
        ("Mbit/s", mbps, mbps is not None and mbps > 0, "goodput"),
        ("changes of rendition", changes, changes is not None and changes <= limits.baseline_changes,
         f"at most {limits.baseline_changes} changes of rendition"),
    ]  # fmt: skip
    if share is not None:
        most = f"at least {limits.live_share:.0%} in one rendition"
        checks.append(("% in one rendition", 100 * share, share >= limits.live_share, most))
    for unit, part in in_time.items():
        known = None if part is None else 100 * part
        checks.append((unit, known, part is not None and part >= _IN_TIME, f"at least {100 * _IN_TIME:g} {unit}"))
    if clip_fps is not None:
        least = limits.baseline_fps_share * clip_fps
        checks += [
            ("stalls", stalls, stalls == 0, f"no stall of {limits.baseline_stall_s:g} s"),
            ("frames/s", fps, fps is not None and fps >= least, f"at least {least:.4g} frames/s"),
        ]
    measured = [f"{unit} not recorded" if value is None else f"{value:.3g} {unit}" for unit, value, _, _ in checks]
    name, ok, limit = code.replace("-", " "), all(ok for _, _, ok, _ in checks), ", ".join(it for *_, it in checks)
    judged = gate(code, name, ok, ", ".join(measured), limit)
    bad = ", ".join(text for text, (_, _, ok, _) in zip(measured, checks, strict=True) if not ok)
    return judged.model_copy(update={"reason": f"{name}: the baseline is disturbed: {bad}"}) if bad else judged
