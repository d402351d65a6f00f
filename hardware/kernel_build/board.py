# SPDX-License-Identifier: Apache-2.0
"""Boards that images are built for, and their kernel: the virtual nodes' sources and fragments plus the board's own."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from sojourn.hardware.kernel_build import kbuild, kconfig
from sojourn.hardware.kernel_build.kbuild import Recipe
from sojourn.hardware.kernel_build.kernel_source import KernelSource, identify
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError, ProgressCallback, unreported


@dataclass(frozen=True)
class Board:
    """A physical router board."""

    name: str
    recipe: Recipe
    console: str
    """Value of the kernel's console=."""


BOARDS = {
    "apu2": Board(
        "apu2",
        Recipe(
            "x86_64", (*kconfig.ROUTER, "apu2"), files=2000, goals=("bzImage", "modules"),
            header=Path("/usr/include/libelf.h"), apt_line=f"{kbuild.APT_LINE} libelf-dev",
        ),
        console="ttyS0,115200",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class BoardKernel:
    """A built kernel of a board."""

    vmlinuz: Path
    modules: Path
    """Folder of the modules, to be copied to /usr: lib/modules/VERSION."""
    version: str
    source: str
    """Debian package and version, or the given tarball's name; with the tarball's sha256."""
    digest: str


def named(name: str) -> Board:
    """Return the board of this name. Raises BuildError that lists the known boards."""
    if name not in BOARDS:
        raise BuildError(f"--board={name}: unknown board; known: {', '.join(BOARDS)}", code="unknown-value")
    return BOARDS[name]


def ensure_board_kernel(
    board: Board, source: Path | None = None, progress: ProgressCallback | None = None
) -> BoardKernel:
    """Return a board's kernel with TCP Prague as a module, built now if it is not in the cache.

    Args:
        source: a kernel tarball, a folder or a git tree; by default the newest linux-source-7.x of the archive.
        progress: receives the current step and the fraction done.

    Raises:
        BuildError: a tool, an option or the source is missing, or the kernel fails to compile.
    """
    given = identify(source) if source else None
    if given and given.own:
        raise BuildError(f"--kernel-source: {source}: an image needs a whole Linux; give its tree", code="unsupported")
    digest = kbuild.digest_with_modules(board.recipe, given)
    report = progress or unreported
    folder = cache.root() / "board-kernel"
    entry = cache.build_once(folder / digest, lambda scratch: _build(board, scratch, given, folder, report))
    made = json.loads((entry / "kernel.json").read_text())
    return BoardKernel(entry / "vmlinuz", entry / "modules", made["version"], made["source"], digest)


def _build(board: Board, scratch: Path, given: KernelSource | None, folder: Path, report: ProgressCallback) -> None:
    log = folder / f"{scratch.name.strip('.')}.log"
    tree = kbuild.compile_kernel(board.recipe, scratch, given, log, report)
    report(0.98, "compiling the modules")
    *_, prague = kbuild.compile_modules(board.recipe, tree, scratch / "made", log)
    kbuild.call(["strip", "--strip-debug", str(prague)], log)
    (updates := scratch / "modules/lib/modules" / tree.version / "updates").mkdir(parents=True)
    shutil.copy(prague, updates)
    shutil.copy(tree.objects / "arch/x86/boot/bzImage", scratch / "vmlinuz")
    shutil.copy(tree.objects / ".config", scratch / "config")
    (scratch / "kernel.json").write_text(json.dumps({"version": tree.version, "source": tree.name}, indent=1) + "\n")
    cache.remove_tree(scratch / "made")
    tree.remove()
    log.unlink()
    report(1.0, "kernel ready")
