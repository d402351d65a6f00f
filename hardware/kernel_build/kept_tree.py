# SPDX-License-Identifier: Apache-2.0
"""A compiled kernel tree that stays in the cache, so that a change of one of a user's own files costs seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sojourn.hardware.kernel_build import kbuild, own_files
from sojourn.hardware.kernel_build.kbuild import Prepared, Recipe, Tree
from sojourn.hardware.kernel_build.own_files import OwnFiles
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError, Progress

FOLDER = "kernel-tree"
"""Its place in the cache: 3 GB for each kernel of Sojourn's that is extended."""
#: Files that say how far a tree is: its source is complete; everything is compiled, with a profile.
_PREPARED, _COMPILED = "prepared", "compiled"


@contextmanager
def compiled_with(
    recipe: Recipe, own: OwnFiles, log: Path, report: Progress, train: Callable[[Path, Path], None]
) -> Iterator[Tree]:
    """Yield the tree of Sojourn's kernel, compiled with a user's own files, which stays locked until the block ends.

    The first use compiles all of it. What was interrupted continues. Raises BuildError: as `kbuild.compile_kernel`,
    and with the compiler's first error about the user's files, which are compiled before all others.
    """
    folder = cache.root() / FOLDER / kbuild.digest(recipe, None)
    log.parent.mkdir(parents=True, exist_ok=True)
    with cache.locked(folder.with_name(f".{folder.name}.lock")):
        log.write_bytes(b"")
        prepared = _prepared(recipe, folder, log, report)
        replaced = own_files.place(own, prepared.source)
        for file in replaced:
            print(f"{own.folder / Path(file).name} replaces the kernel's {file}", file=sys.stderr)
        _be_hot(recipe, prepared, replaced)
        report(f"compiling {', '.join(own.built)}", 0.13)
        _make(recipe, prepared, own, log, f"{own_files.PLACE}/", *(f"{file[:-2]}.o" for file in replaced))
        if not (folder / _COMPILED).exists():
            own_files.place(None, prepared.source)  # the training is of the kernel without them
            with log.open("ab") as out:
                kbuild.compile_prepared(recipe, prepared, out, report, train)
            (folder / _COMPILED).touch()
            own_files.place(own, prepared.source)
            _be_hot(recipe, prepared, replaced)
        report(f"linking {', '.join(own.built)}", 0.95)
        _make(recipe, prepared, own, log)
        version = (prepared.objects / "include/config/kernel.release").read_text().strip()
        name = f"{prepared.name} with {', '.join(own.built)} sha256:{own.digest}"
        yield Tree(prepared.source, prepared.objects, version, name)


def _prepared(recipe: Recipe, folder: Path, log: Path, report: Progress) -> Prepared:
    if (mark := folder / _PREPARED).is_file():
        return kbuild.prepared_in(recipe, folder, mark.read_text())
    cache.remove_tree(folder)
    folder.mkdir(parents=True)
    prepared = kbuild.prepare(recipe, folder, None, log, report)
    mark.write_text(prepared.name)
    return prepared


def _be_hot(recipe: Recipe, prepared: Prepared, replaced: list[str]) -> None:
    """Have the recipe's hot files compiled by their profile, except those of which the code has changed."""
    names = (f"{file}.o\n" for file in recipe.hot if f"{file}.c" not in replaced)
    (prepared.tools / "hot").write_text("".join(names))


def _make(recipe: Recipe, prepared: Prepared, own: OwnFiles, log: Path, *goals: str) -> None:
    begins = log.stat().st_size
    try:
        with log.open("ab") as out:
            kbuild.make_again(recipe, prepared, out, *goals)
    except BuildError as failed:
        with log.open("rb") as said:
            said.seek(begins)
            error = own_files.first_error(said.read().decode(errors="replace"), own)
        if not error:
            raise
        raise BuildError(f"--kernel-source: {error} (all output: {log})", code="invalid-value") from failed
