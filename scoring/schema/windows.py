# SPDX-License-Identifier: Apache-2.0
"""Windows of time, and the bins of a series."""

from __future__ import annotations

import numpy as np

Window = tuple[float, float]
"""Start and end, Unix s."""


def edges(t0: float, end: float, step: float) -> list[float]:
    """Return the bounds of bins of `step` s from t0; the last bin may extend past the end."""
    return [t0 + i * step for i in range(max(1, int(np.ceil((end - t0) / step - 1e-9))) + 1)]
