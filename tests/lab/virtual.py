# SPDX-License-Identifier: Apache-2.0
"""A virtual lab with Sojourn's kernel."""

from __future__ import annotations

from pathlib import Path

from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.harness.lab.virtual import VirtualLab


def virtual_lab(folder: Path, *, one_core: bool = False) -> VirtualLab:
    """Return a virtual lab, which runs while it is entered; consoles go to `folder`/logs. Raises BuildError."""
    return VirtualLab(ensure_kernel(), ensure_guest(), folder, one_core=one_core)
