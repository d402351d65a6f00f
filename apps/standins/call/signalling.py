# SPDX-License-Identifier: Apache-2.0
"""The signalling server of a call: it serves the page and relays messages between the two ends."""

from __future__ import annotations

import argparse
import ssl
import sys
from collections.abc import Iterable
from pathlib import Path

from aiohttp import WSMsgType, web

PAGE = Path(__file__).parent


class Room:
    """A call has two ends; the second to arrive calls. Messages sent before the other end arrives are dropped."""

    def __init__(self) -> None:
        self._there: list[web.WebSocketResponse] = []

    async def enter(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one end until it leaves, then notify the other."""
        # An answer may take half of this time, as in ICE (RFC 7675, 5.1): behind a full queue, a pong takes seconds.
        socket = web.WebSocketResponse(heartbeat=60)
        await socket.prepare(request)
        if len(self._there) == 2:
            await socket.close(message=b"the call already has two ends")
            return socket
        self._there.append(socket)
        if len(self._there) == 2:
            await socket.send_json({"call": True})
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    for other in self._others(socket):
                        await other.send_str(message.data)
        finally:
            self._there.remove(socket)
            for other in self._others(socket):
                await other.send_json({"left": True})
        return socket

    def _others(self, socket: web.WebSocketResponse) -> Iterable[web.WebSocketResponse]:
        return [other for other in self._there if other is not socket and not other.closed]


def application() -> web.Application:
    """The page at /, the room's websocket at /room."""
    app = web.Application()
    app.router.add_get("/room", Room().enter)
    app.router.add_get("/", _page)
    app.router.add_static("/", PAGE)
    return app


async def _page(_: web.Request) -> web.StreamResponse:
    return web.FileResponse(PAGE / "index.html")


def main(arguments: list[str]) -> None:
    """Serve until killed; print a line on stderr when ready. TLS, because only secure pages may use a camera."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("chain", help="PEM file of the certificate")
    parser.add_argument("key", help="PEM file of its key")
    chosen = parser.parse_args(arguments)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(chosen.chain, chosen.key)

    def ready(*lines: object) -> None:
        print(*lines, file=sys.stderr, flush=True)

    web.run_app(application(), host=chosen.address, port=chosen.port, ssl_context=tls, print=ready)


if __name__ == "__main__":
    main(sys.argv[1:])
