# SPDX-License-Identifier: Apache-2.0
"""lfq_cobalt: lightweight fair queueing with CoDel and BLUE (draft-morton-tsvwg-lightweight-fair-queueing)."""

from __future__ import annotations

from typing import ClassVar

from sojourn.bottleneck.qdiscs.cnq_codel_af import CnqCodelAf


class LfqCobalt(CnqCodelAf):
    """LFQ with CoDel and BLUE per flow; parameters as in `CnqCodelAf`."""

    kind: ClassVar[str] = "lfq_cobalt"
    examples: ClassVar[tuple[str, ...]] = (
        "lfq_cobalt",
        "lfq_cobalt bandwidth 9mbit target 7ms interval 70ms limit 500 sce",
        "lfq_cobalt unlimited no-sce",
    )
