# SPDX-License-Identifier: Apache-2.0
"""The origin of a film on demand that paces every segment by the rule of Sammy, from the buffer that CMCD reports."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from sojourn.apps.standins.http1.server import CHUNK, NOTES, SEGMENT, TYPES, answer, media_segment, pace, read, serve
from sojourn.apps.standins.paced.cmcd import reported_buffer_s, requesting_cmcd
from sojourn.apps.standins.sabr.policies import pacing_bps


@dataclass(frozen=True)
class PacedFilm:
    """A film on demand in the folder of a `Clip`: segments of `segment_s` (s), of which the first `loop` are files.

    The player aims to have `readahead_s` (s) buffered; `top_bps` is the rate of the highest rendition, bit/s.
    """

    media: str
    loop: int
    last: int
    segment_s: float
    readahead_s: float
    top_bps: int

    async def manifest(self, _: web.Request) -> web.StreamResponse:
        """Serve the manifest, which requests CMCD."""
        text = requesting_cmcd(Path(self.media, "manifest.mpd").read_text())
        return answer(text.encode(), TYPES[".mpd"])

    async def initialization(self, request: web.Request) -> web.StreamResponse:
        """Serve the initialisation segment of a rendition, unpaced on a connection that may have been paced."""
        pace(request, None)
        try:
            return answer(read(Path(self.media, request.match_info["rendition"], "init.mp4")), TYPES[".mp4"])
        except FileNotFoundError:
            raise web.HTTPNotFound from None

    async def segment(self, request: web.Request) -> web.StreamResponse:
        """Serve a segment, paced if its request reports the buffer."""
        number = int(request.match_info["number"])
        folder = Path(self.media, request.match_info["rendition"])
        if not (1 <= number <= self.last and folder.is_dir()):
            raise web.HTTPNotFound
        content = media_segment(folder, number, self.loop, self.segment_s)
        ahead = reported_buffer_s(request.query.get("CMCD", ""))
        rate = None if ahead is None else pacing_bps(ahead, self.readahead_s, self.top_bps)
        pace(request, rate)
        request[NOTES] = {"size": len(content), **({"ahead_s": ahead, "pacing_bps": rate} if rate else {})}
        headers = {"Content-Type": SEGMENT, "Cache-Control": "no-store", "Content-Length": str(len(content))}
        sent = web.StreamResponse(headers=headers)
        await sent.prepare(request)
        for at in range(0, len(content), CHUNK):
            await sent.write(content[at : at + CHUNK])
        await sent.write_eof()
        return sent


def routes(site: Mapping[str, Any]) -> list[web.RouteDef]:
    """Return the routes of a PacedFilm, from its JSON."""
    film = PacedFilm(**site)
    return [
        web.get("/media/manifest.mpd", film.manifest),
        web.get(r"/media/{rendition:\d{1,2}}/init.mp4", film.initialization),
        web.get(r"/media/{rendition:\d{1,2}}/{number:\d{1,6}}.m4s", film.segment),
    ]


if __name__ == "__main__":
    serve(sys.argv[1:], __doc__, routes)
