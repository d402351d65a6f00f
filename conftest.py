# SPDX-License-Identifier: Apache-2.0
"""Registers Sojourn's options and fixtures."""

import sys
from pathlib import Path

# For `sojourn` and `tests`. `pythonpath` in pyproject.toml would do the same in a wheel, and expose its rooms.
sys.path.insert(0, str(Path(__file__).parent))

pytest_plugins = ["sojourn.harness.experiment.plugin", "sojourn.harness.matrix.plugin"]
