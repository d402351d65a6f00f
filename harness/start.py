# SPDX-License-Identifier: Apache-2.0
"""Where the command `sojourn` starts: Ctrl-C is one line also while its modules are still being read."""

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
