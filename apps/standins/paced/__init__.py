# SPDX-License-Identifier: Apache-2.0
"""The origin of a film on demand that paces its answers by the buffer that the player reports."""

from __future__ import annotations

from typing import Any

from sojourn.apps.standins.clip import Clip


def paced_film(clip: Clip, buffer_s: float) -> dict[str, Any]:
    """Return the fields of what its server serves (`PacedFilm`): a clip to a player that keeps `buffer_s` (s)."""
    return {
        "media": str(clip.folder),
        "loop": clip.loop,
        "last": clip.segments,
        "segment_s": clip.segment_s,
        "readahead_s": buffer_s,
        "top_bps": clip.rates[-1],
    }
