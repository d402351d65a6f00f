# SPDX-License-Identifier: Apache-2.0
"""A compiled kernel tree that stays in the cache, so that a change of one of a user's own files costs seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sojourn.hardware.kernel_build import kbuild, own_files
from sojourn.hardware.kernel_build.kbuild import Prepared, Recipe, Tree
from sojourn.hardware.kernel_build.own_files import OwnFiles, Placement
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError, ProgressCallback

FOLDER = "kernel-tree"
"""Its place in the cache: 3 GB for each kernel of Sojourn's that is extended."""
#: Files that say how far a tree is: its source is complete; everything is compiled, with a profile.
_PREPARED, _COMPILED = "prepared", "compiled"
#: Says that a compilation is under way, or did not end.
_COMPILING = "compiling"


@contextmanager
def compiled_with(
    recipe: Recipe, own: OwnFiles, log: Path, report: ProgressCallback, train: Callable[[Path, Path], None]
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
        _remove_unfinished(folder / _COMPILING, prepared.objects)
        placed = own_files.place(own, prepared.source)
        for file in placed.replaced:
            print(f"{own.folder / Path(file).name} replaces the kernel's {file}", file=sys.stderr)
        _be_hot(recipe, prepared, placed)
        report(0.13, f"compiling {own.names}")
        objects = [f"{file[:-2]}.o" for file in (*placed.replaced, *placed.patched) if file.endswith(".c")]
        _make(recipe, prepared, own, log, placed.patched, f"{own_files.PLACE}/", *objects)
        _refuse_common_headers(prepared, own, placed.patched)
        if not (folder / _COMPILED).exists():
            own_files.place(None, prepared.source)  # the training is of the kernel without them
            with log.open("ab") as out:
                kbuild.compile_prepared(recipe, prepared, out, report, train)
            (folder / _COMPILED).touch()
            own_files.place(own, prepared.source)
            _be_hot(recipe, prepared, placed)
        report(0.95, f"linking {own.names}")
        _make(recipe, prepared, own, log, placed.patched)
        (folder / _COMPILING).unlink()
        version = (prepared.objects / "include/config/kernel.release").read_text().strip()
        name = f"{prepared.name} with {own.names} sha256:{own.digest}"
        yield Tree(prepared.source, prepared.objects, version, name)


def _remove_unfinished(mark: Path, objects: Path) -> None:
    """Begin a compilation, and first remove what one that did not end may have left half-written.

    make takes half an object for a whole one, because it is newer than its source, if the command of an earlier one is
    noted (`.NAME.cmd`). Objects without one are compiled again anyway, and what this compilation has finished stays: it
    notes the command last.
    """
    if mark.exists():
        begun = mark.stat().st_mtime_ns
        for path in objects.rglob("*"):
            linked = path.suffix in (".o", ".a") or path.name == "linux" or path.name.startswith("vmlinux")
            noted = path.with_name(f".{path.name}.cmd")
            if linked and path.is_file() and path.stat().st_mtime_ns >= begun and _time_of(noted) < begun:
                path.unlink()
    mark.touch()


def _time_of(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _prepared(recipe: Recipe, folder: Path, log: Path, report: ProgressCallback) -> Prepared:
    if (mark := folder / _PREPARED).is_file():
        return kbuild.prepared_in(recipe, folder, mark.read_text())
    cache.remove_tree(folder)
    folder.mkdir(parents=True)
    prepared = kbuild.prepare(recipe, folder, None, log, report)
    mark.write_text(prepared.name)
    return prepared


def _be_hot(recipe: Recipe, prepared: Prepared, placed: Placement) -> None:
    """Have the recipe's hot files compiled by their profile, except those of which the code has changed."""
    changed = {*placed.replaced, *placed.patched}
    names = (f"{file}.o\n" for file in recipe.hot if f"{file}.c" not in changed and not _uses(prepared, file, changed))
    (prepared.tools / "hot").write_text("".join(names))


def _uses(prepared: Prepared, file: str, changed: set[str]) -> bool:
    """Whether a file, compiled before, includes one of the changed headers: its counts are then of other lines."""
    headers = [name for name in changed if name.endswith(".h")]
    commands = (prepared.objects / file).with_name(f".{Path(file).name}.o.cmd")
    used = commands.read_text() if headers and commands.is_file() else ""
    return any(f"/{name}" in used for name in headers)


def _refuse_common_headers(prepared: Prepared, own: OwnFiles, patched: Mapping[str, str]) -> None:
    """Raise BuildError for a patch of a header that nearly every file includes: kernel/cc compiles these only once."""
    common = prepared.tools / f"{kbuild.COMMON_HEADERS.name}.gch"
    headers = [name for name in patched if name.endswith(".h")]
    if not (headers and common.exists()):
        return
    compiled = common.read_bytes()
    if wrong := next((name for name in headers if f"/{name}\0".encode() in compiled), None):
        own_files.place(None, prepared.source)
        common.unlink()
        raise BuildError(
            f"--kernel-source: {own.folder / patched[wrong]}: changes {wrong}, which nearly every file includes; "
            "give a whole Linux tree instead", code="unsupported",
        )  # fmt: skip


def _make(
    recipe: Recipe, prepared: Prepared, own: OwnFiles, log: Path, patched: Mapping[str, str], *goals: str
) -> None:
    begins = log.stat().st_size
    try:
        with log.open("ab") as out:
            kbuild.make_again(recipe, prepared, out, *goals)
    except BuildError as failed:
        with log.open("rb") as said:
            said.seek(begins)
            error = own_files.first_error(said.read().decode(errors="replace"), own, patched)
        if not error:
            raise
        raise BuildError(f"--kernel-source: {error} (all output: {log})", code="invalid-value") from failed
