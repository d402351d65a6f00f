# SPDX-License-Identifier: Apache-2.0
"""cnq_codel_af: cheap nasty queueing, CoDel with approximate fairness (draft-morton-tsvwg-codel-approx-fair)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.qdiscs.cnq_cobalt import CnqCobalt
from sojourn.bottleneck.sce import IntervalDivisor


class CnqCodelAf(CnqCobalt):
    """CNQ with one CoDel per flow, and a second one for SCE; other parameters as in `CnqCobalt`."""

    kind: ClassVar[str] = "cnq_codel_af"
    examples: ClassVar[tuple[str, ...]] = (
        "cnq_codel_af",
        "cnq_codel_af bandwidth 9mbit target 7ms interval 70ms limit 500 sce-thresh 4",
        "cnq_codel_af unlimited no-sce",
    )

    sce: Annotated[int | None, IntervalDivisor()] = None
