# SPDX-License-Identifier: Apache-2.0
"""The share of a recording in which its strip could not be read."""

from __future__ import annotations

import polars as pl
import pytest

from sojourn.scoring.picture import frames


def recording(rows: list[tuple[float, int | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, {"t": pl.Float64, "frame": pl.Int64}, orient="row")


def test_of_grabs_at_a_fixed_rate_unread_ones_count() -> None:
    shown = recording([(n / 60, None if n < 15 else n) for n in range(60)])
    assert frames.unread_share(shown) == 0.25
    assert frames.unread_share(shown[:0]) is None


def test_of_changes_the_time_counts_for_which_they_stayed() -> None:
    """4 s of a still picture without a strip are two frames a second, the 4 s of film after it thirty."""
    still = [(n / 2, None) for n in range(8)]
    film = [(4 + n / 30, n) for n in range(121)]
    shown = frames.held(recording([*still, *film]))
    assert frames.unread_share(shown) == pytest.approx(0.5)
    assert shown["held"].sum() == pytest.approx(8)
