# SPDX-License-Identifier: Apache-2.0
"""The kernel of the virtual nodes: mainline Linux as a User-Mode Linux binary, built once and cached."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from sojourn.hardware.build_tool import Tools
from sojourn.hardware.images import own_tc
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build import kbuild, kconfig, kept_tree, training
from sojourn.hardware.kernel_build.kbuild import Recipe, Tree
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.kernel_build.kernel_source import KernelSource, identify
from sojourn.hardware.kernel_build.self_check import self_check
from sojourn.hardware.kernel_build.sources import OURS, Sources
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import ProgressCallback, unreported

RECIPE = Recipe("um", kconfig.VIRTUAL, files=1000, headers_once=True, hot=training.HOT, trained_by=training.job())
SANITIZED = replace(RECIPE, fragments=(*kconfig.VIRTUAL, "sanitizers"), hot=(), trained_by="")
"""The same with KASAN, UBSAN and further self-checks of the kernel; several times slower."""


def ensure_kernel(
    sources: Sources = OURS,
    progress: ProgressCallback | None = None,
    recipe: Recipe = RECIPE,
) -> Kernel:
    """Return the kernel of a recipe, built now if it is not in the cache.

    Args:
        sources: the user's; by default the newest linux-source-7.x of the archive. With a cached build of the same
            recipe, the archive is not queried.
        progress: receives the current step and the fraction done.
        recipe: RECIPE, or SANITIZED.

    Raises:
        BuildError: a tool, an option or the source is missing, or the kernel fails to compile or to work.
    """
    given = identify(sources.kernel) if sources.kernel else None
    digest = kbuild.digest(recipe, given)
    report = progress or unreported
    entry = cache.build_once(
        cache.root() / "kernel" / digest, lambda scratch: _build(recipe, scratch, given, digest, report)
    )
    made = json.loads((entry / "kernel.json").read_text())
    kernel = Kernel(entry / "linux", entry / "config", made["version"], made["source"], digest)
    folder = sources.iproute2 or (given.own.folder if given and given.own else None)
    if folder and (sources.iproute2 or own_tc.has_own_tc(folder)):
        tc = own_tc.ensure_tc(folder, ensure_guest().root)
        return replace(kernel, tc=tc, digest=cache.digest([("kernel", digest.encode()), ("tc", tc.name.encode())]))
    return kernel


def _build(recipe: Recipe, scratch: Path, given: KernelSource | None, digest: str, report: ProgressCallback) -> None:
    log = cache.root() / "kernel" / f"{digest}.log"

    def train(linux: Path, profile: Path) -> None:
        training.train(Kernel(linux, scratch / "config", "", "", digest), guest(), profile)

    own, tools = given.own if given else None, Tools()
    with ThreadPoolExecutor(1) as meanwhile:  # the guest's packages come while the kernel's source is unpacked
        guest = meanwhile.submit(tools.work, ensure_guest).result
        try:
            if own:
                guest()
                with kept_tree.compiled_with(recipe, own, log, report, train) as tree:
                    _take(tree, scratch)
            else:
                tree = kbuild.compile_kernel(recipe, scratch, given, log, report, train, guest)
                _take(tree, scratch)
        except BaseException:
            tools.end()
            raise
    report(0.98, "trying the kernel")
    kbuild.call(["strip", "--strip-debug", str(scratch / "linux")], log)
    # Only a kernel that passes enters the cache, so a warm start needs no check.
    kernel = Kernel(scratch / "linux", scratch / "config", tree.version, tree.name, digest)
    self_check(kernel, guest(), qdiscs=own.qdiscs if own else (), controls=own.controls if own else ())
    (scratch / "kernel.json").write_text(json.dumps({"version": tree.version, "source": tree.name}, indent=1) + "\n")
    if not own:
        tree.remove()
    log.unlink()
    report(1.0, "kernel ready")


def _take(tree: Tree, scratch: Path) -> None:
    shutil.copy(tree.objects / "linux", scratch / "linux")
    shutil.copy(tree.objects / ".config", scratch / "config")
