# SPDX-License-Identifier: Apache-2.0
"""What a recording shows of a service, by manifests of every form and by addresses alone; and what shows nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps.standins.har import ArchiveError, read_har
from sojourn.apps.standins.profile.from_har import profile_of
from sojourn.apps.standins.profile.recorded import ServiceProfile, ServiceProfileError
from sojourn.hardware.machine.errors import Code, CodedError
from tests.refusals import refusal
from tests.unit.apps.recorded.hars import HEIGHTS, RATES, answer, har, mpd, played, size

HOST = "https://cdn.test"
NUMBERS = (
    '<SegmentTemplate timescale="1000" duration="2000" startNumber="5" media="$RepresentationID$/$Number%04d$.m4s"/>'
)
TIMES = '<SegmentTemplate timescale="90000" media="$Bandwidth$/t$Time$.m4s"/>'
TIMELINE = '<SegmentTimeline><S t="900000" d="180000" r="11"/></SegmentTimeline>'
RUNS = (
    '<SegmentTimeline><S t="900000" d="180000" r="-1"/><S t="1260000" d="180000"/><S d="180000" r="-1"/>'
    "</SegmentTimeline>"
)
LATE = 1_764_345_600_000_000_00
"""A time with 18 digits."""


def manifest(text: str, path: str = "live.mpd", mime: str = "application/dash+xml") -> dict[str, Any]:
    return answer(f"{HOST}/film/{path}", -1, len(text), mime, text)


def hls() -> list[dict[str, Any]]:
    master = ["#EXTM3U"]
    entries = []
    for height, rate in RATES.items():
        resolution = f"RESOLUTION={height * 16 // 9}x{height}"
        master += [f'#EXT-X-STREAM-INF:BANDWIDTH={rate},{resolution},CODECS="avc1,x"', f"{height}/list.m3u8"]
        lines = ["#EXTM3U", "#EXT-X-MEDIA-SEQUENCE:700"]
        lines += [f"#EXTINF:2.0,\n{'abcdefghijkl'[index]}{height}.ts" for index in range(len(HEIGHTS))]
        entries.append(manifest("\n".join(lines), f"{height}/list.m3u8", "application/vnd.apple.mpegurl"))
    return [manifest("\n".join(master), "master.m3u8", "application/x-mpegURL"), *entries]


def require_known(profile: ServiceProfile, *, every_rung: bool = True) -> None:
    """Demand the truth of `played`: what was recorded exactly, and the rest within the change of its pictures."""
    assert (profile.service, profile.segment_s, profile.buffer_s) == ("cdn.test", 2.0, 12.0)
    assert [it.height for it in profile.rendition] == (sorted(RATES) if every_rung else sorted(set(HEIGHTS)))
    for rendition in profile.rendition:
        for index, height in enumerate(HEIGHTS):
            known = size(rendition.height, index)
            assert rendition.sizes[index] == (known if height == rendition.height else pytest.approx(known, rel=0.25))
        assert rendition.recorded == HEIGHTS.count(rendition.height)


@pytest.mark.parametrize(
    ("manifests", "url"),
    [
        ([manifest(mpd(NUMBERS))], lambda height, index: f"{HOST}/film/media/v{height}/{index + 5:04d}.m4s"),
        ([manifest(mpd(TIMES, TIMELINE))],
         lambda height, index: f"https://other.test/film/media/{RATES[height]}/t{900_000 + index * 180_000}.m4s"),
        ([manifest(mpd(TIMES, TIMELINE.replace('r="11"', 'r="-1"')))],
         lambda height, index: f"https://other.test/film/media/{RATES[height]}/t{900_000 + index * 180_000}.m4s"),
        ([manifest(mpd(TIMES, RUNS))],
         lambda height, index: f"https://other.test/film/media/{RATES[height]}/t{900_000 + index * 180_000}.m4s"),
        ([manifest(mpd(TIMES, TIMELINE.replace('t="900000"', f't="{LATE}"')))],
         lambda height, index: f"{HOST}/film/media/{RATES[height]}/t{LATE + index * 180_000}.m4s"),
        (hls(), lambda height, index: f"{HOST}/film/{height}/{'abcdefghijkl'[index]}{height}.ts"),
        ([manifest(mpd(NUMBERS))],
         lambda height, index: f"{HOST}/film/media/v{height}/{index + 5:04d}.m4s?CMCD=bl%3D{index}00&cb={index}"),
        (hls(), lambda height, index: f"{HOST}/film/{height}/{'abcdefghijkl'[index]}{height}.ts?CMCD=sid%3D{index}"),
    ],
    ids=["numbers", "times", "times to the end", "times to the next", "long times", "hls", "queries", "hls queries"],
)  # fmt: skip
def test_manifests_name_renditions_and_segments(
    manifests: list[dict[str, Any]], url: Callable[[int, int], str]
) -> None:
    profile = profile_of(har([*manifests, *played(url)]))
    require_known(profile.model_copy(update={"service": "cdn.test"}))
    assert [it.bandwidth for it in profile.rendition] == list(RATES.values())
    # TCP's handshake was with the manifest's server.
    assert profile.visible.rtt_ms == (22.0 if profile.service == "cdn.test" else None)
    assert profile.visible.first_byte_ms == 25.0
    assert (profile.visible.requests, profile.visible.request_bytes) == (12, 400)
    assert profile.visible.pause_s == pytest.approx(1.8)


def test_without_a_manifest_addresses_name_them() -> None:
    profile = profile_of(har(played(lambda height, index: f"{HOST}/x9/{height}p/seg-{index + 100}.m4s?v=2")))
    require_known(profile, every_rung=False)


def test_without_a_manifest_the_players_reports_are_not_the_segments_names() -> None:
    report = "CMCD=bl%3D{}00%2Csid%3D%22a{}%22"
    url = lambda height, index: f"{HOST}/x9/{height}p/{index}.m4s?v=2&{report.format(index, 'b' * index)}"  # noqa: E731
    require_known(profile_of(har(played(url))), every_rung=False)


def test_renditions_that_differ_in_words_are_in_the_order_of_time() -> None:
    words = {240: "low", 480: "mid", 720: "best"}
    profile = profile_of(har(played(lambda height, index: f"{HOST}/{words[height]}/{index}.m4s", heights=HEIGHTS * 3)))
    assert [it.recorded for it in profile.rendition] == [3 * HEIGHTS.count(height) for height in RATES]
    assert (profile.segment_s, profile.buffer_s, profile.visible.pause_s) == (2.0, 12.0, 1.8)


def test_renditions_may_differ_in_words() -> None:
    words = {240: "low", 480: "mid480p", 720: "best720p"}
    profile = profile_of(har(played(lambda height, index: f"{HOST}/{words[height]}/{index}.m4s")))
    assert [it.recorded for it in profile.rendition] == [HEIGHTS.count(480), HEIGHTS.count(720)]


def test_without_lines_in_addresses_a_rendition_has_those_of_the_nearest_rate() -> None:
    names = {240: "1", 480: "2", 720: "3"}
    profile = profile_of(har(played(lambda height, index: f"{HOST}/{names[height]}/{index}.m4s")))
    assert [it.height for it in profile.rendition] == [240, 480, 720]
    assert profile.rendition[-1].recorded == HEIGHTS.count(720)


def test_heights_that_are_declared_stay() -> None:
    """Sound alone is no rendition of the picture, and a height that is missing is between those around it."""
    variants = (
        ("64000", 'CODECS="mp4a.40.2"', "sound"), ("3000000", "RESOLUTION=1280x720", "720"),
        ("6000000", "RESOLUTION=1920x1080", "1080"), ("20000000", 'RESOLUTION=1920x1080,CODECS="avc1,mp4a"', "best"),
    )  # fmt: skip
    lines = [f"#EXT-X-STREAM-INF:BANDWIDTH={rate},{more}\n{name}.m3u8" for rate, more, name in variants]
    playlist = "\n".join(["#EXTM3U", *(f"#EXTINF:2.0,\n{'abcdefghijkl'[n]}.ts" for n in range(12))])
    manifests = [manifest("\n".join(["#EXTM3U", *lines]), "master.m3u8"), manifest(playlist, "720.m3u8")]
    segments = played(lambda height, index: f"{HOST}/film/{'abcdefghijkl'[index]}.ts", heights=[720] * 12)
    assert [it.height for it in profile_of(har([*manifests, *segments])).rendition] == [720, 1080, 1080]
    text = mpd(NUMBERS).replace(' width="853" height="480"', "")
    segments = played(lambda height, index: f"{HOST}/film/media/v{height}/{index + 5:04d}.m4s")
    profile = profile_of(har([manifest(text), *segments]))
    assert [it.height for it in profile.rendition] == [240, 360, 720]
    text = mpd(NUMBERS).replace(' width="1280" height="720"', "")
    assert [it.height for it in profile_of(har([manifest(text), *segments])).rendition] == [240, 480, 720]


def advert(manifests: list[dict[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    """What a player requests of an advert: its manifests, which are the film's in another folder, and its segments."""
    moved = json.loads(json.dumps(manifests).replace("/film/", "/advert/"))
    urls = (f"{HOST}/advert/{name}" for name in names)
    return [*moved, *(answer(url, n / 10 - 0.9, 900_000 + n, took_s=0.05) for n, url in enumerate(urls))]


