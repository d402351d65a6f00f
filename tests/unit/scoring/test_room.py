# SPDX-License-Identifier: Apache-2.0
"""A room by party: its first picture, its layers after steps of the rate, and what arrived of it."""

from __future__ import annotations

from math import inf
from typing import Any

import polars as pl
import pytest

from sojourn.scoring.baseline import solo
from sojourn.scoring.evidence import RecordedPhase, Setting, needed
from sojourn.scoring.gates.calls import room_complete
from sojourn.scoring.picture.freezes import Freeze
from sojourn.scoring.picture.rendition import Segment
from sojourn.scoring.picture.shown import Picture
from sojourn.scoring.room import first_picture_s, layer_steps, mean_mbps, rate_mbps, received, speaking, thinned

ROOM: dict[str, Any] = {
    "rate_down_bps": 8e6,
    "rate_up_bps": 8e6,
    "room": {"tiles": [{"party": party, "place": [0, 0, 640, 360]} for party in (2, 3, 4)]},
    "call": {"width": 1280},
}  # fmt: skip


def setting(*steps: tuple[float, str, float]) -> Setting:
    rates = tuple({"t": 100 + t, "direction": way, "rate_bps": mbps * 1e6} for t, way, mbps in steps)
    return Setting((RecordedPhase("alone", None, 100.0, 160.0),), ROOM, rates)


def test_layers_fall_after_a_step_and_climb_after_the_next() -> None:
    seen = Picture(
        segments=[Segment(90, 122, 720), Segment(122, 125, 360), Segment(125, 147, 180), Segment(147, 160, 720)]
    )
    fall, climb = layer_steps(setting((20, "down", 1.5), (40, "down", 8), (30, "up", 1)), seen, "down")
    assert (fall.t, fall.mbps, fall.seconds, fall.first_drop_s, fall.lowest_height) == (20, 1.5, 20, 2, 180)
    assert (climb.t, climb.seconds, climb.first_drop_s, climb.lowest_height) == (40, 20, None, 180)
    assert (climb.before_height, climb.recovery_s) == (720, 7) and (fall.before_height, fall.recovery_s) == (None, None)
    (up,) = layer_steps(setting((20, "down", 1.5), (30, "up", 1)), seen, "up")
    assert (up.t, up.recovery_s) == (30, None)


@pytest.mark.parametrize(
    ("segments", "recovery_s"),
    [
        ([Segment(90, 122, 360), Segment(122, 145, 180), Segment(145, 160, 360)], 5),  # to its height before the dip
        ([Segment(90, 122, 720), Segment(122, 160, 360)], inf),
        ([Segment(90, 122, 720), Segment(122, 157, 360), Segment(157, 160, 720)], inf),  # too late to say
        ([Segment(90, 122, 720), Segment(122, 145, 360), Segment(145, 148, 720), Segment(148, 160, 360)], inf),
        ([Segment(90, 122, 720), Segment(122, 142, 360), Segment(142, 153, 720), Segment(153, 160, 360)], 2),
        ([Segment(90, 122, 720), Segment(122, 142, 360), Segment(142, 149, 720), Segment(149, 160, 360)], inf),
        ([Segment(90, 160, 720)], 0),
    ],
)
def test_a_dip_is_over_when_the_picture_is_back_at_its_height_and_keeps_it(
    segments: list[Segment], recovery_s: float
) -> None:
    _, climb = layer_steps(setting((20, "down", 1.5), (40, "down", 8)), Picture(segments=segments), "down")
    assert climb.recovery_s == recovery_s


def shown(*rates: tuple[float, float]) -> pl.DataFrame:
    """Return the changes of a picture that shows `rates[n][1]` frames per second from `rates[n][0]` (s of the run)."""
    ends = [*(t for t, _ in rates), 60.0][1:]
    parts = zip(rates, ends, strict=True)
    times = [100 + t + (n + 0.5) / fps for (t, fps), end in parts for n in range(round((end - t) * fps))]
    return pl.DataFrame({"t": times, "advance": [1] * len(times)})


@pytest.mark.parametrize(
    ("rates", "first_drop_s", "lowest_fps", "recovery_s"),
    [
        ([(0, 30), (21, 15), (45, 30)], 1, 15, 5),
        ([(0, 30), (21, 8), (43, 30), (51, 15), (52, 30)], 1, 8, inf),
        ([(0, 30), (21, 24)], None, 24, 0),  # a fifth of the frames is no temporal layer
        ([(0, 15), (30, 14)], None, 14, 0),  # as thin as before the dip
    ],
)
def test_a_picture_that_keeps_its_lines_and_loses_frames_has_lost_a_temporal_layer(
    rates: list[tuple[float, float]], first_drop_s: float | None, lowest_fps: float, recovery_s: float
) -> None:
    seen = Picture(segments=[Segment(90, 160, 720)], changes=shown(*rates))
    fall, climb = layer_steps(setting((20, "down", 1.5), (40, "down", 8)), seen, "down")
    assert (fall.first_drop_s, fall.lowest_fps, fall.lowest_height) == (first_drop_s, lowest_fps, 720)
    assert (climb.before_height, climb.before_fps, climb.recovery_s) == (720, rates[0][1], recovery_s)


def test_a_picture_is_thinned_in_the_seconds_with_less_than_three_quarters_of_its_frame_rate() -> None:
    seen = Picture(changes=shown((0, 30), (21, 15), (23, 24), (30, 8), (31, 22), (32, 30)))
    assert thinned(setting(), seen, 30.8) == [(21, 23), (30, 32)]
    assert thinned(setting(), seen, None) == thinned(setting(), Picture(), 30.8) == []


