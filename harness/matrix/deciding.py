# SPDX-License-Identifier: Apache-2.0
"""Which sources decide what a run gives: all that its code imports, by whatever way, and what lies beside these."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from hardware.machine.files import CHECKOUT

#: What these build has a digest of its own, which is told beside the sources.
_NAMED_OTHERWISE = ("hardware.build", "hardware.guest", "hardware.desktop", "traffic.endpoints")


_DISCOVERY = "hardware.machine.discovery"


@functools.cache
def sources(*modules: str, checkout: Path = CHECKOUT) -> tuple[tuple[str, bytes], ...]:
    """Return path and content of all files that decide what `modules` ("harness.matrix.cell") do.

    Those are the project's modules among their imports, at whatever depth and wherever in a file they stand, but for
    types alone; and files beside them that are no Python, which they may read. Raises OSError.
    """
    files: dict[Path, bytes] = {}
    left = [*modules]
    while left:
        for path in _files(left.pop(), checkout):
            if path in files:
                continue
            files[path] = path.read_bytes()
            imported = [*_imports(path, files[path])]
            left += imported
            if _DISCOVERY in imported:  # it takes all that lies beside it
                package = ".".join(path.parent.relative_to(checkout).parts)
                left += (f"{package}.{module.stem}" for module in path.parent.glob("*.py"))
    for folder in {path.parent for path in files}:
        beside = (path for path in folder.iterdir() if path.is_file() and path.suffix not in (".py", ".pyc"))
        files |= {path: path.read_bytes() for path in beside}
    return tuple(sorted((str(path.relative_to(checkout)), content) for path, content in files.items()))


def _files(module: str, checkout: Path) -> Iterator[Path]:
    """The file of a module of the project and those of the packages that it is in."""
    if any(f"{module}.".startswith(f"{named}.") for named in _NAMED_OTHERWISE):
        return
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        place = checkout.joinpath(*parts[:depth])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                yield path


def _imports(path: Path, source: bytes) -> Iterator[str]:
    """The modules that a source imports when it runs; of `from a import b` both a and a.b, which may be one."""
    tree = ast.parse(source, str(path))
    types_alone = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in types_alone:
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