@pytest.mark.parametrize(
    ("manifests", "names", "url"),
    [
        ([manifest(mpd(NUMBERS))], [f"media/v720/{n:04d}.m4s" for n in (5, 6, 7)],
         lambda height, index: f"{HOST}/film/media/v{height}/{index + 5:04d}.m4s"),
        (hls(), [f"720/{name}720.ts" for name in "abc"],
         lambda height, index: f"{HOST}/film/{height}/{'abcdefghijkl'[index]}{height}.ts"),
    ],
    ids=["dash", "hls"],
)  # fmt: skip
def test_an_advert_before_the_film_is_not_the_film(
    manifests: list[dict[str, Any]], names: list[str], url: Callable[[int, int], str]
) -> None:
    require_known(profile_of(har([*advert(manifests, names), *manifests, *played(url)])))


def test_a_film_that_is_not_recognised_is_not_replaced_by_an_advert() -> None:
    entries = advert([manifest(mpd(NUMBERS))], [f"media/v720/{n:04d}.m4s" for n in (5, 6, 7)])
    hidden = [answer(f"{HOST}/{name}zz", n * 2.0, 9000, "video/mp4") for n, name in enumerate(("8fa3", "c2b9", "09ef"))]
    posted = [answer(f"{HOST}/playback", n * 2.0, 9000, "video/mp4") for n in range(4)]
    for entry in posted:
        entry["request"]["method"] = "POST"
    assert profile_of(har([*entries, *hidden])).rendition[-1].recorded == 3
    for more in ([*hidden, answer(f"{HOST}/film.mp4", 9, 9000, "video/mp4")], posted):
        with refusal(ServiceProfileError, "unsupported", "only 3 requests", f"{len(more)} do not", "docs/profile.md"):
            profile_of(har([*entries, *more]))


