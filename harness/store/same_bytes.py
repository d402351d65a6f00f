# SPDX-License-Identifier: Apache-2.0
"""Whether two runs are the same run: simulated time gives the same bytes for the same seed and options."""

from __future__ import annotations

from sojourn.harness.store.manifest import CRATE, REPORT, Manifest
from sojourn.scoring.schema.files import OPTIONS
from sojourn.scoring.schema.scores import SCORES

NOT_COMPARED = (OPTIONS, REPORT, CRATE)
"""Files that depend on where and when a run was executed, or that a bundle added."""


def same_bytes(one: Manifest, other: Manifest) -> bool:
    """Return whether two runs of one experiment are the same run: seed, state and every file that both recorded.

    In real time no two runs are: their files hold the time of day.
    """
    first, second = one.files | one.pruned, other.files | other.pruned
    both = (first.keys() & second.keys()) - {*NOT_COMPARED}
    alike = (one.seed, one.status) == (other.seed, other.status)
    return alike and SCORES in both and all(first[name] == second[name] for name in both)
