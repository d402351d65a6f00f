# SPDX-License-Identifier: Apache-2.0
"""For notebooks and programs of your own: `import sojourn; run = sojourn.load("results/…")` (docs/data.md)."""

from harness.report.data import RunData, load

__all__ = ["RunData", "load"]
