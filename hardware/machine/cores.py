# SPDX-License-Identifier: Apache-2.0
"""Which processor a guest may have to itself, agreed between all processes of this machine without a file."""

from __future__ import annotations

import os
import socket


class Lease:
    """One of ``cores`` (default: those that this process may use) that nobody else here has leased.

    When all are taken one is shared. The lease is the name of an abstract socket, so it ends with the process at the
    latest, however that ends.
    """

    def __init__(self, cores: list[int] | None = None) -> None:
        mine = sorted(os.sched_getaffinity(0)) if cores is None else cores
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for self.core in mine:
            try:
                self._socket.bind(f"\0sojourn-core-{self.core}")
                return
            except OSError:
                continue
        self.core = mine[os.getpid() % len(mine)]

    def end(self) -> None:
        """Give the processor back."""
        self._socket.close()

    def __enter__(self) -> int:
        return self.core

    def __exit__(self, *_: object) -> None:
        self.end()
