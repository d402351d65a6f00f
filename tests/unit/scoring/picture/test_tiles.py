# SPDX-License-Identifier: Apache-2.0
"""A room's tiles: where their strips are, and what all of them are together."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sojourn.apps.room import places
from sojourn.scoring.metrics import Observations
from sojourn.scoring.picture import strip
from sojourn.scoring.picture.freezes import Freeze, displayed, fps_series
from sojourn.scoring.picture.rendition import Segment
from sojourn.scoring.picture.shown import Picture
from sojourn.scoring.picture.tiles import mean_segments, segments, strip_box, together, union
from sojourn.scoring.sound.ear import Sound


@pytest.mark.parametrize("parties", range(2, 9))
def test_the_strip_of_every_tile_is_read_where_it_is_painted(parties: int) -> None:
    screen = np.full((720, 1280), 90, np.uint8)
    tiles = places(parties)
    for party, (x, y, width, height) in tiles.items():
        band = strip.render(100 + party, 0, width, height)
        screen[y + height - len(band) : y + height, x : x + width] = band
    assert len(tiles) == parties - 1
    for party, place in tiles.items():
        assert strip.read(screen, strip_box(place)) == (100 + party, 0)


def line(t: float, party: int, height: int) -> dict[str, object]:
    return {"t": t, "event": "tile", "detail": [party, height]}


def test_the_height_of_a_tile_is_that_of_its_own_frames() -> None:
    lines = [line(1, 2, 180), line(2, 3, 180), line(3, 2, 720), {"t": 9.0, "playing": True}]
    assert segments(lines, 2) == [Segment(1, 3, 180), Segment(3, 9, 720)]
    assert segments(lines, 3) == [Segment(2, 9, 180)]
    assert segments(lines, 4) == []
    taken = [line(1, 2, 720), line(4, 2, 0), line(6, 2, 720), {"t": 9.0, "playing": True}]
    assert segments(taken, 2) == [Segment(1, 4, 720), Segment(4, 6, 0), Segment(6, 9, 720)]


def test_the_height_of_a_room_is_the_mean_of_its_tiles_once_all_are_there() -> None:
    one = [Segment(0, 5, 180), Segment(5, 10, 720)]
    other = [Segment(2, 7, 360), Segment(7, 10, 720)]
    assert mean_segments([one, other]) == [Segment(2, 5, 270), Segment(5, 7, 540), Segment(7, 10, 720)]
    assert mean_segments([one, []]) == []
    gone = [Segment(0, 4, 720), Segment(4, 10, 0)]
    assert mean_segments([gone, gone]) == gone


def test_a_room_stands_still_while_any_tile_does() -> None:
    apart, within, later = Freeze(1, 2, "stall", False), Freeze(2, 0.5, "stall", True), Freeze(2.5, 1.5, "stall", False)
    assert union([later, apart, within]) == [Freeze(1, 3, "stall", True)]
    assert union([apart, Freeze(4, 1, "stall", False)]) == [apart, Freeze(4, 1, "stall", False)]


def tile(fps: int, frozen: Freeze | None = None) -> Picture:
    """Return 4 s of a tile at a frame rate, whose frames take 50 ms."""
    t = pl.Series([n / fps for n in range(4 * fps)])
    frame = pl.Series(range(4 * fps))
    return Picture(
        source="strip", frames=pl.DataFrame({"t": t, "frame": frame, "held": 1 / fps}),
        changes=displayed(t, frame, fps), delays=pl.DataFrame({"t": t, "delay_ms": [50.0] * len(t)}),
        stalls=[frozen] if frozen else [],
        segments=[Segment(0, 4, 720)], unread=0.0,
    )  # fmt: skip


def test_the_frames_of_a_room_are_those_of_all_tiles() -> None:
    whole = together([tile(30), tile(10, Freeze(1, 2, "stall", False))])
    assert whole.frames is not None and whole.changes is not None and whole.delays is not None
    assert whole.tiles == 2 and whole.delays.height == whole.frames.height == 160
    assert fps_series(whole.changes, (1.01, 3.01))[0] / whole.tiles == pytest.approx(20)
    assert whole.stalls == [Freeze(1, 2, "stall", False)]


def test_the_sound_of_a_room_is_in_sync_with_the_tile_that_speaks() -> None:
    speaker, other = tile(30), tile(10)
    other.delays = other.delays.with_columns(delay_ms=pl.lit(500.0)) if other.delays is not None else None
    tones = pl.DataFrame({"t": [n * 0.02 for n in range(200)], "delay_ms": [60.0] * 200})
    ear = pl.DataFrame({"t": tones["t"], "gap": [False] * 200, "repeated": [False] * 200})
    seen = Observations(together([speaker, other]), 30, sound=Sound(tones, ear))
    assert seen.metrics([(0, 4)])["lip_sync_p50_ms"] == pytest.approx(-10)


def test_a_room_with_an_unreadable_tile_has_no_picture() -> None:
    whole = together([tile(30), Picture(unread=1.0)])
    assert whole.source == "none" and whole.frames is None and whole.unread == 1.0
