# SPDX-License-Identifier: Apache-2.0
"""What the modules of a package define, found by looking: a new file is known without a line elsewhere."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module


def defined_in(package: str, path: Iterable[str]) -> Iterator[object]:
    """Yield all that the modules of a package define, in the order of their names, not what they import.

    `path` is the package's `__path__`; the packages in it are left alone. Raises what a module raises.
    """
    for entry in pkgutil.iter_modules(path):
        if not entry.ispkg:
            module = import_module(f"{package}.{entry.name}")
            yield from (thing for thing in vars(module).values() if getattr(thing, "__module__", "") == module.__name__)
