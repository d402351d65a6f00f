# SPDX-License-Identifier: Apache-2.0
"""How well the samples of a record cover a window of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn.scoring.schema.windows import Window
from sojourn.scoring.validity import Limits


@dataclass(frozen=True)
class Coverage:
    """How late the samples begin and how early they end in a window, and their longest gap in it, s."""

    late_s: float
    early_s: float
    gap_s: float

    @classmethod
    def of(cls, times: npt.ArrayLike | None, window: Window) -> Coverage | None:
        """Measure `times`, in any order, against `window`, all in Unix s; None without samples."""
        t = np.sort(np.asarray([] if times is None else times, dtype=np.float64))
        if not t.size:
            return None
        inside = (t[1:] > window[0]) & (t[:-1] < window[1])
        gap = float(np.diff(t)[inside].max(initial=0.0))
        return cls(float(t[0] - window[0]), float(window[1] - t[-1]), gap)

    def complete(self, limits: Limits) -> bool:
        """Whether the samples span the window without a long gap."""
        return self.late_s <= limits.tail_s and self.early_s <= limits.tail_s and self.gap_s <= limits.gap_s