@pytest.mark.parametrize(("suffix", "mime"), [("aac", "binary/octet-stream"), ("m4s", "audio/mp4")])
def test_a_playlist_of_sound_is_not_the_picture(suffix: str, mime: str) -> None:
    """Without the content of the master playlist, the segments show what they are."""
    names = "abcdefghijkl"
    text = "\n".join(["#EXTM3U", *(f"#EXTINF:2.0,\nsnd-{name}.{suffix}" for name in names)])
    sound = [answer(f"{HOST}/film/snd-{name}.{suffix}", n * 2.0, 30_000 + n, mime) for n, name in enumerate(names)]
    picture = played(lambda height, index: f"{HOST}/film/{height}/{'abcdefghijkl'[index]}{height}.ts")
    profile = profile_of(har([*hls()[1:], manifest(text, "snd.m3u8"), *picture, *sound]))
    assert [it.recorded for it in profile.rendition] == [HEIGHTS.count(height) for height in RATES]
    assert profile.sound and profile.sound.sizes == tuple(range(30_000, 30_012))


def test_an_answer_from_the_cache_shows_nothing_of_the_path() -> None:
    entries = played(lambda height, index: f"{HOST}/film/media/v{height}/{index + 5:04d}.m4s")
    entries[3] |= {"_fromCache": "disk", "timings": {"wait": 0.1, "receive": 0.1}}
    assert profile_of(har([manifest(mpd(NUMBERS)), *entries])).visible.first_byte_ms == 25.0