@pytest.mark.parametrize(("stalled_s", "recovery_s"), [(25, 7), (28, 10), (29, inf)])
def test_a_picture_that_stands_still_is_not_back(stalled_s: float, recovery_s: float) -> None:
    seen = Picture(segments=[Segment(90, 160, 720)], stalls=[Freeze(122, stalled_s, "stall", False)])
    _, climb = layer_steps(setting((20, "down", 1.5), (40, "down", 8)), seen, "down")
    assert climb.recovery_s == recovery_s


def test_a_dip_with_several_steps_has_one_height_before_it() -> None:
    seen = Picture(segments=[Segment(90, 121, 720), Segment(121, 152, 180), Segment(152, 160, 720)])
    steps = layer_steps(
        setting((20, "down", 4), (25, "down", 1), (40, "down", 4), (50, "down", 8), (55, "down", 20)), seen, "down"
    )
    assert [step.before_height for step in steps] == [None, None, 720, 720, None]
    assert [step.recovery_s for step in steps] == [None, None, inf, inf, None]


def test_a_picture_that_keeps_its_layers_neither_falls_nor_has_to_recover() -> None:
    (step,) = layer_steps(setting((20, "down", 6)), Picture(segments=[Segment(90, 160, 720)]), "down")
    assert (step.first_drop_s, step.lowest_height, step.recovery_s) == (None, 720, None)
    (unseen,) = layer_steps(setting((20, "down", 6)), Picture(), "down")
    assert (unseen.first_drop_s, unseen.lowest_height, unseen.before_height) == (None, None, None)


def test_a_party_speaks_while_its_viewer_shows_it_as_an_active_speaker() -> None:
    lines = [
        {"t": t, "event": "speakers", "detail": parties}
        for t, parties in ((95, [2]), (103, [1, 2]), (110, [1]), (112, []))
    ] + [{"t": 113.0, "event": "joined"}, {"t": 115, "event": "speakers", "detail": [2]}]
    assert speaking(lines, 2, (100, 120)) == [(0, 10), (15, 20)]
    assert speaking(lines, 1, (100, 120)) == [(3, 12)] and speaking(lines, 3, (100, 120)) == []


def test_the_first_picture_of_a_party_counts_from_the_clients_joining() -> None:
    lines = [{"t": 7.0, "event": "tile", "detail": [3, 180]}, {"t": 8.5, "event": "tile", "detail": [2, 180]}]
    assert first_picture_s(6.5, lines, 3) == 0.5 and first_picture_s(6.5, lines, 2) == 2.0
    assert first_picture_s(6.5, lines, 4) is None and first_picture_s(None, lines, 3) is None


def test_the_baseline_of_a_room_ends_at_the_first_step_of_the_rate() -> None:
    assert solo(setting((20, "down", 1.5), (40, "down", 8)), None) == ([(100, 120)], [(100, 120)])
    assert solo(setting((0, "down", 1.5)), None) == ([], [])
    assert solo(setting(), None) == ([(100, 160)], [(100, 160)])
    call = Setting(setting().phases, {"call": {}}, setting((20, "down", 1.5)).rates)
    assert solo(call, None) == ([(100, 160)], [(100, 160)])


def second(t: float, **bytes_of: int) -> dict[str, Any]:
    return {"t": t, "event": "call", "detail": {"tiles": {p[1:]: {"bytesReceived": n} for p, n in bytes_of.items()}}}


def test_the_rate_over_two_windows_weighs_each_by_its_length() -> None:
    counted = [(t, 250_000 * t if t < 5 else 1_000_000 + 750_000 * (t - 4)) for t in range(12)]
    assert mean_mbps(counted, [(0, 4), (6, 12)]) == pytest.approx((4 * 2 + 6 * 6) / 10)
    assert mean_mbps(counted, [(20, 24)]) is None


def test_the_rate_of_a_tile_is_that_of_the_bytes_counted_within_the_phase() -> None:
    lines = [second(t, _2=250_000 * t, _3=0) for t in range(10)] + [{"t": 4.0, "event": "call", "detail": {}}]
    assert rate_mbps(list(received(lines, 2)), (2, 6)) == pytest.approx(2.0)
    assert rate_mbps(list(received(lines, 3)), (2, 6)) == 0
    assert rate_mbps(list(received(lines, 4)), (2, 6)) is None


@pytest.mark.parametrize(
    ("first", "ok", "named"),
    [
        ({1: 9.0, 2: 9.5}, True, "2 of 2"),
        ({1: 9.0, 2: 10.5}, False, "not 2"),
        ({1: None, 2: 9.0, 3: None}, False, "not 1 and 3"),
    ],
)
def test_a_party_that_is_not_shown_in_time_makes_a_room_invalid(
    first: dict[int, float | None], ok: bool, named: str
) -> None:
    judged = room_complete(first, 10.0)
    assert (judged.code, judged.ok) == ("room-complete", ok) and named in judged.measured


def test_a_valid_room_has_the_records_of_every_party() -> None:
    names = [file for names in needed(setting()) for file in names]
    assert {"far/player.jsonl", "far-3/player.jsonl", "far-4/player.jsonl", "far/screen.mp4"} <= {*names}
    assert "far-3/screen.mp4" not in names and "far-2/player.jsonl" not in names
