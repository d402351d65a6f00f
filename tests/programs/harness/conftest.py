# SPDX-License-Identifier: Apache-2.0
"""The small scored runs of the tests without programs, and what is done once for all of them."""

from tests.unit.harness.conftest import (
    matrices_are_loaded_once,
    recorded,
    scores,
    series,
    soak_place,
    values_are_resampled_once,
)

__all__ = ["matrices_are_loaded_once", "recorded", "scores", "series", "soak_place", "values_are_resampled_once"]