def test_sound_of_its_own_segments_is_kept_apart() -> None:
    sound = [answer(f"{HOST}/film/media/a/{n}.m4s", n * 0.3, 30_000 + n, "audio/mp4") for n in range(1, 9)]
    picture = played(lambda height, index: f"{HOST}/film/media/v{height}/{index + 5:04d}.m4s")
    profile = profile_of(har([manifest(mpd(NUMBERS)), *picture, *sound]))
    require_known(profile)
    assert profile.sound and profile.sound.sizes == tuple(30_000 + n for n in range(1, 9))
    assert (profile.sound.bandwidth, profile.sound.segment_s) == (128_000, 2.0)


@pytest.mark.parametrize("buffer_s", [6.0, 12.0, 30.0])
def test_the_buffer_is_what_the_player_fills(buffer_s: float) -> None:
    url = lambda height, index: f"{HOST}/film/media/v{height}/{index + 5:04d}.m4s"  # noqa: E731
    profile = profile_of(har([manifest(mpd(NUMBERS)), *played(url, buffer_s=buffer_s, heights=HEIGHTS * 3)]))
    assert profile.buffer_s == buffer_s


def named(url: str = HOST + "/v/720/{}.m4s", mime: str = "video/mp4") -> list[dict[str, Any]]:
    return [answer(url.format(n), n * 2.0, 50_000 + n, mime) for n in range(1, 9)]


