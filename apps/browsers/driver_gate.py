# SPDX-License-Identifier: Apache-2.0
"""A gate to ChromeDriver: a program that runs in a network namespace with nothing but ChromeDriver.

    python driver_gate.py SOCKET COMMAND…

Starts COMMAND, prints "ready" on stderr once it listens, and connects every client of the Unix socket SOCKET to it.
Only the socket's owner can open the socket. Ends when COMMAND ends. Needs nothing but Python.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading

_LISTENS = re.compile(r"successfully on port (\d+)")


def main(path: str, *command: str) -> None:
    """See the module's docstring."""
    gate = socket.socket(socket.AF_UNIX)
    gate.bind(path)
    gate.listen()
    driver = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert driver.stdout
    port = next((int(match[1]) for line in driver.stdout if (match := _LISTENS.search(line))), None)
    if port is None:
        sys.exit(f"ChromeDriver has ended, exit code {driver.wait()}")
    threading.Thread(target=_end_with, args=[driver], daemon=True).start()
    print("ready", file=sys.stderr, flush=True)
    while True:
        peer, _ = gate.accept()
        with peer, socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            socket.send_fds(peer, [b"."], [connection.fileno()])


def _end_with(driver: subprocess.Popen[str]) -> None:
    assert driver.stdout
    for _ in driver.stdout:  # an unread pipe would block it
        pass
    os._exit(driver.wait() & 0xFF)


if __name__ == "__main__":
    main(*sys.argv[1:])
