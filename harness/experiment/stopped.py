# SPDX-License-Identifier: Apache-2.0
"""What Ctrl-C has left: which runs are kept, where, and what to do with each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from sojourn.harness.store.disk_usage import size_words, tree_bytes
from sojourn.harness.store.manifest import PARTIAL
from sojourn.harness.store.runs import RunDirectory, is_unscored


def kept_lines(begun: Sequence[RunDirectory], wanted: int) -> Iterator[str]:
    """Yield a line per kind of run that a stopped command has begun, of the number `wanted`. Raises StoreError."""
    kept = [run.path for run in begun if run.path.exists()]
    cut = [path for path in kept if path.name.endswith(PARTIAL)]
    if finished := len(kept) - len(cut):
        again = "; the same command starts all runs again, --seed adds others" if wanted > 1 else ""
        yield f"finished and kept: {finished} of {wanted} runs in {kept[0].parent}{again}"
    for path in cut:
        run = shlex.quote(str(path))
        what = "interrupted and kept", "it has no figures and cannot be continued"
        if is_unscored(path):
            what = "recorded and kept", f"finish it: `sojourn rescore {run}`"
        yield f"{what[0]}: {path} ({size_words(tree_bytes(path))}); {what[1]}; delete it: `sojourn rm {run}`"
    if not kept:
        yield "nothing was recorded, nothing is kept"
