# SPDX-License-Identifier: Apache-2.0
"""The origin of the SABR stand-in: by HTTP/1.1 over TLS, each POST answered with film of a few seconds in UMP."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from sojourn.apps.standins.http1.server import CHUNK, NOTES, media_segment, pace, read, serve
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

_UMP = "application/vnd.yt-ump"


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
        folder = Path(self.folder)
        return media_segment(folder, number, self.loop, self.segment_s) if number else read(folder / "init.mp4")


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
        duration_ms=round(track.segment_s * 1000), rate_bps=track.rate_bps, chunk=CHUNK,
    )  # fmt: skip


def _pacing_bps(film: ServedFilm, given: Answer) -> int:
    return pacing_bps(given.ahead_s, film.readahead_s, film.pictures[-1].rate_bps + film.sound.rate_bps)


def routes(site: Mapping[str, Any]) -> list[web.RouteDef]:
    """Return the route of requests for film, of a ServedFilm's JSON."""
    film = ServedFilm.of(site)

    async def playback(request: web.Request) -> web.StreamResponse:
        """Answer a VideoPlaybackAbrRequest."""
        response = web.StreamResponse(headers={"Content-Type": _UMP, "Cache-Control": "no-store"})
        response.enable_chunked_encoding()
        try:
            received = playback_request(await request.read())
        except WireError as wrong:
            request[NOTES] = {"error": str(wrong)}
            error = part(Part.SABR_ERROR, message({1: "sabr.malformed_request", 2: 400}))
            return web.Response(body=error, headers={"Content-Type": _UMP})
        given = answer(film, received)
        pacing = _pacing_bps(film, given) if film.pacing == "sammy" else None
        if pacing:
            pace(request, pacing)
        await response.prepare(request)
        size = 0
        for content in body(film, given):
            await response.write(content)
            size += len(content)
        await response.write_eof()
        request[NOTES] = {
            "size": size, "height": given.picture.height, "ahead_s": round(given.ahead_s, 3),
            "backoff_s": round(given.backoff_s, 3), "bandwidth_bps": received.bandwidth_bps,
            **({"pacing_bps": pacing} if pacing else {}),
            "segments": [f"{track.height or 'sound'} {number}" for track, number in given.segments],
        }  # fmt: skip
        return response

    return [web.post("/videoplayback", playback)]


if __name__ == "__main__":
    serve(sys.argv[1:], __doc__, routes)
