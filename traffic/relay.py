# SPDX-License-Identifier: Apache-2.0
"""A program that terminates redirected TCP connections and opens new ones to their original destinations.

A user-space network such as pasta's is made for a link without loss: it has no congestion control and does not accept
reordered packets. What crosses the bottleneck must be a connection of a kernel's TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys

READY = "relays"
"""What it prints (stdout) once it listens."""
_ORIGINAL_DST = 80  # SO_ORIGINAL_DST of linux/netfilter_ipv4.h
_CHUNK = 64 << 10
#: Bytes that may wait here: a queue that no bottleneck shows.
_UNSENT, _UNREAD = 128 << 10, 256 << 10


def listener(address: str, port: int, control: str) -> socket.socket:
    """Return a socket whose connections use congestion control `control`. Raises OSError if the kernel has none."""
    ear = socket.create_server((address, port), backlog=512)
    ear.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    ear.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
    return ear


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Relay one connection until both ends are done; reset it if the far end is not reachable."""
    near = writer.get_extra_info("socket")
    port, address = struct.unpack("!2xH4s8x", near.getsockopt(socket.SOL_IP, _ORIGINAL_DST, 16))
    wanted = socket.inet_ntoa(address), port
    try:
        if wanted == near.getsockname():
            raise ConnectionRefusedError("nothing was redirected")
        far = socket.socket()
        far.setblocking(False)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD)
        await asyncio.get_running_loop().sock_connect(far, wanted)
        far_reader, far_writer = await asyncio.open_connection(sock=far)
    except OSError:
        writer.transport.abort()
        return
    with contextlib.closing(writer), contextlib.closing(far_writer):
        await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Relay one direction including its end; if it breaks, break it for the other end too."""
    try:
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        sink.write_eof()
    except OSError:
        sink.transport.abort()


async def main(address: str, port: int, control: str) -> None:
    """Relay connections that are redirected to `port` of `address`, with `control` towards the near end."""
    server = await asyncio.start_server(relay, sock=listener(address, port, control))
    print(READY, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
    except OSError as error:
        raise SystemExit(f"no relay by {sys.argv[3]} at {sys.argv[1]}:{sys.argv[2]}: {error}") from error
    except KeyboardInterrupt:
        pass
