# SPDX-License-Identifier: Apache-2.0
"""A built kernel, and what names it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kernel:
    """A built kernel."""

    linux: Path
    """The User-Mode Linux executable."""
    config: Path
    """The full .config that it was built with."""
    version: str
    """Release, as `uname -r` prints it in a node."""
    source: str
    """Debian package and version with the tarball's sha256, or the name of the given source (`KernelSource.name`)."""
    digest: str
    """Digest of the inputs: fragments, TCP Prague, patches, training, compiler, a given source, its tc."""
    tc: Path | None = None
    """A folder that a machine uses in place of the guest's tc objects, see `sojourn.hardware.images.own_tc`."""
