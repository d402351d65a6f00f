# SPDX-License-Identifier: Apache-2.0
"""The origin of a broadcast with low latency: it sends the chunks of a film as they become due, by HTTP/1.1 over TLS.

A segment is one CMAF segment of several chunks (ISO/IEC 23000-19, 7.3.2). DASH players get the chunks of a segment in
one answer, each when it is due. For HLS players each chunk is a part (RFC 8216bis, 4.4.4.9), and a playlist is not
answered before it has the requested part (6.2.5.2).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

from aiohttp import web

from sojourn.apps.standins.hls import target_duration
from sojourn.apps.standins.http1.server import SEGMENT, TYPES, answer, media_segment, read, serve

#: The newest film whose parts a playlist lists, and the longest wait of a request for what is not due yet, in target
#: durations (RFC 8216bis, 4.4.4.9 and 6.2.5.2).
_WITH_PARTS = 3
_PLAYLIST = "application/vnd.apple.mpegurl"


@dataclass(frozen=True)
class Broadcast:
    """A broadcast: when its first segment began (Unix s), its segments' length (s), and the film that it repeats.

    `media` is the folder of the film's renditions, whose first `loop` segments are files. The broadcast has `last`
    segments, of which the newest `window` stay available. `hold_back_s` is how far HLS players stay behind.
    """

    start: float
    media: str
    loop: int
    last: int
    window: int
    segment_s: float
    chunks: int  # of a segment
    hold_back_s: float

    @property
    def chunk_s(self) -> float:
        """The length of a chunk, s."""
        return self.segment_s / self.chunks

    @property
    def with_parts_s(self) -> float:
        """How much of the newest film has parts, s."""
        return _WITH_PARTS * target_duration(self.segment_s)

    def due(self, number: int, chunk: int) -> float:
        """Return when a chunk, from 0 on, of a segment, from 1 on, has been broadcast, Unix s."""
        return self.start + (number - 1) * self.segment_s + (chunk + 1) * self.chunk_s

    def newest(self, now: float) -> tuple[int, int]:
        """Return the number of the segment that is being broadcast, and how many of its chunks are due."""
        passed = int((now - self.start) / self.chunk_s + 1e-6)
        number, chunks = divmod(passed, self.chunks)
        return (number + 1, chunks) if number < self.last else (self.last + 1, 0)

    def segment(self, rendition: int, number: int) -> list[bytes]:
        """Return the chunks of a segment. Raises FileNotFoundError for one that the broadcast does not have."""
        if not 1 <= number <= self.last:
            raise FileNotFoundError(number)
        folder = Path(self.media, str(rendition))
        return split(media_segment(folder, number, self.loop, self.segment_s), self.chunks, number)


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield type and content of every box in `data` (ISO/IEC 14496-12, 4.2), with 32-bit sizes."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if not 8 <= size <= len(data) - at:
            raise ValueError(f"a box of {size} bytes at {at} of {len(data)}")
        yield data[at + 4 : at + 8], data[at + 8 : at + size]
        at += size


def box(kind: bytes, content: bytes) -> bytes:
    """Return a box."""
    return (8 + len(content)).to_bytes(4, "big") + kind + content


def split(segment: bytes, chunks: int, number: int = 1) -> list[bytes]:
    """Return a media segment of one movie fragment as so many chunks of equally many samples, each a fragment.

    `number` is that of the segment. The index (sidx), which describes one fragment, is omitted. Raises ValueError for a
    segment that cannot be split so.
    """
    parts = dict(boxes(segment))
    moof, mdat = parts[b"moof"], parts[b"mdat"]
    traf = dict(boxes(dict(boxes(moof))[b"traf"]))
    tfhd, tfdt, trun = traf[b"tfhd"], traf[b"tfdt"], traf[b"trun"]
    duration = _default_duration(tfhd)
    time_at = int.from_bytes(tfdt[4:], "big")
    flags, count = int.from_bytes(trun[1:4], "big"), int.from_bytes(trun[4:8], "big")
    if not flags & 0x201 == 0x201 or flags & 0x100 or count % chunks:  # offset and sizes, no durations
        raise ValueError(f"a run of {count} samples with the flags {flags:#x} in {chunks} chunks")
    fixed = 8 + 4 + (4 if flags & 0x4 else 0)
    each, of_chunk = (len(trun) - fixed) // count, count // chunks
    made, read = [], 0
    for chunk in range(chunks):
        entries = trun[fixed + chunk * of_chunk * each : fixed + (chunk + 1) * of_chunk * each]
        length = sum(int.from_bytes(entries[at : at + 4], "big") for at in range(0, len(entries), each))
        # The flags of the first sample, a key frame, are those of the first chunk alone.
        kept, first = (flags, trun[12:fixed]) if chunk == 0 else (flags & ~0x4, b"")
        decoded = b"\1\0\0\0" + (time_at + chunk * of_chunk * duration).to_bytes(8, "big")
        head = trun[:1] + kept.to_bytes(3, "big") + of_chunk.to_bytes(4, "big")
        sequence = (number - 1) * chunks + chunk + 1
        made.append(_fragment(sequence, tfhd, decoded, head, first + entries, mdat[read : read + length]))
        read += length
    if read != len(mdat):
        raise ValueError(f"{len(mdat) - read} bytes of no sample")
    return [box(b"styp", parts[b"styp"]) + made[0], *made[1:]] if b"styp" in parts else made


def _fragment(sequence: int, tfhd: bytes, tfdt: bytes, head: bytes, samples: bytes, media: bytes) -> bytes:
    """Return a movie fragment with its media; `head` and `samples` are a trun's before and behind its data offset."""

    def moof(offset: int) -> bytes:
        run = box(b"trun", head + offset.to_bytes(4, "big") + samples)
        traf = box(b"traf", box(b"tfhd", tfhd) + box(b"tfdt", tfdt) + run)
        return box(b"moof", box(b"mfhd", b"\0\0\0\0" + sequence.to_bytes(4, "big")) + traf)

    return moof(len(moof(0)) + 8) + box(b"mdat", media)


