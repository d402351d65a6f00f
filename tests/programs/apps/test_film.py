# SPDX-License-Identifier: Apache-2.0
"""A film of the user's own: any that ffmpeg reads becomes the pictures of a clip, with the strip in each."""

from __future__ import annotations

import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest

from sojourn.apps.standins import clip
from sojourn.apps.standins.film import Film, FilmError
from sojourn.apps.standins.ladder import rung_of
from sojourn.scoring.picture import strip
from tests.refusals import refusal


def made(file: Path, seconds: float = 5, *further: str, source: str = "testsrc2=size=320x240:rate=25") -> Film:
    command = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-t", f"{seconds}", *further, str(file)]
    subprocess.run(command, check=True)
    return Film(file)


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Film:
    return made(tmp_path_factory.mktemp("film") / "a film, of 5 s:[x]%d.mkv", 5.4)


def test_it_is_played_from_its_beginning_in_its_own_shape(film: Film) -> None:
    assert film.seconds == 4
    pictures = list(film.colours(640, 360, 30))
    assert len(pictures) == 120
    # 4:3 in 16:9: bars of 80 px at either side.
    assert not any(picture[:, :78].any() or picture[:, -78:].any() for picture in pictures[::40])
    assert all(picture[:, 100:540].mean() > 30 for picture in pictures[::40])
    assert (pictures[0] != pictures[60]).any()


def test_each_frame_of_its_clip_names_itself(film: Film, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))
    ladder = (rung_of(240, 150_000), rung_of(360, 400_000))
    packaged = clip.ensure_clip(ladder=ladder, film_seconds=8, own=film)
    assert (packaged.frames, packaged.seconds, packaged.film) == (120, 8, film.digest)
    (joined := tmp_path / "joined.mp4").write_bytes(
        b"".join((packaged.folder / "1" / name).read_bytes() for name in ("init.mp4", "1.m4s", "2.m4s"))
    )
    video, seen = cv2.VideoCapture(str(joined)), []
    while (read := video.read())[0]:
        seen.append(strip.read(cv2.cvtColor(np.asarray(read[1]), cv2.COLOR_BGR2GRAY)))
    assert seen == [(number, 1) for number in range(120)]
    other = clip.ensure_clip(ladder=ladder, film_seconds=8, own=made(tmp_path / "other.mp4", 4, "-vf", "negate"))
    assert other.folder != packaged.folder


def test_the_part_that_is_played_has_whole_segments(film: Film) -> None:
    assert Film(film.path, 4).seconds == 4
    with refusal(FilmError, "too-short", "5.4 s", "at least 6 s"):
        _ = Film(film.path, 6).seconds


def test_what_is_no_film_is_refused_by_name(tmp_path: Path) -> None:
    (text := tmp_path / "film.mp4").write_text("no film at all")
    (listed := tmp_path / "list.m3u8").write_text("#EXTM3U\n#EXTINF:4,\nhttp://127.0.0.1:9/a.ts\n")
    sound = made(tmp_path / "sound.wav", source="sine").path
    real = made(tmp_path / "real.ts").path
    (playlist := tmp_path / "playlist.mp4").write_text(f"#EXTM3U\n#EXTINF:5,\nfile://{real}\n#EXT-X-ENDLIST\n")
    (joined := tmp_path / "joined.mp4").write_text(f"ffconcat version 1.0\nfile {real}\n")
    for path in (text, listed, sound, playlist, joined, tmp_path / "none.mp4"):
        with refusal(FilmError, "unsupported", f"{path}: "):
            _ = Film(path).seconds
    with refusal(FilmError, "too-short", " 1 s", " 2 s"):
        _ = made(tmp_path / "short.mp4", 1).seconds
    with refusal(FilmError, "unreadable-file", "No such file"):
        _ = Film(tmp_path / "none.mp4").digest
    with refusal(clip.ClipError, "unsupported"):
        clip.ensure_clip(own=Film(text))


@pytest.mark.parametrize(
    ("name", "coded"),
    [
        ("a.mp4", ["-c:v", "libx264", "-c:a", "aac"]), ("a.mkv", ["-c:v", "libx265", "-c:a", "libopus"]),
        ("a.webm", ["-c:v", "libvpx-vp9", "-c:a", "libvorbis"]), ("a.avi", ["-c:v", "mpeg4", "-c:a", "libmp3lame"]),
        ("a.mov", ["-c:v", "prores", "-c:a", "pcm_s16le"]), ("a.mpg", ["-c:v", "mpeg2video", "-c:a", "mp2"]),
        ("a.ts", ["-c:v", "libx264", "-c:a", "ac3"]), ("a.flv", ["-c:v", "flv", "-c:a", "libmp3lame"]),
        ("a.asf", ["-c:v", "wmv2", "-c:a", "wmav2"]), ("b.mkv", ["-c:v", "ffv1", "-c:a", "flac"]),
        ("a.gif", ["-an"]), ("a.ogv", ["-c:v", "libtheora", "-c:a", "libvorbis"]), ("a.mxf", ["-c:v", "dnxhd", "-an"]),
    ],
)  # fmt: skip
def test_films_are_of_many_kinds(tmp_path: Path, name: str, coded: list[str]) -> None:
    size = "1280x720:rate=25" if name == "a.mxf" else "320x240:rate=25"
    more = ["-b:v", "60M", "-pix_fmt", "yuv422p"] if name == "a.mxf" else []
    film = made(tmp_path / name, 3, *coded, *more, source=f"testsrc2=size={size}[out0];sine[out1]")
    assert film.seconds == 2 and sum(1 for _ in film.pictures(64, 48, 25)) == 50


def test_what_films_are_not_coded_in_is_refused_by_its_name(tmp_path: Path) -> None:
    """Each decoder that can be reached is one more that may have a fault."""
    odd = made(tmp_path / "odd.avi", 0.2, "-c:v", "cinepak")  # an encoder of 4 pictures a second
    with refusal(FilmError, "unsupported", "odd.avi: ", " cinepak "):
        _ = odd.seconds


def test_a_film_that_is_cut_off_is_told(tmp_path: Path) -> None:
    whole = made(tmp_path / "whole.mkv", 8).path.read_bytes()
    (cut := tmp_path / "cut.mkv").write_bytes(whole[: len(whole) // 2])
    with refusal(FilmError, "truncated", " of 8 s"):
        list(Film(cut).pictures(64, 48, 30))
