# SPDX-License-Identifier: Apache-2.0
"""Entry point of the command `sojourn`: Ctrl-C prints one line even while modules are being imported."""

from __future__ import annotations

import sys

_STOPPED = 130


def main() -> None:
    """Run the command line."""
    try:
        from sojourn.harness.cli import app

        app()
    except KeyboardInterrupt:
        print("sojourn: stopped by Ctrl-C", file=sys.stderr)
        sys.exit(_STOPPED)
