# SPDX-License-Identifier: Apache-2.0
"""What ss tells of a real socket whose program writes less than the path carries, and of one that writes all it can."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from typing import Any

from sojourn.traffic import ss

_WAIT_S = 60.0


def sampled(chunk: int, pause_s: float, reads: int = 0) -> dict[str, Any]:
    """The sender's socket while `chunk` bytes are written each `pause_s` over loopback.

    With `reads`, once the reader has stopped after so many bytes and the writer has more waiting.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as writer:
        writer.connect(listener.getsockname())
        reader, _ = listener.accept()
        stop, enough = threading.Event(), threading.Event()

        def write() -> None:
            while not stop.is_set():
                writer.sendall(bytes(chunk))
                time.sleep(pause_s)

        def read() -> None:
            got = 0
            while data := reader.recv(1 << 16):
                got += len(data)
                if reads and got >= reads:
                    enough.set()
                    stop.wait()

        threads = [threading.Thread(target=write), threading.Thread(target=read)]
        for thread in threads:
            thread.start()
        if reads:
            assert enough.wait(_WAIT_S)
        else:
            time.sleep(0.4)
        deadline = time.monotonic() + _WAIT_S
        while True:
            wanted = f"sport = :{writer.getsockname()[1]}"
            told = subprocess.run(["ss", "-tinoHO", wanted], check=True, capture_output=True, text=True).stdout
            (flow,) = filter(None, map(ss.parse, told.splitlines()))
            if not reads or flow["notsent"] or time.monotonic() > deadline:
                break
        stop.set()
        threads[0].join()
        writer.shutdown(socket.SHUT_WR)
        threads[1].join()
        reader.close()
    return flow


def test_a_writer_that_pauses_is_app_limited_and_has_nothing_waiting() -> None:
    slow = sampled(2_000, 0.01)
    assert slow["app_limited"] and not slow["notsent"] and slow["delivered"] > 5


def test_a_writer_that_never_pauses_is_not_starved() -> None:
    bulk = sampled(1 << 20, 0.0, reads=2 << 20)
    assert bulk["notsent"] and bulk["bytes_acked"] > 1 << 20
