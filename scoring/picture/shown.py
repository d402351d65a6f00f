# SPDX-License-Identifier: Apache-2.0
"""The content of the screen: frames by their strip, or by motion alone, and the player's reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from sojourn.scoring.evidence import RawFiles, Setting
from sojourn.scoring.picture import frames, freezes, glass_to_glass, rendition
from sojourn.scoring.picture.blind import resolution, viewer
from sojourn.scoring.schema import records
from sojourn.scoring.schema.scores import Blind, FreezeEntry, RenditionChange
from sojourn.scoring.schema.windows import Window, edges

GRABS_A_FRAME = 1.9
"""A recorder with this many grabs per camera frame misses none: screens do not change faster than it grabs."""


@dataclass(frozen=True)
class RecordedScreen:
    """The recorder's data in screen.json, and the times of its frames (Unix s)."""

    screen: Mapping[str, Any]
    times: Sequence[float]


@dataclass
class Picture:
    """The contents of a recording and of the player's log; None for what was not recorded."""

    source: Literal["strip", "blind", "player", "none"] = "none"
    frames: pl.DataFrame | None = None  # t, frame (ever rising, null unread)
    presented: pl.DataFrame | None = None  # the player's log of frames, see `sojourn.scoring.picture.frames.presented`
    changes: pl.DataFrame | None = None
    stalls: Sequence[freezes.Freeze] | None = None
    webrtc: Sequence[freezes.Freeze] = ()
    blind: Blind | None = None
    segments: list[rendition.Segment] | None = None
    delays: pl.DataFrame | None = None  # latencies of a call's frames
    lips: pl.DataFrame | None = None  # those of the speaker's frames; None: these are the only ones
    buffered: Sequence[tuple[float, float]] | None = None  # Unix s, s of buffered media ahead
    recording: RecordedScreen | None = None
    sampled: Sequence[float] = ()  # times of the player's samples, Unix s
    positions: Sequence[float] = ()  # of the film in these samples, s
    unread: float | None = None  # share of frames (or of time) in the timeline with an unreadable strip
    tiles: int = 1  # pictures that it consists of, as in a room


def picture(files: RawFiles, other: RawFiles | None, setting: Setting) -> Picture:
    """Return the content of the screen recorded in `files`; `other` are the files of a call's other end."""
    screen = files.optional("screen.json", records.SCREEN)
    video = files.folder / "screen.mp4"
    on_change = screen is not None and screen.get("on_change", False)
    shown: pl.DataFrame | None = None
    if screen is not None and video.exists():
        shown = files.whole(video, lambda: frames.read_recording(video, screen["start"]))
    lines = files.lines("player.jsonl", records.PLAYER)
    samples = [s for s in lines if "event" not in s]
    seen = Picture(sampled=[s["t"] for s in samples], positions=[s.get("currentTime") or 0.0 for s in samples])
    if screen is not None and shown is not None:
        seen.recording = RecordedScreen(screen, shown["t"].to_list())
        seen.unread = 1.0
    if not setting.call:
        ahead = [(s["t"], s["buffer"]) for s in samples if s.get("buffer") is not None]
        seen.buffered = ahead or None
    facts = setting.clip or {}
    fps = setting.clip_fps
    if setting.frame_log:
        seen.presented = frames.presented(lines, fps)
    if setting.screening and seen.presented is not None and not seen.presented.is_empty():
        seen.source, seen.frames = "player", seen.presented
        seen.segments = rendition.from_player(seen.frames.to_dicts())
        _add_motion(seen, fps)
    elif shown is not None and not setting.web and (shown["frame"] >= 0).any():  # pictures of pages may look like one
        seen.source = "strip"
        shown = frames.held(shown) if on_change else shown
        # A camera's strip has no rendition: only the player knows the encoder's output.
        heights = facts.get("heights", rendition.LADDER)
        if heights:  # a strip with a rung that is not in the ladder was misread
            known = pl.col("rendition") < len(heights)
            shown = shown.with_columns(
                pl.when(known).then(pl.col(column)).otherwise(-1).alias(column) for column in ("frame", "rendition")
            )
            seen.segments = rendition.from_recording(shown, heights)
        else:
            seen.segments = rendition.from_player(samples)
        if other is not None and screen is not None:
            add_frames(seen, shown, other, setting, screen)
        else:
            seen.frames = shown.with_columns(frame=frames.unwrap(shown["frame"], facts.get("frames")))
            _add_motion(seen, fps)
        assert seen.frames is not None
        seen.unread = frames.unread_share(seen.frames.filter(pl.col("t").is_between(*setting.span)))
    elif setting.live:
        # Only a live picture has no strip: a stand-in's picture always takes precedence over its player.
        if samples:
            seen.source, seen.segments = "player", rendition.from_player(samples)
        if shown is not None and screen is not None:
            watched = files.whole(video, lambda: viewer.watch(video, screen["start"], lines))
            if watched is not None:
                seen.source, seen.stalls, seen.webrtc = "blind", watched.stalls, watched.webrtc
                seen.blind = _blind(watched, seen.segments, setting.span)
    return seen


