# SPDX-License-Identifier: Apache-2.0
"""A room party by party: when each was shown, in which layer, and how soon the layers follow the bottleneck's rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from sojourn.scoring import recovery
from sojourn.scoring.baseline import harms
from sojourn.scoring.evidence import Setting
from sojourn.scoring.metrics import Observations
from sojourn.scoring.picture import freezes, rendition
from sojourn.scoring.picture.shown import Picture, freeze_entries, rendition_changes
from sojourn.scoring.picture.tiles import CLIENT
from sojourn.scoring.run_evidence import RunEvidence
from sojourn.scoring.schema import records
from sojourn.scoring.schema.scores import LayerStep, Metrics, PartyScores, PhaseScores
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.transport.demand import METRIC

SPEAKER = 2
"""The party at the other end, which speaks to the client."""
THINNED = 0.75
"""A smaller share of the frames per second lacks a temporal layer: without the topmost, half of them are left."""


def parties(
    run: RunEvidence, far: Sequence[PhaseScores], far_baseline: Metrics | None, *, valid: bool
) -> list[PartyScores]:
    """Return the scores of every party of a room; none for any other victim.

    The client's picture, party 1, is what the other end saw, whose phases are `far`, and whose baseline is
    `far_baseline`; all others are on the client's screen. Only a `valid` run has harm.
    """
    setting = run.setting
    if setting.room is None or run.far_picture is None:
        return []
    lines, there = (files.lines("player.jsonl", records.PLAYER) for files in (run.files, run.files.of_other_end))
    joining = next((line["t"] for line in lines if line.get("event") == "joining"), None)
    rows = {party: _phases(run, lines, party) for party in run.tiles}
    rows[CLIENT] = _received(run, there, far, far_baseline)
    scored = []
    for party, seen in ((CLIENT, run.far_picture), *run.tiles.items()):
        viewer = there if party == CLIENT else lines
        phases, baseline = rows[party]
        scored.append(
            PartyScores(
                party=party,
                first_picture_s=first_picture_s(joining, viewer, party),
                phases=phases,
                harm=harms(phases, baseline, None, call=True) if valid and baseline else [],
                speaks=speaking(viewer, party, setting.span),
                renditions=rendition_changes(setting, seen),
                freezes=freeze_entries(setting, seen),
                steps=layer_steps(setting, seen, "up" if party == CLIENT else "down"),
                thinned=thinned(setting, seen, baseline.fps if baseline else None),
            )
        )
    return scored


def first_picture_s(joining: float | None, viewer: Sequence[Mapping[str, Any]], party: int) -> float | None:
    """Return the time from when the client began to join to the first picture of a party at its viewer, s.

    `joining` is Unix s, `viewer` are the lines of the viewer's player.jsonl. None if the party was not shown.
    """
    shown = (line["t"] for line in viewer if line.get("event") == "tile" and line["detail"][0] == party)
    first = next(shown, None)
    return None if joining is None or first is None else round(first - joining, 6)


def layer_steps(setting: Setting, seen: Picture, way: Literal["down", "up"]) -> list[LayerStep]:
    """Return how a picture followed each step of the bottleneck's rate in one direction, until the next step."""
    steps = [rate for rate in setting.rates if rate["direction"] == way]
    ends = [*(rate["t"] for rate in steps), setting.span[1]][1:]
    segments = seen.segments or []
    drops = [change.t for change in rendition.changes(segments) if change.drop]
    followed: list[LayerStep] = []
    mbps = (setting.lab.get(f"rate_{way}_bps") or math.inf) / 1e6
    dip: tuple[float, int | None, float | None] | None = None  # the rate before it, Mbit/s, height and frame rate
    for rate, end in zip(steps, ends, strict=True):
        window: Window = (rate["t"], end)
        before, mbps = mbps, rate["rate_bps"] / 1e6
        height, fps, seconds = _height_at(segments, window[0]), _fps_before(seen, window[0]), _fps(seen, window)
        lost = [*(t for t in drops if window[0] <= t < end), *(start for start, _ in _thinned(seconds, fps))]
        step = LayerStep(
            t=rate["t"] - setting.span[0], direction=way, mbps=mbps, seconds=end - rate["t"],
            first_drop_s=min(lost) - window[0] if lost else None,
            lowest_height=min(rendition.shares(segments, [window]), default=None),
            lowest_fps=min((shown for _, shown in seconds), default=None),
        )  # fmt: skip
        if mbps < before and dip is None:
            dip = before, height, fps
        elif mbps > before and dip is not None:
            _, height, fps = dip
            if height:
                worse = [*recovery.worse(segments, seen.stalls or (), height), *_thinned(seconds, fps)]
                recovery_s = recovery.regained_s(worse, window)
                step = step.model_copy(update={"before_height": height, "before_fps": fps, "recovery_s": recovery_s})
            dip = None if mbps >= dip[0] else dip
        followed.append(step)
    return followed


def _height_at(segments: Sequence[rendition.Segment], t: float) -> int | None:
    return next((segment.height for segment in segments if segment.start <= t < segment.end), None)


