# SPDX-License-Identifier: Apache-2.0
"""Short web flows without a browser: a server that sends the requested number of bytes, and a user who fetches.

Every fetch is a separate TCP connection; fetches start at times derived from the seed, however many are active. The
server needs only Python 3, so that it also runs on a remote host.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import random
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

MEAN_GAP_S = 2.0
"""Mean gap between one user's fetches; with the lengths below, 2.5 Mbit/s on average."""
P5_BYTES, P95_BYTES = 64 * 1024, 2 * 1024 * 1024
_Z95 = 1.6448536269514722
_REQUEST = struct.Struct("!Q")  # requested bytes
_BLOCK = bytes(256 * 1024)


def arrivals(
    seed: str, start_s: float = 0.0, *, mean_gap_s: float = MEAN_GAP_S, p5_bytes: int = P5_BYTES,
    p95_bytes: int = P95_BYTES,
) -> Iterator[tuple[float, int]]:  # fmt: skip
    """Yield the time (s, after `start_s`) and length (bytes) of every short flow, endlessly.

    Gaps are exponential; lengths are lognormal with these 5th and 95th percentiles (z = 1.645).
    """
    draw = random.Random(seed)
    mu = (math.log(p5_bytes) + math.log(p95_bytes)) / 2
    sigma = (math.log(p95_bytes) - math.log(p5_bytes)) / (2 * _Z95)
    at = start_s
    while True:
        at += draw.expovariate(1 / mean_gap_s)
        yield at, max(1, round(math.exp(draw.gauss(mu, sigma))))


async def serve(address: str, port: int, control: str) -> None:
    """Serve requests at `address`:`port` forever, with congestion control `control`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            # The route's setting overrides the listener's.
            own = writer.get_extra_info("socket")
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            (left,) = _REQUEST.unpack(await reader.readexactly(_REQUEST.size))
            while left > 0:
                writer.write(_BLOCK[:left])
                left -= len(_BLOCK)
                await writer.drain()

    server = await asyncio.start_server(answer, address, port, backlog=128)
    print("listening", file=sys.stderr, flush=True)
    async with server:
        await server.serve_forever()


async def fetch(address: str, port: int, seed: str) -> None:
    """Fetch from `address`:`port` at the times of `arrivals` until cancelled; print every fetch as a line of JSON.

    `at` is its scheduled start, s from now; `start` (Unix s) its actual start, from the local `port`; `fct_s` the time
    from the first SYN to the last byte, null if it did not complete.
    """
    began, under_way = time.monotonic(), set[asyncio.Task[None]]()
    try:
        for at, size in arrivals(seed):
            await asyncio.sleep(max(0.0, began + at - time.monotonic()))
            under_way.add(task := asyncio.create_task(_fetch_one(address, port, at, size)))
            task.add_done_callback(under_way.discard)
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _fetch_one(address: str, port: int, at: float, size: int) -> None:
    row: dict[str, Any] = {"at": at, "start": time.time(), "bytes": size, "port": None, "fct_s": None}
    begun, left = time.monotonic(), size
    try:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(address, port)
            with contextlib.closing(writer):
                row["port"] = writer.get_extra_info("sockname")[1]
                writer.write(_REQUEST.pack(size))
                while left > 0 and (got := await reader.read(1 << 20)):
                    left -= len(got)
                row["fct_s"] = None if left else round(time.monotonic() - begun, 6)
    finally:
        print(json.dumps(row), flush=True)


def main(arguments: Sequence[str]) -> int:
    """`web.py serve ADDRESS PORT` answers, `web.py fetch ADDRESS PORT --seed=TEXT` fetches, both until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("does", choices=("serve", "fetch"))
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--control", default="cubic", help="congestion control of the server")
    parser.add_argument("--seed", default="1")
    chosen = parser.parse_args(arguments)
    to = chosen.address, chosen.port
    try:
        asyncio.run(serve(*to, chosen.control) if chosen.does == "serve" else fetch(*to, chosen.seed))
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        print(f"{chosen.does} {chosen.address}:{chosen.port}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
