# SPDX-License-Identifier: Apache-2.0
"""A clip as live television: HLS playlists with a window that slides with time.

The playlists are templates that Caddy fills in per request from the clock alone: no further program runs, and the same
moment always gives the same window.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from sojourn.apps.standins.clip import Clip

#: What the window has further than where players stay, s, but at least some segments (RFC 8216, 6.2.2).
_FURTHER_S, _LEAST_FURTHER = 10, 3
#: A segment is listed once it has been broadcast, as a live encoder does.
_WINDOW = """\
{{{{- $on_air := div (sub (now).UnixMilli {first_ms}) {ms} -}}}}
{{{{- $first := max 1 (add1 (sub $on_air {window})) -}}}}
#EXTM3U
#EXT-X-VERSION:7
#EXT-X-TARGETDURATION:{target}
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MEDIA-SEQUENCE:{{{{ $first }}}}
#EXT-X-MAP:URI="/media/{rung}/init.mp4"
{{{{- range untilStep (int $first) (int (min (add1 $on_air) {end})) 1 }}}}
#EXTINF:{seconds:.1f},
/media/{rung}/{{{{ . }}}}.m4s
{{{{- end }}}}
"""


def target_duration(segment_s: float) -> int:
    """Return the target duration of a playlist, s: whole seconds that no segment exceeds (RFC 8216, 4.3.3.1)."""
    return ceil(segment_s)


def window_segments(behind_s: float, segment_s: float) -> int:
    """Return the number of listed segments of `segment_s` for players that stay `behind_s` behind the newest one."""
    return int(behind_s // segment_s) + max(_LEAST_FURTHER, int(_FURTHER_S / segment_s))


def write_playlists(folder: Path, clip: Clip, rungs: Sequence[int], window: int, now: float | None = None) -> Path:
    """Write the master playlist of some `rungs` (indices into the clip's ladder) and their templates into `folder`.

    `window` segments are already listed at `now` (Unix s, default: this moment); the broadcast ends with the clip.
    """
    folder.mkdir()
    first_ms = round(((time.time() if now is None else now) - window * clip.segment_s) * 1000)
    codecs = re.findall(r'codecs="([^"]+)"', clip.manifest.read_text())
    master = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-INDEPENDENT-SEGMENTS"]
    for index in rungs:
        rung = clip.ladder[index]
        # Peak: the limit of the encoder's rate control (clip.py, maxrate).
        rates = f"BANDWIDTH={rung.bps * 5 // 4},AVERAGE-BANDWIDTH={clip.rates[index]}"
        size = f"RESOLUTION={rung.width}x{rung.height},FRAME-RATE={clip.fps}"
        master += [f'#EXT-X-STREAM-INF:{rates},{size},CODECS="{codecs[index]}"', f"{index}.m3u8"]
        (folder / f"{index}.m3u8").write_text(
            _WINDOW.format(
                first_ms=first_ms, ms=round(clip.segment_s * 1000), seconds=clip.segment_s,
                target=target_duration(clip.segment_s), window=window, rung=index, end=clip.segments + 1,
            )
        )  # fmt: skip
    (folder / "master.m3u8").write_text("\n".join(master) + "\n")
    return folder
