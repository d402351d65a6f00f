# SPDX-License-Identifier: Apache-2.0
"""The origin of the SABR stand-in: by HTTP/1.1 over TLS, each POST answered with film of a few seconds in UMP."""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from aiohttp import web

from sojourn.apps.standins.clip import shift, timescale
from sojourn.apps.standins.sabr.policies import POLICIES, REQUEST_S, ClientState, backoff_s, pacing_bps
from sojourn.apps.standins.sabr.wire import (
    Part,
    PlaybackRequest,
    WireError,
    initialization,
    media,
    message,
    next_request_policy,
    part,
    playback_request,
)

_CHUNK = 32 << 10
_LARGEST = 64 << 10
#: Of Linux; Python's socket has no name for it. In bytes/s.
_SO_MAX_PACING_RATE = 47
_TYPES = {".html": "text/html", ".js": "text/javascript"}


@dataclass(frozen=True)
class SabrFormat:
    """A format of SABR: its folder of segments, of which the first `loop` are files that repeat; lengths in s."""

    itag: int
    folder: str
    mime: str
    rate_bps: int
    height: int
    segment_s: float
    loop: int
    last: int

    def segment(self, number: int) -> bytes:
        """Return a segment, from 1 on, with its own time; 0 is the initialisation segment."""
        if number == 0:
            return _read(Path(self.folder, "init.mp4"))
        again, first = divmod(number - 1, self.loop)
        content = _read(Path(self.folder, f"{first + 1}.m4s"))
        ticks = again * round(self.loop * self.segment_s * timescale(self.segment(0)))
        return shift(content, ticks, again * self.loop) if again else content


@dataclass(frozen=True)
class ServedFilm:
    """What the server has: renditions of the picture, lowest first, the sound, and how it serves them."""

    pictures: tuple[SabrFormat, ...]
    sound: SabrFormat
    policy: str
    readahead_s: float
    pacing: str = "none"

    @classmethod
    def of(cls, known: Mapping[str, Any]) -> ServedFilm:
        """Return the film of its JSON."""
        pictures = tuple(SabrFormat(**it) for it in known["pictures"])
        return cls(pictures, SabrFormat(**known["sound"]), known["policy"], known["readahead_s"], known["pacing"])


@dataclass(frozen=True)
class Answer:
    """What one request gets: the rendition of the picture, the segments of picture and sound, and the backoff, s."""

    picture: SabrFormat
    segments: tuple[tuple[SabrFormat, int], ...]
    new: tuple[SabrFormat, ...]
    backoff_s: float
    ahead_s: float


@lru_cache(maxsize=256)
def _read(file: Path) -> bytes:
    return file.read_bytes()


def answer(film: ServedFilm, request: PlaybackRequest) -> Answer:
    """Decide what a request gets."""
    itags = {track.itag for track in film.pictures}
    had = max((last for itag, last in request.buffered.items() if itag in itags), default=0)
    heard = request.buffered.get(film.sound.itag, 0)
    first = film.pictures[0]
    ends = (had * first.segment_s, heard * film.sound.segment_s)
    ahead = max(0.0, min(ends) - request.player_time_ms / 1000)
    current = next((n for n, track in enumerate(film.pictures) if track.itag in request.selected), None)
    seen = ClientState(ahead, film.readahead_s, request.bandwidth_bps, current)
    picture = film.pictures[POLICIES[film.policy](seen, [track.rate_bps for track in film.pictures])]
    segments: list[tuple[SabrFormat, int]] = []
    until = min(ends) + (REQUEST_S if ahead < film.readahead_s else 0.0)
    for track, number in ((picture, had), (film.sound, heard)):
        while number * track.segment_s < until - 1e-6 and number < track.last:
            segments.append((track, number := number + 1))
    segments.sort(key=lambda it: ((it[1] - 1) * it[0].segment_s, it[0] is picture))  # as it is played, sound first
    after = ahead + until - min(ends)
    new = tuple(track for track in dict.fromkeys(it for it, _ in segments) if track.itag not in request.selected)
    return Answer(picture, tuple(segments), new, backoff_s(after, film.readahead_s), ahead)


def body(film: ServedFilm, given: Answer) -> Iterator[bytes]:
    """Yield the parts of an answer."""
    readahead_ms = round(film.readahead_s * 1000)
    least_ms = round((film.readahead_s - REQUEST_S) * 1000)
    yield next_request_policy(readahead_ms, max(0, least_ms), round(given.backoff_s * 1000))
    for header, track in enumerate(given.new):
        length_ms = round(track.last * track.segment_s * 1000)
        yield initialization(track.itag, track.mime, track.last, length_ms)
        yield from _segment(header, track, 0)
    for header, (track, number) in enumerate(given.segments, len(given.new)):
        yield from _segment(header, track, number)


