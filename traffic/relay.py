# SPDX-License-Identifier: Apache-2.0
"""End TCP connections that are redirected here, and make each anew to where it was going; a program of its own.

A network in user space, such as pasta's, is made for a link that loses nothing: it has no congestion control, and takes
no packet out of order. What goes on from there across a bottleneck must be a connection of a kernel's TCP.
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
#: What waits here, sent on late or read late, in bytes: a queue that no bottleneck shows.
_UNSENT, _UNREAD = 128 << 10, 256 << 10


def listener(address: str, port: int, control: str) -> socket.socket:
    """A socket whose connections have congestion control `control`. Raises OSError where the kernel has none such."""
    ear = socket.create_server((address, port), backlog=512)
    ear.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    ear.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
    return ear


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one connection until both ends are done; one whose far end cannot be had is reset."""
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
    """Pass on one direction, its end included; one that breaks is broken for the other end too."""
    try:
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        sink.write_eof()
    except OSError:
        sink.transport.abort()


async def main(address: str, port: int, control: str) -> None:
    """Relay what is redirected to `port` of `address`, and send it on towards the near end by `control`."""
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
