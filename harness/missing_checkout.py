# SPDX-License-Identifier: Apache-2.0
"""Stands for the package `sojourn` once the checkout that provides it was moved or deleted.

harness/setup.sh copies it into the Python environment, where it comes after the checkout in the path of modules.
"""

from __future__ import annotations

import sys
from pathlib import Path

_ENVIRONMENT = Path(__file__).resolve().parents[1]
_CHECKOUT = (_ENVIRONMENT / "sojourn-checkout").read_text().rpartition(" ")[0]
_WHY = (
    f"the environment {_ENVIRONMENT} runs the Sojourn of {_CHECKOUT}, which was moved or deleted; "
    "run `make environment` in the checkout that it shall run"
)

if Path(sys.argv[0]).name == "sojourn":
    sys.exit(f"sojourn: {_WHY}")
raise ModuleNotFoundError(_WHY, name="sojourn")