def _segment(header: int, track: SabrFormat, number: int) -> Iterator[bytes]:
    start_ms = round((number - 1) * track.segment_s * 1000)
    yield from media(
        header % 128, track.itag, track.segment(number), number=number, start_ms=start_ms,
        duration_ms=round(track.segment_s * 1000), rate_bps=track.rate_bps, chunk=_CHUNK,
    )  # fmt: skip


def _pace(request: web.Request, film: ServedFilm, given: Answer) -> int:
    """Let the kernel pace what is sent from now on (socket(7), SO_MAX_PACING_RATE), and return the rate, bit/s."""
    assert request.transport
    rate = pacing_bps(given.ahead_s, film.readahead_s, film.pictures[-1].rate_bps + film.sound.rate_bps)
    connection = request.transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate // 8)
    return rate


class SabrSite:
    """What is served: the page, its script, and the answers to its requests for film."""

    def __init__(self, film: ServedFilm, folders: Sequence[Path], log: Callable[[Mapping[str, Any]], None]) -> None:
        self._film, self._folders, self._log = film, folders, log

    async def file(self, request: web.Request) -> web.StreamResponse:
        """Serve a file of the page."""
        name = request.match_info["name"]
        name = "index.html" if name == "watch" else name
        for folder in self._folders:
            if (file := folder / name).is_file():
                kind = _TYPES.get(file.suffix, "application/octet-stream")
                return web.Response(body=file.read_bytes(), headers={"Content-Type": kind, "Cache-Control": "no-store"})
        raise web.HTTPNotFound

    async def playback(self, request: web.Request) -> web.StreamResponse:
        """Answer a VideoPlaybackAbrRequest."""
        began = time.time()
        response = web.StreamResponse(headers={"Content-Type": "application/vnd.yt-ump", "Cache-Control": "no-store"})
        response.enable_chunked_encoding()
        try:
            received = playback_request(await request.read())
        except WireError as wrong:
            error = part(Part.SABR_ERROR, message({1: "sabr.malformed_request", 2: 400}))
            self._log({"ts": began, "uri": request.path_qs, "status": 200, "error": str(wrong)})
            return web.Response(body=error, headers={"Content-Type": "application/vnd.yt-ump"})
        given = answer(self._film, received)
        pacing = _pace(request, self._film, given) if self._film.pacing == "sammy" else None
        await response.prepare(request)
        size = 0
        for content in body(self._film, given):
            await response.write(content)
            size += len(content)
        await response.write_eof()
        self._log({
            "ts": began, "duration": time.time() - began, "uri": request.path_qs, "status": 200, "size": size,
            "height": given.picture.height, "ahead_s": round(given.ahead_s, 3), "backoff_s": round(given.backoff_s, 3),
            "bandwidth_bps": received.bandwidth_bps, **({"pacing_bps": pacing} if pacing else {}),
            "segments": [f"{track.height or 'sound'} {number}" for track, number in given.segments],
        })  # fmt: skip
        return response


def application(site: SabrSite) -> web.Application:
    """Return the site's application."""
    app = web.Application(client_max_size=_LARGEST)
    app.router.add_post("/videoplayback", site.playback)
    app.router.add_get(r"/{name:[\w.-]+}", site.file)
    return app


def main(arguments: list[str]) -> None:
    """Serve until killed; print a line on stderr when ready."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("chain", help="PEM file of the certificate")
    parser.add_argument("key", help="PEM file of its key")
    parser.add_argument("film", type=Path, help="JSON of a ServedFilm")
    parser.add_argument("log", type=Path, help="a line of JSON for every request for film")
    parser.add_argument("folders", type=Path, nargs="+", help="folders of the page")
    chosen = parser.parse_args(arguments)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(chosen.chain, chosen.key)
    film = ServedFilm.of(json.loads(chosen.film.read_text()))
    with chosen.log.open("a", buffering=1) as log:
        site = SabrSite(film, chosen.folders, lambda line: print(json.dumps(line), file=log))

        def ready(*lines: object) -> None:
            print(*lines, file=sys.stderr, flush=True)

        app = application(site)
        web.run_app(app, host=chosen.address, port=chosen.port, ssl_context=tls, print=ready, access_log=None)


if __name__ == "__main__":
    main(sys.argv[1:])
