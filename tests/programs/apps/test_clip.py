# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import cv2
import pytest

from sojourn.apps.standins import clip
from sojourn.apps.standins.ladder import DEFAULT, Rung
from sojourn.scoring.picture import strip


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> clip.Clip:
    """Two seconds of the real clip, twice over, in two small renditions."""
    ladder = (Rung("tiny", 284, 160, 150_000), DEFAULT[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return clip.ensure_clip(seconds=2, ladder=ladder, film_seconds=4)


def joined(film: clip.Clip, rendition: int, folder: Path) -> Path:
    home = film.folder / str(rendition)
    path = folder / "joined.mp4"
    path.write_bytes(b"".join((home / name).read_bytes() for name in ("init.mp4", "1.m4s", "2.m4s")))
    return path


@pytest.mark.parametrize("rendition", [0, 1])
def test_each_frame_names_itself_and_its_rendition(film: clip.Clip, rendition: int, tmp_path: Path) -> None:
    video = cv2.VideoCapture(str(joined(film, rendition, tmp_path)))
    seen = []
    while True:
        more, frame = video.read()
        if not more:
            break
        assert frame.shape[:2] == (film.ladder[rendition].height, film.ladder[rendition].width)
        seen.append(strip.read(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)))
    assert seen == [(number % film.frames, rendition) for number in range(120)]


def test_time_runs_on_where_the_clip_wraps(film: clip.Clip, tmp_path: Path) -> None:
    probe = ["ffprobe", "-v", "error", "-show_entries", "packet=pts_time", "-of", "csv=p=0"]
    output = subprocess.run([*probe, str(joined(film, 1, tmp_path))], capture_output=True, text=True, check=True)
    times = sorted(float(line.strip(",")) for line in output.stdout.split())
    steps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == 120
    assert max(abs(step - 1 / clip.FPS) for step in steps) < 1e-4


def test_manifest_tells_the_whole_length(film: clip.Clip) -> None:
    assert film.seconds == 4
    assert 'mediaPresentationDuration="PT4S"' in film.manifest.read_text()
    assert not (film.folder / "0" / "3.m4s").exists()


def test_shift_refuses_what_is_no_segment() -> None:
    with pytest.raises(ValueError):
        clip.shift(b"\0\0\0\x08mdat", 1, 1)


@pytest.mark.parametrize("seconds", [0, 3, -2])
def test_bad_lengths_are_refused(seconds: int) -> None:
    with pytest.raises(ValueError, match=f"seconds={seconds}"):
        clip.ensure_clip(seconds=seconds)
