# SPDX-License-Identifier: Apache-2.0
"""A guest's tc support for Sojourn's queues: one shared object, which tc loads by a queue's name."""

from __future__ import annotations

from pathlib import Path

from sojourn.hardware.build_tool import call, compiler
from sojourn.hardware.images.own_tc import objects_folder
from sojourn.hardware.kernel_build.kconfig import FRAGMENTS

KINDS = ("cake", "cnq_cobalt", "cnq_codel_af", "deltic", "lfq_cobalt", "twin_codel_af")
_SOURCES = ("tc_sce.c", "sce.h")
_COMPILE = ("gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror")


def inputs() -> list[tuple[str, bytes]]:
    """Return the object's sources by name, for the digest of a userland."""
    return [(name, (FRAGMENTS / name).read_bytes()) for name in _SOURCES] + [("tc", repr((KINDS, _COMPILE)).encode())]


def install(root: Path) -> None:
    """Compile the object into the `objects_folder` of `root`.

    Raises BuildError if there is no gcc, the object does not compile, or `root` has no tc.
    """
    compiler()
    folder = objects_folder(root)
    call([*_COMPILE, "-o", str(folder / "sojourn.so"), str(FRAGMENTS / "tc_sce.c")])
    for kind in KINDS:
        (folder / f"q_{kind}.so").symlink_to("sojourn.so")
