# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends every wait."""

from __future__ import annotations

import signal


def end_waits() -> None:
    """Let SIGINT end a wait that has no time limit.

    Polars sets a handler of SIGINT when it is imported, with SA_RESTART: behind it such a wait goes on in the kernel,
    and KeyboardInterrupt comes once the wait is over.
    """
    import polars  # noqa: F401  -- its handler must stand already

    signal.siginterrupt(signal.SIGINT, True)
