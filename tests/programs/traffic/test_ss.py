# SPDX-License-Identifier: Apache-2.0
"""What ss tells of a real socket whose program writes less than the path carries, and of one that writes all it can."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from typing import Any

from sojourn.traffic import ss


def sampled(chunk: int, pause_s: float, seconds: float = 0.4) -> dict[str, Any]:
    """The sender's socket after it has written `chunk` bytes each `pause_s` over loopback for some time."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as writer:
        writer.connect(listener.getsockname())
        reader, _ = listener.accept()
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                writer.sendall(bytes(chunk))
                time.sleep(pause_s)

        def read() -> None:
            while reader.recv(1 << 16):
                pass

        threads = [threading.Thread(target=write), threading.Thread(target=read)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        wanted = f"sport = :{writer.getsockname()[1]}"
        told = subprocess.run(["ss", "-tinoHO", wanted], check=True, capture_output=True, text=True).stdout
        stop.set()
        threads[0].join()
        writer.shutdown(socket.SHUT_WR)
        threads[1].join()
        reader.close()
    (flow,) = filter(None, map(ss.parse, told.splitlines()))
    return flow


def test_a_writer_that_pauses_is_app_limited_and_has_nothing_waiting() -> None:
    slow = sampled(2_000, 0.01)
    assert slow["app_limited"] and not slow["notsent"] and slow["delivered"] > 5


def test_a_writer_that_never_pauses_is_not_starved() -> None:
    bulk = sampled(1 << 20, 0.0)
    assert not bulk["app_limited"] or bulk["notsent"]
    assert bulk["bytes_acked"] > 1 << 20
