# SPDX-License-Identifier: Apache-2.0
"""The manifests of a clip for any player: a film on demand, a broadcast, a broadcast with low latency."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.apps.standins.clip import Clip
from sojourn.apps.standins.hls import target_duration, window_segments, write_playlists

if TYPE_CHECKING:
    from sojourn.apps.standins.broadcast.server import Broadcast

CHUNKS = 5
"""Chunks of a segment, and so parts: 0.4 s each in a segment of 2 s."""
#: How fast a player may catch up or fall back, as a factor: by 5 %, less than a viewer notices.
_RATES = (0.95, 1.05)


def write_film(folder: Path, clip: Clip, offered: Sequence[int]) -> None:
    """Write HLS playlists of a film on demand into `folder`; its MPD is the clip's.

    `offered` are indices into the clip's ladder.
    """
    write_playlists(folder, clip, offered, window_segments(0, clip.segment_s))
    target = target_duration(clip.segment_s)
    for index in offered:
        lines = [
            "#EXTM3U", "#EXT-X-VERSION:7", f"#EXT-X-TARGETDURATION:{target}", "#EXT-X-PLAYLIST-TYPE:VOD",
            "#EXT-X-INDEPENDENT-SEGMENTS", f'#EXT-X-MAP:URI="/media/{index}/init.mp4"',
            *(f"#EXTINF:{clip.segment_s:.1f},\n/media/{index}/{n}.m4s" for n in range(1, clip.segments + 1)),
            "#EXT-X-ENDLIST",
        ]  # fmt: skip
        (folder / f"{index}.m3u8").write_text("\n".join(lines) + "\n")


def write_broadcast(folder: Path, clip: Clip, offered: Sequence[int], behind_s: float) -> None:
    """Write HLS playlists and the MPD of a broadcast that begins now into `folder`.

    Players stay `behind_s` (s) behind the end of the newest segment, which lies up to a segment in the past.
    """
    window, now = window_segments(behind_s, clip.segment_s), time.time()
    write_playlists(folder, clip, offered, window, now)
    for index in offered:
        playlist = folder / f"{index}.m3u8"
        control = f"#EXTM3U\n#EXT-X-SERVER-CONTROL:HOLD-BACK={behind_s:g}"
        playlist.write_text(playlist.read_text().replace("#EXTM3U", control, 1))
    start = now - window * clip.segment_s
    mpd = live_mpd(clip, offered, start, window, behind_s + clip.segment_s)
    (folder / "live.mpd").write_text(mpd)


def write_low_latency(folder: Path, clip: Clip, offered: Sequence[int], target_s: float) -> Broadcast:
    """Write master playlist and MPD of a broadcast with low latency, and return what its origin sends.

    Players aim to be `target_s` (s) behind.
    """
    from sojourn.apps.standins.broadcast.server import Broadcast  # with aiohttp, which loads slowly

    window = window_segments(target_s, clip.segment_s)
    start = round(time.time(), 3) - window * clip.segment_s
    broadcast = Broadcast(start, str(clip.folder), clip.loop, clip.segments, window, clip.segment_s, CHUNKS, target_s)
    write_playlists(folder, clip, offered, window)
    for index in offered:  # the origin makes them
        (folder / f"{index}.m3u8").unlink()
    mpd = live_mpd(clip, offered, start, window, target_s)
    early = f'availabilityTimeOffset="{clip.segment_s - broadcast.chunk_s:g}" availabilityTimeComplete="false"'
    mpd = mpd.replace("<SegmentTemplate ", f"<SegmentTemplate {early} ")
    latency = f'<Latency target="{round(target_s * 1000)}"/><PlaybackRate min="{_RATES[0]}" max="{_RATES[1]}"/>'
    mpd, count = re.subn(r"<ServiceDescription id=\"0\">\s*", f'<ServiceDescription id="0">{latency}', mpd)
    assert count == 1, "ffmpeg's MPD has a service description"
    (folder / "live.mpd").write_text(mpd)
    return broadcast


def live_mpd(clip: Clip, offered: Sequence[int], start: float, window: int, delay_s: float) -> str:
    """Return the MPD of a broadcast (ISO/IEC 23009-1, 5.3.1.2) whose first segment began at `start`, Unix s.

    The MPD of `clip` is a film's on demand, whose Representations have their index as id; those in `offered` remain.
    `window` segments stay available, and a player is to be `delay_s` (s) behind what is broadcast.
    """
    began = datetime.fromtimestamp(round(start, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    attributes = {
        "type": "dynamic",
        "availabilityStartTime": began,
        "publishTime": began,
        "timeShiftBufferDepth": f"PT{window * clip.segment_s:g}S",
        "suggestedPresentationDelay": f"PT{delay_s:g}S",
    }
    film = clip.manifest.read_text()
    text = re.sub(r'\s+mediaPresentationDuration="[^"]*"', "", film, count=1)
    text = text.replace('type="static"', "\n\t".join(f'{name}="{value}"' for name, value in attributes.items()), 1)
    text = text.replace("</ProgramInformation>", "</ProgramInformation>\n\t<BaseURL>/media/</BaseURL>", 1)
    for index in map(int, re.findall(r'<Representation id="(\d+)"', film)):
        if index not in offered:
            text = re.sub(rf'\s*<Representation id="{index}".*?</Representation>', "", text, flags=re.DOTALL)
    return text