def _fps_before(seen: Picture, t: float) -> float | None:
    """Return the displayed frame rate before a time (Unix s), over `recovery.HELD_S`; None if unknown."""
    return None if seen.changes is None else freezes.fps_series(seen.changes, (t - recovery.HELD_S, t))[0]


def _fps(seen: Picture, window: Window) -> list[tuple[Window, float]]:
    """Return every whole second of a window, and the frames displayed in it; none if they are unknown."""
    start, end = window
    seconds = [(start + n, start + n + 1) for n in range(math.floor(end - start + 1e-6))]
    if seen.changes is None or not seconds:
        return []
    return list(zip(seconds, freezes.fps_series(seen.changes, [start, *(to for _, to in seconds)]), strict=True))


def _thinned(seconds: Sequence[tuple[Window, float]], fps: float | None) -> list[Window]:
    """Return the seconds (see `_fps`) that show less than `THINNED` of the frame rate `fps`."""
    return [second for second, shown in seconds if shown < THINNED * (fps or 0)]


def thinned(setting: Setting, seen: Picture, fps: float | None) -> list[Window]:
    """Return when a picture showed less than `THINNED` of the frame rate `fps`: whole seconds from the run's start."""
    t0, periods = setting.span[0], list[Window]()
    for second in _thinned(_fps(seen, setting.span), fps):
        start, end = float(round(second[0] - t0)), float(round(second[1] - t0))
        if periods and periods[-1][1] == start:
            start, _ = periods.pop()
        periods.append((start, end))
    return periods


def speaking(viewer: Sequence[Mapping[str, Any]], party: int, span: Window) -> list[Window]:
    """Return when a viewer's page showed a party as an active speaker within `span` (Unix s), in s from its start.

    `viewer` are the lines of the viewer's player.jsonl.
    """
    events = [(line["t"], party in line["detail"]) for line in viewer if line.get("event") == "speakers"]
    changes = [change for n, change in enumerate(events) if not n or change[1] != events[n - 1][1]]
    bounds = pairwise([*changes, (span[1], False)])
    spoken = [(max(start, span[0]), min(end, span[1])) for (start, speaks), (end, _) in bounds if speaks]
    return [(start - span[0], end - span[0]) for start, end in spoken if start < end]


def _received(
    run: RunEvidence, viewer: Sequence[Mapping[str, Any]], far: Sequence[PhaseScores], baseline: Metrics | None
) -> tuple[list[PhaseScores], Metrics | None]:
    """Return the rows of the client's picture and its baseline, with the goodput of its RTP payload alone."""
    counted = list(received(viewer, CLIENT))
    rows = [PhaseScores(**vars(it) | {METRIC: mean_mbps(counted, [run.measured[it.name]])}) for it in far]
    return rows, baseline and Metrics(**vars(baseline) | {METRIC: mean_mbps(counted, run.solo)})


def _phases(
    run: RunEvidence, lines: Sequence[Mapping[str, Any]], party: int
) -> tuple[list[PhaseScores], Metrics | None]:
    """Return the rows of a tile, and its baseline.

    Its goodput is that of its RTP payload, as the browser counts it every second.
    """
    t0, counted = run.setting.span[0], list(received(lines, party))
    sound, neteq = (run.sound, run.neteq.get("client")) if party == SPEAKER else (None, None)
    seen = Observations(run.tiles[party], run.setting.clip_fps, sound=sound, neteq=neteq)

    def metrics(windows: Sequence[Window]) -> dict[str, Any]:
        return seen.metrics(windows) | {METRIC: mean_mbps(counted, windows)}

    rows = [
        PhaseScores(
            name=it.name,
            contender=it.contender,
            start=it.start - t0,
            end=it.end - t0,
            **metrics([run.measured[it.name]]),
        )
        for it in run.setting.phases
    ]
    return rows, Metrics(**metrics(run.solo)) if run.solo else None


def received(lines: Sequence[Mapping[str, Any]], party: int) -> Iterator[tuple[float, int]]:
    """Yield the bytes received of a party so far, and when they were counted (Unix s)."""
    for line in lines:
        if line.get("event") == "call":
            counted = (line["detail"].get("tiles") or {}).get(str(party), {}).get("bytesReceived")
            if counted is not None:
                yield line["t"], counted


def rate_mbps(counted: Sequence[tuple[float, int]], window: Window) -> float | None:
    """Return the mean rate between the first and the last count in a window (Unix s), Mbit/s; None without two."""
    inside = [(t, count) for t, count in counted if window[0] <= t < window[1]]
    if len(inside) < 2:
        return None
    (start, before), (end, after) = inside[0], inside[-1]
    return 8e-6 * (after - before) / (end - start)


def mean_mbps(counted: Sequence[tuple[float, int]], windows: Sequence[Window]) -> float | None:
    """Return the mean of `rate_mbps` over windows together, Mbit/s; None if no window has a rate."""
    parts = [(end - start, rate_mbps(counted, (start, end))) for start, end in windows]
    known = [(seconds, rate) for seconds, rate in parts if rate is not None]
    return sum(seconds * rate for seconds, rate in known) / sum(seconds for seconds, _ in known) if known else None
