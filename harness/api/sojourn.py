# SPDX-License-Identifier: Apache-2.0
"""For your notebooks and programs: `import sojourn; run = sojourn.load("results/…")` (docs/data.md).

All rooms are subpackages. In a checkout `sojourn.harness` is the folder harness/ in its root; a wheel has this file as
the `__init__.py` of `sojourn/`, next to the rooms.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.harness.report.data import RunData, load
    from sojourn.harness.report.figures import Drawing, figure

__all__ = ["Drawing", "RunData", "figure", "load"]

_MODULES = {"Drawing": "figures", "RunData": "data", "figure": "figures", "load": "data"}

_HERE = os.path.dirname(os.path.realpath(__file__))
__path__ = [_HERE if os.path.basename(__file__) == "__init__.py" else os.path.dirname(os.path.dirname(_HERE))]


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: most processes need a room, and no tables."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"sojourn.harness.report.{_MODULES[name]}"), name)
