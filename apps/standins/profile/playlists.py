# SPDX-License-Identifier: Apache-2.0
"""HLS playlists of a film on demand whose segments have another length than those of Sojourn's own."""

from __future__ import annotations

import math
import re
from pathlib import Path

from sojourn.apps.standins.clip import Clip


def write_sized_playlists(folder: Path, clip: Clip, segment_s: float) -> None:
    """Write the master playlist and those of all renditions (RFC 8216) into `folder`; segments last `segment_s`."""
    folder.mkdir()
    codecs = re.findall(r'codecs="([^"]+)"', clip.manifest.read_text())
    segments = len([*(clip.folder / "0").glob("*.m4s")])
    master = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-INDEPENDENT-SEGMENTS"]
    for index, (rung, rate) in enumerate(zip(clip.ladder, clip.rates, strict=True)):
        size = f"RESOLUTION={rung.width}x{rung.height},FRAME-RATE={clip.fps}"
        master += [f'#EXT-X-STREAM-INF:BANDWIDTH={rate},{size},CODECS="{codecs[index]}"', f"{index}.m3u8"]
        lines = [
            "#EXTM3U", "#EXT-X-VERSION:7", f"#EXT-X-TARGETDURATION:{math.ceil(segment_s)}",
            "#EXT-X-PLAYLIST-TYPE:VOD", "#EXT-X-INDEPENDENT-SEGMENTS", f'#EXT-X-MAP:URI="/media/{index}/init.mp4"',
            *(f"#EXTINF:{segment_s:.6f},\n/media/{index}/{number}.m4s" for number in range(1, segments + 1)),
            "#EXT-X-ENDLIST",
        ]  # fmt: skip
        (folder / f"{index}.m3u8").write_text("\n".join(lines) + "\n")
    (folder / "master.m3u8").write_text("\n".join(master) + "\n")
