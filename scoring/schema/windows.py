# SPDX-License-Identifier: Apache-2.0
"""Stretches of time, and the bins of a series."""

from __future__ import annotations

import numpy as np

Window = tuple[float, float]
"""From and to, Unix s."""


def edges(t0: float, end: float, step: float) -> list[float]:
    """The bounds of bins of `step` s from t0 on; the last bin may reach past the end."""
    return [t0 + i * step for i in range(max(1, int(np.ceil((end - t0) / step - 1e-9))) + 1)]
