# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from sojourn.scoring.statistics.rig_spread import SERIES, rig_spread

SEEDS = (-0.1, 0.0, 0.1, 0.05, -0.05)


def test_exact_paths_that_differ_cover_their_mean_only_where_they_are_near_it() -> None:
    paths = [[centre + less for less in SEEDS] for centre in (-1.0, 0.0, 1.0)]
    found = rig_spread(paths, [0.0, 1.0] * 4)
    assert found.between_paths == pytest.approx(1)
    assert found.within_path == pytest.approx((0.025 / 4) ** 0.5)  # of squares 0.01 + 0 + 0.01 + 0.0025 + 0.0025
    assert found.paths_cover == pytest.approx(1 / 3)
    assert found.over_rigs == pytest.approx((8 * 0.25 / 7) ** 0.5)


def test_independent_rigs_cover_their_mean_as_often_as_the_interval_says() -> None:
    rigs = np.random.default_rng(5).normal(0.3, 0.2, 300).tolist()
    found = rig_spread([[0.3, 0.31], [0.3, 0.29]], rigs)
    assert all(0.88 <= share <= 0.99 for share in found.rigs_cover.values())
    assert found.rigs_cover_paths == pytest.approx(found.rigs_cover[SERIES[0]], abs=0.03)
    assert rig_spread([[5.0, 5.1], [5.0, 5.1]], rigs).rigs_cover_paths == 0


def test_the_longest_series_is_the_least_number_of_rigs() -> None:
    rigs = [0.1, 0.2] * (max(SERIES) // 2)
    assert rig_spread([[0.1, 0.2], [0.1, 0.2]], rigs).rigs_cover[max(SERIES)] == 1
    for paths, few in (([[0.1, 0.2]], rigs), ([[0.1, 0.2], [0.1]], rigs), ([[0.1, 0.2]] * 2, rigs[1:])):
        with pytest.raises(ValueError, match="two seeds"):
            rig_spread(paths, few)
