# SPDX-License-Identifier: Apache-2.0
"""What the length of a film's segments decides: manifests, windows, and the least buffer and latency."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from sojourn.apps.base import ServiceError
from sojourn.apps.iptv import Iptv
from sojourn.apps.options import SEGMENTS
from sojourn.apps.players.manifests import CHUNKS, write_broadcast, write_film, write_low_latency
from sojourn.apps.standins.clip import FPS, Clip, ensure_clip
from sojourn.apps.standins.hls import window_segments
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.youtube import YouTube
from sojourn.bottleneck.units import parse_time
from tests.refusals import refusal

MPD = """\
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT660S">
\t<ProgramInformation>
\t</ProgramInformation>
\t<ServiceDescription id="0">
\t</ServiceDescription>
\t<Representation id="0" codecs="avc1.640015"><SegmentTemplate startNumber="1"/></Representation>
</MPD>
"""


def film(folder: Path, segment_s: float) -> Clip:
    (folder / "manifest.mpd").write_text(MPD)
    return Clip(folder, DEFAULT[:1], 1800, FPS, 660, (300_000,), segment_s=segment_s)


def durations(playlist: str) -> tuple[int, set[str]]:
    (target,) = re.findall(r"#EXT-X-TARGETDURATION:(\d+)\n", playlist)
    return int(target), set(re.findall(r"#EXTINF:(.*),\n", playlist))


@pytest.mark.parametrize("text", SEGMENTS)
def test_every_length_has_whole_chunks_and_divides_the_film(text: str) -> None:
    segment_s = parse_time(text) / 1e6
    assert (segment_s * FPS / CHUNKS).is_integer() and (60 / segment_s).is_integer()
    assert window_segments(segment_s, segment_s) >= 4, "three target durations, and one that players are behind"


@pytest.mark.parametrize(("segment_s", "target", "written"), [(0.5, 1, "0.5"), (2, 2, "2.0"), (10, 10, "10.0")])
def test_playlists_have_the_length_of_the_segments(tmp_path: Path, segment_s: float, target: int, written: str) -> None:
    clip = film(tmp_path, segment_s)
    write_film(tmp_path / "film", clip, (0,))
    write_broadcast(tmp_path / "live", clip, (0,), 10)
    on_demand, live = ((tmp_path / name / "0.m3u8").read_text() for name in ("film", "live"))
    assert durations(on_demand) == durations(live) == (target, {written})
    assert on_demand.count("#EXTINF") == 660 / segment_s == clip.segments
    times = re.search(r"UnixMilli \d+\) (\d+) -}}", live)
    assert times and times[1] == f"{segment_s * 1000:.0f}" and f"(min (add1 $on_air) {clip.segments + 1})" in live


def test_a_broadcasts_manifest_has_the_length_of_the_segments(tmp_path: Path) -> None:
    clip = film(tmp_path, 0.5)
    write_broadcast(tmp_path / "live", clip, (0,), 6)
    root = ElementTree.parse(tmp_path / "live/live.mpd").getroot()
    assert root.get("suggestedPresentationDelay") == "PT6.5S"
    assert root.get("timeShiftBufferDepth") == "PT16S", "as with segments of 2 s"


def test_a_broadcast_in_chunks_can_be_one_second_behind_with_short_segments(tmp_path: Path) -> None:
    clip = film(tmp_path, 0.5)
    broadcast = write_low_latency(tmp_path / "live", clip, (0,), 1)
    assert (broadcast.loop, broadcast.last, broadcast.segment_s, broadcast.chunk_s) == (120, 1320, 0.5, 0.1)
    root = ElementTree.parse(tmp_path / "live/live.mpd").getroot()
    template = root.find(".//{*}SegmentTemplate")
    assert template is not None and template.get("availabilityTimeOffset") == "0.4"


@pytest.mark.parametrize(
    ("given", "wrong", "right"),
    [
        ({"buffer": 6, "segment_s": 10.0}, "--buffer=6: ", "--buffer=10 or more"),
        ({"buffer": 4, "player": "video.js"}, "--buffer=4: ", "--buffer=6 or more"),
        ({"buffer": 2, "player": "video.js", "segment_s": 0.5}, "--buffer=2: ", "--buffer=3 or more"),
        (
            {"target_latency": 1, "player": "hls.js", "segment_s": 4.0},
            "--target-latency=1: ",
            "--target-latency=1.6 or more",
        ),
    ],
)
def test_a_player_that_cannot_be_so_close_to_a_broadcast_is_refused(
    given: dict[str, Any], wrong: str, right: str
) -> None:
    with refusal(ServiceError, "out-of-range", wrong, right):
        Iptv(**given)


def test_a_player_may_be_closer_to_a_broadcast_in_short_segments() -> None:
    assert YouTube(player="video.js", buffer=4).buffer == 4
    assert Iptv(player="video.js", buffer=3, segment_s=0.5).buffer == 3
    assert Iptv(player="dash-lolp", target_latency=1, segment_s=0.5).buffer == 1
    assert Iptv(player="dash-lolp", target_latency=5, segment_s=10.0).buffer == 5, "--buffer has no effect"


def test_a_film_that_is_no_multiple_of_its_segments_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds=6 is invalid; give a positive multiple of 4"):
        ensure_clip(seconds=6, segment_s=4)
