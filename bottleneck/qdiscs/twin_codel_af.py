# SPDX-License-Identifier: Apache-2.0
"""twin_codel_af: cnq_codel_af twice behind one shaper, one for packets of DSCP 4 (hardware/kernel/sch_cnq.c)."""

from __future__ import annotations

from typing import ClassVar

from sojourn.bottleneck.qdiscs.cnq_codel_af import CnqCodelAf


class TwinCodelAf(CnqCodelAf):
    """Two of CNQ with CoDel-AF; target and interval are the first's, the second has a fifth of them."""

    kind: ClassVar[str] = "twin_codel_af"
    examples: ClassVar[tuple[str, ...]] = (
        "twin_codel_af",
        "twin_codel_af bandwidth 9mbit target 7ms interval 70ms limit 500 sce",
        "twin_codel_af unlimited no-sce",
    )

    @property
    def marks_sce(self) -> bool:
        """Whether it marks SCE, as it does where nothing is said of it."""
        return self.sce != 0
