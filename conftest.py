# SPDX-License-Identifier: Apache-2.0
"""Registers Sojourn's options and fixtures."""

import sys
from pathlib import Path

# For `tests` and `sojourn`. `pythonpath` in pyproject.toml would do the same in a wheel, and expose its rooms.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "harness" / "api")]

pytest_plugins = ["sojourn.harness.experiment.plugin", "sojourn.harness.matrix.plugin"]
