# SPDX-License-Identifier: Apache-2.0
"""Recordings of a made-up service, whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from sojourn.apps.standins.har import Har, parse_har

START = 1_795_885_200.0
RATES = {240: 300_000, 480: 1_000_000, 720: 2_500_000}
HEIGHTS = (240, 240, 480, 480, 720, 720, 720, 480, 720, 720, 720, 720)


def size(height: int, index: int, segment_s: float = 2.0) -> int:
    """The size of a segment: a rate that changes from one to the next, as pictures do."""
    return int(RATES[height] * segment_s / 8 * (0.8 + 0.1 * (index * 7 % 5)))


def answer(
    url: str, start_s: float, bytes_: int, mime: str = "video/mp4", text: str | None = None, took_s: float = 0.2
) -> dict[str, Any]:
    content: dict[str, Any] = {"size": bytes_, "mimeType": mime} | ({"text": text} if text is not None else {})
    return {
        "startedDateTime": datetime.fromtimestamp(START + start_s, UTC).isoformat(),
        "time": took_s * 1000,
        "request": {
            "method": "GET", "url": url, "httpVersion": "h2", "headers": [], "headersSize": 400, "bodySize": 0,
        },
        "response": {"status": 200, "headers": [], "bodySize": bytes_, "content": content},
        "timings": {"connect": 60 if start_s < 0 else -1, "ssl": 38, "send": 0, "wait": 25, "receive": took_s * 1000},
    }  # fmt: skip


def played(
    url: Callable[[int, int], str],
    *,
    segment_s: float = 2.0,
    buffer_s: float = 12.0,
    heights: Sequence[int] = HEIGHTS,
    mime: str = "video/mp4",
) -> list[dict[str, Any]]:
    """What a player requests that fills `buffer_s` and then a segment whenever there is room for one."""
    entries, now = [], 0.0
    for index, height in enumerate(heights):
        # It plays from the end of the first answer, at 0.2 s, and has room once the level is below its goal.
        now = max(now, 0.2 + (index + 1) * segment_s - buffer_s)
        entries.append(answer(url(height, index), now, size(height, index, segment_s), mime))
        now += 0.2
    return entries


def har(entries: Sequence[dict[str, Any]]) -> Har:
    return parse_har(json.dumps({"log": {"version": "1.2", "entries": list(entries)}}).encode())


def mpd(template: str, inside: str = "") -> str:
    sets = "".join(
        f'<Representation id="v{height}" bandwidth="{rate}" width="{height * 16 // 9}" height="{height}"/>'
        for height, rate in RATES.items()
    )
    return (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>media/</BaseURL><Period>'
        f'<AdaptationSet mimeType="video/mp4">{template.replace("/>", f">{inside}</SegmentTemplate>")}{sets}'
        '</AdaptationSet><AdaptationSet mimeType="audio/mp4">'
        '<SegmentTemplate timescale="1000" duration="2000" media="a/$Number$.m4s"/>'
        '<Representation id="a" bandwidth="128000"/></AdaptationSet></Period></MPD>'
    )
