# SPDX-License-Identifier: Apache-2.0
"""twin_codel_af: two cnq_codel_af behind one shaper, one for packets with DSCP 4 (hardware/kernel/sch_cnq.c)."""

from __future__ import annotations

from typing import ClassVar

from sojourn.bottleneck.qdiscs.cnq_codel_af import CnqCodelAf


class TwinCodelAf(CnqCodelAf):
    """Two CNQ with CoDel-AF. target and interval apply to the first; the second uses a fifth of them."""

    kind: ClassVar[str] = "twin_codel_af"
    examples: ClassVar[tuple[str, ...]] = (
        "twin_codel_af",
        "twin_codel_af bandwidth 9mbit target 7ms interval 70ms limit 500 sce",
        "twin_codel_af unlimited no-sce",
    )

    @property
    def marks_sce(self) -> bool:
        """Whether it marks SCE; it does by default."""
        return self.sce != 0