@pytest.mark.parametrize(
    ("content", "code", "mentioned"),
    [
        (json.dumps({"log": {"version": "1.2", "entries": named()}})[:-200], "damaged", "not a HAR"),
        ({"version": "1.2", "entries": []}, "missing", "no requests"),
        ("[" * (1 << 20), "damaged", "not a HAR"),
        ({"version": "1.2", "entries": named(HOST + "/../../etc/passwd/{}.m4s")}, "invalid-value", ".."),
        ({"version": "1.2", "entries": [*named(), answer(HOST + "/v/720/9.m4s", 20, 1 << 41)]}, "damaged", "bodySize"),
        ({"version": "1.2", "entries": [*named(), answer(HOST, 20, 9, took_s=float("nan"))]}, "damaged", "time"),
        ({"version": "1.2", "entries": named(HOST + "/{}.html", "text/html")}, "missing", "no video"),
        ({"version": "1.2", "entries": [manifest("#EXTM3U", "a.m3u8", "audio/x-mpegurl")]}, "missing", "no video"),
        ({"version": "1.2", "entries": [*named(), answer(HOST + "/v/720/3.m4s", 20, 9)]}, "duplicate", "50003 and 9"),
        ({"version": "3.0", "entries": named()}, "unsupported", "3.0"),
        ({"version": "1.2", "entries": [manifest("<!DOCTYPE a><MPD/>"), *named()]}, "damaged", "document type"),
        ({"version": "1.2", "entries": [manifest("<MPD"), *named()]}, "damaged", "not XML"),
        ({"version": "1.2", "entries": [manifest(mpd(TIMES, '<S d="0" r="9"/>'.join(
            ("<SegmentTimeline>", "</SegmentTimeline>")))), *named()]}, "damaged", "without lengths"),
        ({"version": "1.2", "entries": [manifest(mpd(TIMES, '<S d="-1" r="9"/>'.join(
            ("<SegmentTimeline>", "</SegmentTimeline>")))), *named()]}, "damaged", "d='-1'"),
        ({"version": "1.2", "entries": [manifest(mpd(TIMES, '<S t="9" d="2" r="-1"/><S t="9" d="2"/>'.join(
            ("<SegmentTimeline>", "</SegmentTimeline>")))), *named()]}, "damaged", "has passed"),
        ({"version": "1.2", "entries": [manifest(mpd(NUMBERS).replace("media/<", "http://[x<")), *named()]},
         "damaged", "'http://[x'"),
        ({"version": "1.2", "entries": [manifest("#EXTM3U\n#EXTINF:2,\nhttp://[x", "a.m3u8"), *named()]},
         "damaged", "'http://[x'"),
        ({"version": "1.2", "entries": [manifest(mpd(NUMBERS).replace('"300000"', '"-5"')), *named()]},
         "damaged", "bandwidth='-5'"),
        ({"version": "1.2", "entries": [manifest(mpd(NUMBERS).replace("</MPD>", "<Period><AdaptationSet/></Period>"
            "</MPD>")), *named()]}, "damaged", "2 Periods"),
        ({"version": "1.2", "entries": [manifest(mpd(TIMES, '<S d="1" r="999999999"/>'.join(
            ("<SegmentTimeline>", "</SegmentTimeline>")))), *named()]}, "damaged", "segments"),
    ],
)  # fmt: skip
def test_a_hostile_or_broken_recording_gets_one_clear_line(
    tmp_path: Path, content: Any, code: Code, mentioned: str
) -> None:
    (file := tmp_path / "a.har").write_text(content if isinstance(content, str) else json.dumps({"log": content}))
    with refusal(CodedError, code, mentioned) as wrong:
        profile_of(read_har(file))
    assert isinstance(wrong.value, ServiceProfileError | ArchiveError)


def test_what_no_service_has_is_one_line_too() -> None:
    huge = [answer(f"{HOST}/720p/{n}.m4s", n * 2.0, 1 << 33) for n in range(8)]
    with refusal(ServiceProfileError, "out-of-range", "makes no profile"):
        profile_of(har(huge))
    sets = "".join(f'<Representation id="{n}" bandwidth="{n}"/>' for n in range(600))
    many = mpd(NUMBERS).replace("</AdaptationSet>", sets + "</AdaptationSet>", 1)
    with refusal(ServiceProfileError, "damaged", "604 renditions"):
        profile_of(har([manifest(many), *named()]))


def test_addresses_that_hide_their_numbers_are_refused() -> None:
    hidden = ["8fa3", "c2b9", "09ef", "77aa", "e1d0", "b4c8"]
    with refusal(ServiceProfileError, "missing", "6 media requests", "no segment numbers"):
        profile_of(har([answer(f"{HOST}/{name}zz", n * 2.0, 9000, "video/mp4") for n, name in enumerate(hidden)]))


def test_adjacent_numbers_in_a_template_end_soon() -> None:
    text = mpd('<SegmentTemplate timescale="1" duration="2" media="$RepresentationID$/' + "$Number$" * 12 + 'x.m4s"/>')
    entries = [answer(f"{HOST}/film/v720/{'1' * 60}y.m4s", -1, 9, "video/mp4") for _ in range(3)]
    begun = time.process_time()
    with pytest.raises(CodedError):
        profile_of(har([manifest(text), *entries]))
    assert time.process_time() - begun < 20, "without possessive numbers it takes days"
