# SPDX-License-Identifier: Apache-2.0
"""What other packages add through entry points: services, queues, contenders, gates; and the packages themselves.

https://packaging.python.org/en/latest/specifications/entry-points/
"""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TypeVar

_LOG = logging.getLogger(__name__)
GROUPS = ("sojourn.services", "sojourn.qdiscs", "sojourn.contenders", "sojourn.programs", "sojourn.gates")
T = TypeVar("T")


@dataclass(frozen=True)
class Broken:
    """An entry point that cannot be used: its name, its package, and the reason."""

    name: str
    package: str
    why: str


def offered(group: str, kind: type[T]) -> Iterator[T]:
    """Yield the objects of a group's entry points, in the order of their names: each a `kind`.

    An entry point that cannot be loaded, or is something else, is skipped with a warning that names its package.
    """
    for thing in named(group, kind):
        if isinstance(thing, Broken):
            _LOG.warning("%s: %s of %s is skipped: %s", group, thing.name, thing.package, thing.why)
        else:
            yield thing


def named(group: str, kind: type[T]) -> Iterator[T | Broken]:
    """Yield the same objects, and `Broken` for unusable entry points."""
    for point in sorted(metadata.entry_points(group=group), key=lambda it: it.name):
        whose = f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"
        try:
            thing = point.load()
        except Exception as wrong:  # third-party modules may raise anything
            yield Broken(point.name, whose, f"{type(wrong).__name__}: {wrong}")
        else:
            yield thing if isinstance(thing, kind) else Broken(point.name, whose, f"not a {kind.__name__}")


def merge_with_builtin(ours: Mapping[str, T], theirs: Mapping[str, T], group: str) -> dict[str, T]:
    """Merge built-in things with those of other packages by name; a built-in name takes precedence, with a warning."""
    for name in ours.keys() & theirs.keys():
        _LOG.warning("%s: %s is a built-in name; another package's is skipped", group, name)
    return {**ours, **{name: thing for name, thing in theirs.items() if name not in ours}}


@dataclass(frozen=True)
class Package:
    """An installed package that adds something, and the folder of its modules."""

    name: str
    version: str
    modules: tuple[str, ...]
    """Its top-level modules that entry points name."""

    def files(self) -> list[tuple[str, bytes]]:
        """Return path and content of all its files, relative to a folder of packages, and of its metadata."""
        points = metadata.distribution(self.name).read_text("entry_points.txt") or ""
        about = f"{self.name.replace('-', '_')}-{self.version}.dist-info"
        files = [
            (f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n".encode()),
            (f"{about}/entry_points.txt", points.encode()),
        ]
        for module in self.modules:
            spec = importlib.util.find_spec(module)
            for place in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
                files += [
                    (f"{module}/{path.relative_to(place)}", path.read_bytes())
                    for path in place.rglob("*")
                    if path.is_file() and "__pycache__" not in path.parts
                ]
            if spec and not spec.submodule_search_locations and spec.origin:
                files.append((Path(spec.origin).name, Path(spec.origin).read_bytes()))
        return files


@functools.cache
def packages() -> tuple[Package, ...]:
    """Return the packages that add something, in the order of their names."""
    modules: dict[tuple[str, str], set[str]] = {}
    for group in GROUPS:
        for point in metadata.entry_points(group=group):
            if point.dist:
                modules.setdefault((point.dist.name, point.dist.version), set()).add(point.module.partition(".")[0])
    return tuple(Package(*known, tuple(sorted(names))) for known, names in sorted(modules.items()))
