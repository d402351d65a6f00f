# SPDX-License-Identifier: Apache-2.0
"""What Sojourn's own origins of video share: HTTP/1.1 over TLS, a page's files, a log of requests, and pacing."""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from aiohttp import web

from sojourn.apps.standins.clip import shift, timescale

NOTES = "notes"
"""The key of a request under which a handler puts what it decides, for the request's line in the log."""
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mpd": "application/dash+xml",
    ".mp4": "video/mp4",
}
SEGMENT = "video/iso.segment"
CHUNK = 32 << 10
"""Bytes that a handler writes at once."""
_LARGEST = 64 << 10
#: Of Linux; Python's socket has no name for it. In bytes/s.
_SO_MAX_PACING_RATE = 47
_UNPACED = -1  # ~0U (socket(7))


@lru_cache(maxsize=256)
def read(file: Path) -> bytes:
    """Return the content of a file that does not change."""
    return file.read_bytes()


def media_segment(folder: Path, number: int, loop: int, segment_s: float) -> bytes:
    """Return a segment, from 1 on, with its own time, of a rendition whose first `loop` segments are files.

    Raises FileNotFoundError for a folder without it.
    """
    again, first = divmod(number - 1, loop)
    content = read(folder / f"{first + 1}.m4s")
    ticks = again * round(loop * segment_s * timescale(read(folder / "init.mp4")))
    return shift(content, ticks, again * loop) if again else content


def answer(body: bytes, kind: str) -> web.Response:
    """Return an answer that no cache keeps."""
    return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": "no-store"})


def pace(request: web.Request, rate_bps: int | None) -> None:
    """Let the kernel send what follows on a request's connection at most at this rate (SO_MAX_PACING_RATE).

    None: as fast as congestion control allows.
    """
    assert request.transport
    connection = request.transport.get_extra_info("socket")
    rate = _UNPACED if rate_bps is None else rate_bps // 8
    connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate)


def application(
    routes: Iterable[web.RouteDef], folders: Sequence[Path], log: Callable[[Mapping[str, Any]], None]
) -> web.Application:
    """Return an application of `routes` and of the page in `folders`; `log` gets every request."""

    async def file(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        name = "index.html" if name == "watch" else name
        for folder in folders:
            if (file := folder / name).is_file():
                return answer(file.read_bytes(), TYPES.get(file.suffix, "application/octet-stream"))
        raise web.HTTPNotFound

    @web.middleware
    async def logged(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        began, status = time.time(), 0
        try:
            given = await handler(request)
            status = given.status
            return given
        except web.HTTPException as refused:
            status = refused.status
            raise
        finally:
            known = {"ts": began, "duration": time.time() - began, "uri": request.path_qs, "status": status}
            log(known | request.get(NOTES, {}))

    app = web.Application(middlewares=[logged], client_max_size=_LARGEST)
    app.add_routes([*routes, web.get(r"/{name:[\w.-]+}", file)])
    return app


def serve(arguments: list[str], description: str | None, routes: Callable[[Any], Iterable[web.RouteDef]]) -> None:
    """Serve until killed; print a line on stderr when ready. `routes` returns those of a site, from its JSON."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("chain", help="PEM file of the certificate")
    parser.add_argument("key", help="PEM file of its key")
    parser.add_argument("site", help="JSON of what is served")
    parser.add_argument("log", type=Path, help="a line of JSON for every request")
    parser.add_argument("folders", type=Path, nargs="+", help="folders of the page and of players")
    chosen = parser.parse_args(arguments)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(chosen.chain, chosen.key)
    with chosen.log.open("a", buffering=1) as log:
        known = routes(json.loads(chosen.site))
        app = application(known, chosen.folders, lambda line: print(json.dumps(line), file=log))

        def ready(*lines: object) -> None:
            print(*lines, file=sys.stderr, flush=True)

        web.run_app(app, host=chosen.address, port=chosen.port, ssl_context=tls, print=ready, access_log=None)
