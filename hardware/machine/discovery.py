# SPDX-License-Identifier: Apache-2.0
"""Discovery of what a package's modules define: a new file needs no registration."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module


def defined_in(package: str, path: Iterable[str]) -> Iterator[object]:
    """Yield everything that a package's modules define, in the order of their names, without their imports.

    `path` is the package's `__path__`; subpackages are skipped. Raises what a module raises.
    """
    for entry in pkgutil.iter_modules(path):
        if not entry.ispkg:
            module = import_module(f"{package}.{entry.name}")
            yield from (thing for thing in vars(module).values() if getattr(thing, "__module__", "") == module.__name__)
