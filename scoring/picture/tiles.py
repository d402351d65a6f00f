# SPDX-License-Identifier: Apache-2.0
"""The screen of a room's client: the picture of every party in its tile, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from sojourn.scoring.evidence import RawFiles, Setting
from sojourn.scoring.picture import frames, rendition, strip
from sojourn.scoring.picture.freezes import Freeze
from sojourn.scoring.picture.shown import Picture, RecordedScreen, add_frames
from sojourn.scoring.schema import records

CLIENT = 1
"""The client's number as a party."""


def strip_box(place: Sequence[int]) -> strip.Box:
    """Return the area of the strip in a tile at x, y, width, height (px)."""
    x, y, width, height = place
    within = strip.Box.bottom(width, height)
    return strip.Box(x, y + within.y, width, within.height)


def tiles(files: RawFiles, setting: Setting) -> dict[int, Picture]:
    """Return the picture of every party that the client of a room sees, by the party's number.

    Frames, delays and freezes are those of the strips in the recording of the client's screen; heights are those of the
    frames that the page presented, each at its time. `sampled`, `positions` and `recording` are the whole screen's.
    """
    assert setting.room is not None
    lines = files.lines("player.jsonl", records.PLAYER)
    seen = {party: Picture(sampled=[line["t"] for line in lines if "event" not in line]) for party in setting.parties}
    screen, video = files.optional("screen.json", records.SCREEN), files.folder / "screen.mp4"
    if screen is None or not video.exists():
        return seen
    boxes = [strip_box(tile["place"]) for tile in setting.room["tiles"]]
    recorded = files.whole(video, lambda: frames.read_strips(video, screen["start"], boxes))
    if recorded is None:
        return seen
    for (party, tile), shown in zip(seen.items(), recorded, strict=True):
        tile.recording, tile.unread = RecordedScreen(screen, shown["t"].to_list()), 1.0
        if not (shown["frame"] >= 0).any():
            continue
        tile.source = "strip"
        shown = frames.held(shown) if screen.get("on_change") else shown
        tile.segments = segments(lines, party)
        add_frames(tile, shown, files.of_party(party), setting, screen)
        assert tile.frames is not None
        tile.unread = frames.unread_share(tile.frames.filter(pl.col("t").is_between(*setting.span)))
    return seen


def segments(lines: Sequence[Mapping[str, Any]], party: int) -> list[rendition.Segment]:
    """Return the heights of a party's tile over time, from the lines of its viewer's player.jsonl; 0: taken away."""
    tile = [line for line in lines if line.get("event") == "tile" and line["detail"][0] == party]
    heights = [(line["t"], line["detail"][1]) for line in tile]
    return rendition.segments_of(heights, max((line["t"] for line in lines), default=0.0))


def together(seen: Sequence[Picture]) -> Picture:
    """Return all tiles as one picture; the first is that of the party that speaks.

    Its height is the mean of the tiles', to a line, and so is its frame rate; it stands still while any tile does. Its
    frames and their delays are those of all tiles.
    """
    first = seen[0]
    whole = Picture(sampled=first.sampled, positions=first.positions, recording=first.recording, tiles=len(seen))
    whole.unread = max((tile.unread for tile in seen if tile.unread is not None), default=None)
    if not all(tile.source == "strip" for tile in seen):
        return whole
    whole.source = "strip"
    whole.frames = pl.concat(tile.frames for tile in seen if tile.frames is not None)
    whole.changes = pl.concat(tile.changes for tile in seen if tile.changes is not None).sort("t")
    whole.delays = pl.concat(tile.delays for tile in seen if tile.delays is not None).sort("t")
    whole.lips = first.delays
    whole.stalls = union(freeze for tile in seen for freeze in tile.stalls or ())
    whole.webrtc = union(freeze for tile in seen for freeze in tile.webrtc)
    whole.segments = mean_segments([tile.segments or [] for tile in seen])
    return whole


def union(freezes: Iterable[Freeze]) -> list[Freeze]:
    """Return the periods in which there is any of these freezes of one kind, in order of time."""
    periods: list[Freeze] = []
    for freeze in sorted(freezes, key=lambda freeze: freeze.onset):
        last = periods[-1] if periods else None
        if last is None or freeze.onset > last.onset + last.length:
            periods.append(freeze)
            continue
        length = max(last.length, freeze.onset + freeze.length - last.onset)
        periods[-1] = Freeze(last.onset, length, last.kind, last.uncertain or freeze.uncertain)
    return periods


def mean_segments(tiles: Sequence[Sequence[rendition.Segment]]) -> list[rendition.Segment]:
    """Return the mean height of the tiles over time, to a line, from when all are shown."""
    if not all(tiles):
        return []
    start = max(tile[0].start for tile in tiles)
    end = max(tile[-1].end for tile in tiles)
    bounds = sorted({start, *(segment.start for tile in tiles for segment in tile if start < segment.start < end)})
    return rendition.segments_of([(t, round(sum(_at(tile, t) for tile in tiles) / len(tiles))) for t in bounds], end)


def _at(tile: Sequence[rendition.Segment], t: float) -> int:
    return next((segment.height for segment in reversed(tile) if segment.start <= t), tile[0].height)