def add_frames(
    seen: Picture, shown: pl.DataFrame, other: RawFiles, setting: Setting, screen: Mapping[str, Any]
) -> None:
    """Add frames, delays, changes and freezes to the picture of a camera.

    `shown` is the recording (`sojourn.scoring.picture.frames.held`), `other` the files of the camera's end. `screen` is
    in screen.json.
    """
    loop, fps, on_change = (setting.clip or {})["frames"], setting.clip_fps, screen.get("on_change", False)
    camera = glass_to_glass.camera_log(other.lines("player.jsonl", records.PLAYER), loop)
    seen.frames = glass_to_glass.shown_frames(shown, camera, loop, fps)
    # A slower recorder could miss a frame between two grabs.
    often = on_change or screen.get("fps", 0) >= GRABS_A_FRAME * fps
    seen.delays = glass_to_glass.frame_delays(seen.frames, camera if often else None, on_change=on_change)
    _add_motion(seen, fps)


def _add_motion(seen: Picture, fps: float) -> None:
    """Add the changes and freezes of the frames to a picture; `fps` is the film's frame rate."""
    assert seen.frames is not None
    seen.changes = freezes.displayed(seen.frames["t"], seen.frames["frame"], fps)
    seen.webrtc, seen.stalls = freezes.webrtc_freezes(seen.changes), freezes.stalls(seen.changes)


def _blind(seen: viewer.Seen, reported: Sequence[rendition.Segment] | None, span: Window) -> Blind:
    """The seconds of the timeline; the player's heights are `reported`."""
    heights: list[int | None] = []
    differing = []
    lines = resolution.video_lines(seen.place.height, seen.place.width)
    for second, t in enumerate(edges(*span, 1.0)[:-1]):
        height = seen.heights.get(int(t + 0.5 - seen.start))
        heights.append(height)
        shown = rendition.shares(reported, [(t, t + 1)]) if reported else {}
        most = max(shown, key=lambda h: shown[h], default=None)
        if height is None or most is None:
            continue
        # A rung above the picture's lines looks like the next one below.
        if height != min(most, resolution.classes([most, *resolution.LADDER], lines)[-1]):
            differing.append(second)
    still = [(at - span[0], length) for at, length in seen.undecided if span[0] <= at < span[1]]
    return Blind(
        place=(seen.place.x, seen.place.y, seen.place.width, seen.place.height),
        heights=heights,
        differing=differing,
        undecided=still,
    )


def rendition_changes(setting: Setting, shown: Picture) -> list[RenditionChange]:
    """Each change of the picture's height, in order of time."""
    t0 = setting.span[0]
    return [
        RenditionChange(t=c.t - t0, before=c.before, after=c.after, drop=c.drop, phase=_phase_at(setting, c.t))
        for c in (rendition.changes(shown.segments) if shown.segments else [])
    ]


def freeze_entries(setting: Setting, shown: Picture) -> list[FreezeEntry]:
    """Stalls and WebRTC's freezes together, in order of time."""
    t0 = setting.span[0]
    return [
        FreezeEntry(t=f.onset - t0, length=f.length, kind=f.kind, phase=_phase_at(setting, f.onset),
                    uncertain=f.uncertain)
        for f in sorted([*(shown.stalls or ()), *shown.webrtc], key=lambda f: (f.onset, f.kind))
    ]  # fmt: skip


def _phase_at(setting: Setting, t: float) -> str | None:
    return next((phase.name for phase in setting.phases if phase.start <= t < phase.end), None)
