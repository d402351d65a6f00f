# SPDX-License-Identifier: Apache-2.0
"""prio: bands in strict order (tc-prio(8)), set up and read back like any other queue."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.parameters import Count
from sojourn.bottleneck.qdiscs.base import Qdisc


class Prio(Qdisc):
    """Strict priority between bands, by the packets' TOS."""

    kind: ClassVar[str] = "prio"
    examples: ClassVar[tuple[str, ...]] = ("prio", "prio bands 4")

    bands: Annotated[int | None, Count(unit="BANDS")] = None
