# SPDX-License-Identifier: Apache-2.0
"""The small scored runs of the tests without programs."""

from tests.unit.harness.conftest import recorded, scores, series, soak_place

__all__ = ["recorded", "scores", "series", "soak_place"]