def _default_duration(tfhd: bytes) -> int:
    """Return the duration of samples in a track fragment's header (ISO/IEC 14496-12, 8.8.7). Raises ValueError."""
    flags = int.from_bytes(tfhd[1:4], "big")
    if not flags & 0x8:
        raise ValueError("samples without a default duration")
    at = 8 + (8 if flags & 0x1 else 0) + (4 if flags & 0x2 else 0)
    return int.from_bytes(tfhd[at : at + 4], "big")


def playlist(broadcast: Broadcast, rendition: int, now: float) -> str:
    """Return the media playlist of a rendition at `now`, Unix s."""
    number, chunks = broadcast.newest(now)
    first = max(1, number - broadcast.window)
    began = datetime.fromtimestamp(broadcast.due(first, -1), UTC).isoformat(timespec="milliseconds")
    lines = [
        "#EXTM3U",
        "#EXT-X-VERSION:9",
        f"#EXT-X-TARGETDURATION:{target_duration(broadcast.segment_s)}",
        f"#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK={broadcast.hold_back_s:g}",
        f"#EXT-X-PART-INF:PART-TARGET={broadcast.chunk_s:g}",
        f"#EXT-X-MEDIA-SEQUENCE:{first}",
        f'#EXT-X-MAP:URI="/media/{rendition}/init.mp4"',
        f"#EXT-X-PROGRAM-DATE-TIME:{began.replace('+00:00', 'Z')}",
    ]
    for listed in range(first, number + 1):
        whole = listed < number
        if listed > number - ceil(broadcast.with_parts_s / broadcast.segment_s):
            for chunk in range(broadcast.chunks if whole else chunks):
                independent = ",INDEPENDENT=YES" if chunk == 0 else ""
                uri = f"/media/{rendition}/{listed}.{chunk}.m4s"
                lines.append(f'#EXT-X-PART:DURATION={broadcast.chunk_s:g},URI="{uri}"{independent}')
        if whole:
            lines += [f"#EXTINF:{broadcast.segment_s:g},", f"/media/{rendition}/{listed}.m4s"]
    if number <= broadcast.last:
        lines.append(f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="/media/{rendition}/{number}.{chunks}.m4s"')
    else:
        lines.append("#EXT-X-ENDLIST")
    return "\n".join(lines) + "\n"


class LowLatencySite:
    """What is served next to the page: the manifests, and the film's chunks."""

    def __init__(self, broadcast: Broadcast, live: Path) -> None:
        self._broadcast, self._live = broadcast, live

    async def _until(self, number: int, chunk: int) -> None:
        """Return when a chunk is due. Raises HTTPNotFound for one that is far away."""
        due = self._broadcast.due(number, chunk)
        if (rest := due - time.time()) > self._broadcast.with_parts_s:
            raise web.HTTPNotFound(text=f"due in {rest:.1f} s")
        while rest > 0:
            await asyncio.sleep(rest)
            rest = due - time.time()

    async def manifest(self, request: web.Request) -> web.StreamResponse:
        """Serve a manifest; a media playlist once it has the part that is requested."""
        name = request.match_info["name"]
        stem, _, kind = name.partition(".")
        if kind == "m3u8" and stem.isdecimal():
            if (number := request.query.get("_HLS_msn")) is not None:
                part = request.query.get("_HLS_part")
                chunk = self._broadcast.chunks - 1 if part is None else int(part)
                await self._until(int(number), chunk)
            return answer(playlist(self._broadcast, int(stem), time.time()).encode(), _PLAYLIST)
        if not (file := self._live / name).is_file():
            raise web.HTTPNotFound
        return answer(file.read_bytes(), TYPES.get(file.suffix, _PLAYLIST))

    async def media(self, request: web.Request) -> web.StreamResponse:
        """Serve an initialisation segment, a segment whose chunks follow when they are due, or one chunk."""
        rendition, name = int(request.match_info["rendition"]), request.match_info["name"]
        if name == "init.mp4":
            return answer(read(Path(self._broadcast.media, str(rendition), name)), TYPES[".mp4"])
        number, *chunk = (int(text) for text in name.removesuffix(".m4s").split("."))
        try:
            chunks = self._broadcast.segment(rendition, number)
        except FileNotFoundError:
            raise web.HTTPNotFound from None
        if chunk:
            await self._until(number, chunk[0])
            return answer(chunks[chunk[0]], SEGMENT)
        await self._until(number, 0)
        sent = web.StreamResponse(headers={"Content-Type": SEGMENT, "Cache-Control": "no-store"})
        sent.enable_chunked_encoding()
        await sent.prepare(request)
        for index, content in enumerate(chunks):
            await self._until(number, index)
            await sent.write(content)
        await sent.write_eof()
        return sent


def routes(site: Mapping[str, Any]) -> list[web.RouteDef]:
    """Return the routes of a broadcast: the JSON of its fields, and `live`, the folder of the manifests."""
    its = LowLatencySite(Broadcast(**{name: it for name, it in site.items() if name != "live"}), Path(site["live"]))
    return [
        web.get(r"/media/{rendition:\d+}/{name:init\.mp4|\d+(\.\d+)?\.m4s}", its.media),
        web.get(r"/live/{name:[\w.]+}", its.manifest),
    ]


if __name__ == "__main__":
    serve(sys.argv[1:], __doc__, routes)
