# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from email.message import Message
from itertools import pairwise
from pathlib import Path

import cv2
import pytest

from sojourn.apps.standins import clip
from sojourn.apps.standins.ladder import DEFAULT, Rung
from sojourn.apps.standins.origin import Site
from sojourn.scoring.picture import strip
from tests.programs.apps.fetch import fetch, serving

Get = Callable[..., tuple[bytes, Message]]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> clip.Clip:
    """Four seconds of the real clip, three times over, in two small renditions."""
    ladder = (Rung("tiny", 284, 160, 150_000), DEFAULT[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return clip.ensure_clip(seconds=4, ladder=ladder, film_seconds=12)


@pytest.fixture(scope="module")
def get(film: clip.Clip, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    """What the origin answers for a path in the film's folder: body and header."""
    run, cache = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("cache")
    with serving(Site(run, film.folder, film=True), run, cache) as origin:
        yield lambda path, **header: fetch(origin, f"/media/{path}", **header)


def joined(get: Get, rendition: int, folder: Path) -> Path:
    path = folder / "joined.mp4"
    names = ("init.mp4", *(f"{number}.m4s" for number in range(1, 7)))
    path.write_bytes(b"".join(get(f"{rendition}/{name}")[0] for name in names))
    return path


@pytest.mark.parametrize("rendition", [0, 1])
def test_origin_sends_every_repetition_as_if_it_were_stored(film: clip.Clip, get: Get, rendition: int) -> None:
    folder = film.folder / str(rendition)
    for number in range(1, 7):
        loop, original = divmod(number - 1, 2)
        expected = (folder / f"{original + 1}.m4s").read_bytes()
        if loop:
            ticks = 4 * loop * clip.timescale((folder / "init.mp4").read_bytes())
            expected = clip.shift(expected, ticks, 2 * loop)
            assert (folder / f"{number}.m4s").stat().st_size < 4096
        body, header = get(f"{rendition}/{number}.m4s")
        assert body == expected
        assert header["Content-Length"] == str(len(body))
        assert header["Cache-Control"] == "no-store"
        assert get(f"{rendition}/{number}.m4s", Range="bytes=0-9")[0] == expected  # a part of a template is none


@pytest.mark.parametrize("rendition", [0, 1])
def test_each_frame_names_itself_and_its_rendition(film: clip.Clip, get: Get, rendition: int, tmp_path: Path) -> None:
    video = cv2.VideoCapture(str(joined(get, rendition, tmp_path)))
    seen = []
    while True:
        more, frame = video.read()
        if not more:
            break
        assert frame.shape[:2] == (film.ladder[rendition].height, film.ladder[rendition].width)
        seen.append(strip.read(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)))
    assert seen == [(number % film.frames, rendition) for number in range(360)]


def test_time_runs_on_where_the_clip_wraps(get: Get, tmp_path: Path) -> None:
    probe = ["ffprobe", "-v", "error", "-show_entries", "packet=pts_time", "-of", "csv=p=0"]
    output = subprocess.run([*probe, str(joined(get, 1, tmp_path))], capture_output=True, text=True, check=True)
    times = sorted(float(line.strip(",")) for line in output.stdout.split())
    steps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == 360
    assert max(abs(step - 1 / clip.FPS) for step in steps) < 1e-4


def test_manifest_tells_the_whole_length(film: clip.Clip) -> None:
    assert film.seconds == 12
    assert 'mediaPresentationDuration="PT12S"' in film.manifest.read_text()
    assert not (film.folder / "0" / "7.m4s").exists()


def test_segments_have_the_length_that_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))
    ladder = (Rung("tiny", 284, 160, 150_000),)
    film = clip.ensure_clip(seconds=2, ladder=ladder, film_seconds=4, segment_s=0.5)
    assert (film.segment_s, film.loop, film.segments) == (0.5, 4, 8)
    assert len(list((film.folder / "0").glob("*.m4s"))) == 8
    assert 'timescale="1000000" duration="500000"' in film.manifest.read_text()
    init, probe = (film.folder / "0/init.mp4").read_bytes(), ["ffprobe", "-v", "error", "-of", "csv=p=0"]
    for number in range(1, film.loop + 1):
        (alone := tmp_path / "alone.mp4").write_bytes(init + (film.folder / f"0/{number}.m4s").read_bytes())
        shown = [*probe, "-show_entries", "frame=pts_time,key_frame", str(alone)]
        lines = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.split()
        frames = [(key == "1", float(t)) for key, t in (line.strip(",").split(",") for line in lines)]
        assert [key for key, _ in frames] == [True] + [False] * 14
        assert [t for _, t in frames] == pytest.approx([(number - 1) / 2 + n / clip.FPS for n in range(15)], abs=1e-3)


def test_each_rendition_is_encoded_by_one_thread(film: clip.Clip) -> None:
    """Other numbers give other bytes each time; x264 writes its settings into the first picture."""
    for rendition in range(2):
        settings = (film.folder / str(rendition) / "1.m4s").read_bytes().partition(b"x264 - core")[2][:1000]
        assert b" threads=1 " in settings


def test_shift_refuses_what_is_no_segment() -> None:
    with pytest.raises(ValueError):
        clip.shift(b"\0\0\0\x08mdat", 1, 1)


@pytest.mark.parametrize("seconds", [0, 3, -2])
def test_bad_lengths_are_refused(seconds: int) -> None:
    with pytest.raises(ValueError, match=f"seconds={seconds}"):
        clip.ensure_clip(seconds=seconds)
