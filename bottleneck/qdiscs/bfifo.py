# SPDX-License-Identifier: Apache-2.0
"""bfifo: a tail-drop queue with a limit in bytes (tc-bfifo(8))."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.parameters import Size
from sojourn.bottleneck.qdiscs.base import Qdisc


class Bfifo(Qdisc):
    """First in, first out, limited in bytes."""

    kind: ClassVar[str] = "bfifo"
    examples: ClassVar[tuple[str, ...]] = ("bfifo limit 150kb",)

    limit: Annotated[int | None, Size(low=1)] = None
