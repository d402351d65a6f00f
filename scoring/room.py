# SPDX-License-Identifier: Apache-2.0
"""A room party by party: when each was shown, in which layer, and how soon the layers follow the bottleneck's rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sojourn.scoring.evidence import Setting
from sojourn.scoring.metrics import Observations
from sojourn.scoring.picture import rendition
from sojourn.scoring.picture.shown import Picture, freeze_entries, rendition_changes
from sojourn.scoring.recovery import picture_s
from sojourn.scoring.run_evidence import RunEvidence
from sojourn.scoring.schema import records
from sojourn.scoring.schema.scores import LayerStep, PartyScores, PhaseScores
from sojourn.scoring.schema.windows import Window


def parties(run: RunEvidence, far: Sequence[PhaseScores]) -> list[PartyScores]:
    """Return the scores of every party of a room; none for any other victim.

    The client's picture, party 1, is what the other end saw, whose phases are `far`; all others are on the client's
    screen.
    """
    setting = run.setting
    if setting.room is None or run.far_picture is None:
        return []
    lines, there = (files.lines("player.jsonl", records.PLAYER) for files in (run.files, run.files.of_other_end))
    joining = next((line["t"] for line in lines if line.get("event") == "joining"), None)
    rows = {1: list(far)} | {party: _phases(run, lines, party) for party in run.tiles}
    return [
        PartyScores(
            party=party,
            first_picture_s=first_picture_s(joining, there if party == 1 else lines, party),
            phases=rows[party],
            renditions=rendition_changes(setting, seen),
            freezes=freeze_entries(setting, seen),
            steps=layer_steps(setting, seen, "up" if party == 1 else "down"),
        )
        for party, seen in ((1, run.far_picture), *run.tiles.items())
    ]


def first_picture_s(joining: float | None, viewer: Sequence[Mapping[str, Any]], party: int) -> float | None:
    """Return the time from when the client began to join to the first picture of a party at its viewer, s.

    `joining` is Unix s, `viewer` are the lines of the viewer's player.jsonl. None if the party was not shown.
    """
    shown = (line["t"] for line in viewer if line.get("event") == "tile" and line["detail"][0] == party)
    first = next(shown, None)
    return None if joining is None or first is None else round(first - joining, 6)


def layer_steps(setting: Setting, seen: Picture, way: str) -> list[LayerStep]:
    """Return how a picture followed each step of the bottleneck's rate in one direction, until the next step."""
    steps = [rate for rate in setting.rates if rate["direction"] == way]
    ends = [*(rate["t"] for rate in steps), setting.span[1]][1:]
    segments = seen.segments or []
    best = max((segment.height for segment in segments), default=0)
    changes = rendition.changes(segments)
    followed = []
    for rate, end in zip(steps, ends, strict=True):
        window: Window = (rate["t"], end)
        inside = [change for change in changes if window[0] <= change.t < window[1]]
        first = next((change.t - window[0] for change in inside if change.drop), None)
        heights = rendition.shares(segments, [window])
        followed.append(
            LayerStep(
                t=rate["t"] - setting.span[0], direction=rate["direction"], mbps=rate["rate_bps"] / 1e6,
                first_drop_s=first, lowest_height=min(heights, default=None),
                full_after_s=picture_s(segments, (), window, best) if segments else None,
            )
        )  # fmt: skip
    return followed


def _phases(run: RunEvidence, lines: Sequence[Mapping[str, Any]], party: int) -> list[PhaseScores]:
    """Return the rows of a tile; its goodput is that of its RTP payload, as the browser counts it every second."""
    t0, picture = run.setting.span[0], run.tiles[party]
    counted = list(received(lines, party))
    rows = []
    for phase in run.setting.phases:
        window = run.measured[phase.name]
        fields = Observations(picture, run.setting.clip_fps).metrics([window]) | {
            "victim_mbps": rate_mbps(counted, window)
        }
        rows.append(
            PhaseScores(
                name=phase.name, contender=phase.contender, start=phase.start - t0, end=phase.end - t0, **fields
            )
        )
    return rows


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
