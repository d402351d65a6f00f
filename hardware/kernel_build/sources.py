# SPDX-License-Identifier: Apache-2.0
"""What a user has in place of Sojourn's kernel and tc."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sources:
    """The sources of a machine's kernel and of its tc; None: Sojourn's."""

    kernel: Path | None = None
    """A kernel tarball (.tar.xz, .tar.gz), a folder or a git tree of Linux, or a folder of own files
    (`sojourn.hardware.kernel_build.own_files`)."""
    iproute2: Path | None = None
    """A tree of iproute2, or a folder with a `q_NAME.c` for each own qdisc; None: the folder of own files, if it has
    any."""


OURS = Sources()
"""Sojourn's kernel and tc."""
