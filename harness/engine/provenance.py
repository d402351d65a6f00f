# SPDX-License-Identifier: Apache-2.0
"""The files that determine a run's results: everything that its code imports, and the files next to these."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sojourn.hardware.machine.cache import digest
from sojourn.hardware.machine.files import CHECKOUT

#: What these build has a digest of its own, which is named with the sources.
_NAMED_OTHERWISE = (
    "hardware/kernel_build/build", "hardware/images/guest", "hardware/images/desktop", "traffic/endpoints",
)  # fmt: skip
CELL_SCORING = (
    "sojourn.scoring.transport.cell_scores", "sojourn.scoring.protection", "sojourn.scoring.media_phases",
    "sojourn.scoring.cell_tables",
)  # fmt: skip
"""What scores the run of a cell."""
_DISCOVERY = "sojourn.hardware.machine.discovery"


@dataclass(frozen=True)
class SourceFiles:
    """The files of a checkout that determine the behaviour of some modules, by relative path; can be pickled.

    It is computed once, where a job is created: two threads that parse at once crash Python 3.11 with
    `SystemError: AST constructor recursion depth mismatch`, and a Dask worker has many. A worker reads its own files.
    """

    files: tuple[str, ...]
    packages: tuple[str, ...]
    """Folders of which every module is included."""

    def contents(self, checkout: Path = CHECKOUT) -> tuple[tuple[str, bytes], ...]:
        """Return path and content of these files, and of non-Python files in their folders, sorted.

        Missing files are skipped. A process keeps what it has read: its code is as old. Parses nothing.
        Raises OSError.
        """
        return _contents(self, checkout)


@functools.cache
def source_files(*modules: str, checkout: Path = CHECKOUT) -> SourceFiles:
    """Return which files decide what `modules` ("sojourn.bottleneck.cell") do.

    These are the project's modules among their imports, at any depth and anywhere in a file, except for
    type checking. Raises OSError.
    """
    files, packages = set[Path](), set[Path]()
    left = [*modules]
    while left:
        for path in _files(left.pop(), checkout):
            if path in files:
                continue
            files.add(path)
            imported = [*_imports(path)]
            left += imported
            if _DISCOVERY in imported:  # it discovers everything in its folder
                packages.add(path.parent)
                package = ".".join(("sojourn", *path.parent.relative_to(checkout).parts))
                left += (f"{package}.{module.stem}" for module in path.parent.glob("*.py"))
    names = (tuple(sorted(str(path.relative_to(checkout)) for path in found)) for found in (files, packages))
    return SourceFiles(*names)


def scoring_digest(window_s: float, tail_s: float, sources: SourceFiles | None = None) -> str:
    """Name the sources and the parameters that make scores of a cell's raw files; the window of D_SS is in s."""
    contents = (sources or source_files(*CELL_SCORING)).contents()
    return digest([*contents, ("window", f"{float(window_s)} {float(tail_s)}".encode())])


@functools.cache
def _contents(named: SourceFiles, checkout: Path) -> tuple[tuple[str, bytes], ...]:
    paths = {checkout / name for name in named.files}
    paths |= {path for folder in named.packages for path in _listed(checkout / folder) if path.suffix == ".py"}
    for folder in {path.parent for path in paths}:
        paths |= {path for path in _listed(folder) if path.suffix not in (".py", ".pyc")}
    held = ((str(path.relative_to(checkout)), _content(path)) for path in paths)
    return tuple(sorted((name, content) for name, content in held if content is not None))


@functools.cache
def _listed(folder: Path) -> tuple[Path, ...]:
    return tuple(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else ()


@functools.cache
def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _files(module: str, checkout: Path) -> Iterator[Path]:
    """Yield the file of a project's module and of its packages."""
    top, *parts = module.split(".")
    if top != "sojourn" or any("/".join([*parts, ""]).startswith(f"{named}/") for named in _NAMED_OTHERWISE):
        return
    for depth in range(1, len(parts) + 1):
        place = checkout.joinpath(*parts[:depth])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                yield path


def _imports(path: Path) -> Iterator[str]:
    """Yield the modules that a source imports at run time; of `from a import b` both a and a.b, maybe a module."""
    tree = ast.parse(path.read_bytes(), str(path))
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
