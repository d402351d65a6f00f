# SPDX-License-Identifier: Apache-2.0
"""pfifo: a tail-drop queue with a limit in packets (tc-pfifo(8))."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.parameters import Count
from sojourn.bottleneck.qdiscs.base import Qdisc


class Pfifo(Qdisc):
    """First in, first out, limited in packets."""

    kind: ClassVar[str] = "pfifo"
    examples: ClassVar[tuple[str, ...]] = (
        "pfifo",
        "pfifo limit 100",
    )

    limit: Annotated[int | None, Count(unit="PACKETS", low=1)] = None
