# SPDX-License-Identifier: Apache-2.0
"""A sample of planned runs: a pilot of a map or matrix, or the runs of a table that are repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from sojourn.harness.options.errors import OptionsError


def sampled(labels: Collection[str], size: int) -> set[str]:
    """Return the labels of `size` runs of several, which have different ones.

    Those with the least SHA-256: nobody chooses them, and a larger sample of the same runs contains a smaller one.
    Raises OptionsError if there are fewer runs.
    """
    if size > len(labels):
        raise OptionsError(
            f"--sample={size}: there are {len(labels)} runs; give fewer, or omit it for all of them",
            code="invalid-value",
            option="sample",
        )
    return set(sorted(labels, key=lambda label: hashlib.sha256(label.encode()).digest())[:size])
