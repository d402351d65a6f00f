# SPDX-License-Identifier: Apache-2.0
"""Renditions over time: changes, drops, shares and means."""

from __future__ import annotations

import polars as pl
import pytest

from sojourn.scoring.picture import rendition
from sojourn.scoring.picture.rendition import HeightChange, Segment


def recording(spans: list[tuple[int, int]]) -> pl.DataFrame:
    """(recorded frames at 10 fps, rendition) one after the other."""
    shown = [index for count, index in spans for _ in range(count)]
    return pl.DataFrame({"t": [i / 10 for i in range(len(shown))], "rendition": shown})


def test_drops_have_their_time_and_heights() -> None:
    segments = rendition.from_recording(recording([(5, -1), (100, 3), (50, 2), (3, -1), (47, 1), (50, 3)]))
    found = rendition.changes(segments)
    assert found == [
        HeightChange(pytest.approx(10.5), 720, 480), HeightChange(pytest.approx(15.8), 480, 360),
        HeightChange(pytest.approx(20.5), 360, 720),
    ]  # fmt: skip
    assert [c.drop for c in found] == [True, True, False]


def test_shares_weigh_by_time_and_windows() -> None:
    segments = [Segment(0, 10, 720), Segment(10, 40, 240)]
    shown = rendition.shares(segments, [(5, 20), (30, 35)])
    assert shown == {240: 15, 720: 5}
    assert rendition.mean_height(shown) == 360
    assert rendition.dominant(shown) == 240
    assert rendition.mean_height({}) is None and rendition.dominant({}) is None


def test_an_index_beyond_the_ladder_is_refused() -> None:
    with pytest.raises(ValueError, match="ladder"):
        rendition.from_recording(recording([(5, 7)]))


def test_the_player_can_tell_instead() -> None:
    samples = [
        {"t": 1.0, "height": 720},
        {"t": 2.0, "height": 720},
        {"t": 3.0, "height": 360},
        {"t": 4.0, "height": 360},
    ]
    assert rendition.from_player(samples) == [Segment(1, 3, 720), Segment(3, 4, 360)]


@pytest.mark.parametrize(
    ("heights", "counts"),
    [
        ([720, 720, 720, 720], (20, 40)),
        ([270, 480, 720, 720], (20, 40)),  # recovered before the window
        ([270, 270, 480, 720], (30, 40)),
        ([270, 270, 270, 480], None),  # not as high as alone
        ([720, 720, 480, 720], (20, 40)),  # a fall is no recovery, and stays in
    ],
)
def test_a_window_counts_from_the_recovery_on(heights: list[int], counts: tuple[float, float] | None) -> None:
    segments = rendition.from_player([{"t": t, "height": heights[min(t, 39) // 10]} for t in range(41)])
    assert rendition.since_recovery(segments, (20, 40), 720) == counts
