# SPDX-License-Identifier: Apache-2.0
"""A camera's film, encoded at known qualities and with known faults, is judged picture by picture."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from statistics import fmean

import cv2
import imageio_ffmpeg
import numpy as np
import pytest

from sojourn.apps.standins.call import camera
from sojourn.scoring.picture import frames, freezes, strip
from sojourn.scoring.picture.quality import Pick, Pixels, Quality, QualityError, compare, picks

WIDTH, HEIGHT, COUNT = 320, 180, 40
Recorded = Callable[..., Path]


@pytest.fixture(scope="module")
def film() -> list[Pixels]:
    return list(islice(camera.pictures(WIDTH, HEIGHT), camera.FRAMES))


@pytest.fixture
def recorded(film: list[Pixels], tmp_path: Path) -> Recorded:
    def make(shown: Iterable[tuple[int, int]], crf: int, margin: int = 0) -> Path:
        """Encode pictures: each the film's frame `drawn`, with the number `said` in its strip."""
        width = WIDTH + margin
        file = tmp_path / "screen.mp4"
        command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{width}x{HEIGHT}"]
        command += ["-r", f"{camera.FPS}", "-i", "-", "-c:v", "libx264", "-preset", "veryfast", "-crf", str(crf)]
        with subprocess.Popen([*command, str(file)], stdin=subprocess.PIPE) as ffmpeg:
            assert ffmpeg.stdin
            for drawn, said in shown:
                screen = np.zeros((HEIGHT, width, 3), np.uint8)
                screen[:, margin:] = film[drawn % len(film)]
                planes = cv2.cvtColor(screen, cv2.COLOR_RGB2YUV_I420)
                band = strip.render(said % len(film), 0, WIDTH, HEIGHT)
                planes[HEIGHT - len(band) : HEIGHT, margin:] = band
                ffmpeg.stdin.write(planes.tobytes())
        return file

    return make


def judge(file: Path, film: list[Pixels], program: str = "ffmpeg") -> tuple[list[Pick], list[Quality]]:
    width, height = (WIDTH, HEIGHT)
    box = frames.find_box(file, width, height) or strip.Box.bottom(width, height)
    chosen = picks(frames.read_recording(file), None)
    return chosen, compare(file, box, chosen, iter(film), program, lambda share: None)


def test_a_worse_encoding_is_judged_worse(film: list[Pixels], recorded: Recorded) -> None:
    found = {}
    for crf in (20, 35, 50):
        file = recorded(((n, n) for n in range(COUNT)), crf)
        chosen, judged = judge(file, film, imageio_ffmpeg.get_ffmpeg_exe())
        assert [pick.frame for pick in chosen] == list(range(COUNT))
        found[crf] = fmean(it.ssim for it in judged), fmean(it.vmaf or 0 for it in judged)
    (good, good_vmaf), (middle, middle_vmaf), (poor, poor_vmaf) = found.values()
    assert 1 > good > 0.98 > middle > 0.94 > poor > 0.8
    assert 100 >= good_vmaf > 85 > middle_vmaf > 20 > poor_vmaf >= 0


@pytest.mark.parametrize(("crf", "by"), [(20, 1), (20, -1), (35, 3), (35, 38)])
def test_a_film_that_is_not_aligned_with_its_strip_is_refused(
    film: list[Pixels], recorded: Recorded, crf: int, by: int
) -> None:
    file = recorded(((n + by, n) for n in range(COUNT)), crf)
    with pytest.raises(QualityError, match="show another frame of the film than their strip says"):
        judge(file, film)


def test_pictures_of_another_frame_are_judged_low(film: list[Pixels], recorded: Recorded) -> None:
    """The picture stands still for a quarter of the film while the strip counts on, as after a decoder's error."""
    still = range(3, 13)
    file = recorded(((still.start if n in still else n, n) for n in range(COUNT)), 20)
    _, judged = judge(file, film)
    moving = [it.ssim for n, it in enumerate(judged) if n not in still[1:]]
    assert max(judged[n].ssim for n in still[3:]) < 0.95 < 0.98 < min(moving)


def test_a_picture_that_stands_still_is_judged_once_and_is_a_freeze(film: list[Pixels], recorded: Recorded) -> None:
    shown = [*range(10), *([9] * 31), *range(40, 50)]
    file = recorded(((n, n) for n in shown), 20)
    chosen, judged = judge(file, film)
    assert [pick.frame for pick in chosen] == [*range(10), *range(40, 50)]
    assert min(it.ssim for it in judged) > 0.98
    table = frames.read_recording(file)
    (freeze,) = freezes.stalls(freezes.displayed(table["t"], table["frame"], camera.FPS))
    assert freeze.length == pytest.approx(32 / camera.FPS, abs=0.01)


def test_a_film_that_begins_again_is_compared_with_its_beginning(film: list[Pixels], recorded: Recorded) -> None:
    shown = range(camera.FRAMES - 10, camera.FRAMES + 10)
    chosen, judged = judge(recorded(((n, n) for n in shown), 20), film)
    assert [pick.frame for pick in chosen] == [*range(camera.FRAMES - 10, camera.FRAMES), *range(10)]
    assert min(it.ssim for it in judged) > 0.98


def test_a_picture_that_does_not_fill_the_screen_is_refused(film: list[Pixels], recorded: Recorded) -> None:
    file = recorded(((n, n) for n in range(5)), 20, margin=16)
    box = frames.find_box(file, WIDTH + 16, HEIGHT)
    assert box is not None and box.x == pytest.approx(16, abs=1)
    with pytest.raises(QualityError, match="does not fill the screen"):
        compare(file, box, [Pick(0, 0.0, 0)], iter(film), "ffmpeg", lambda share: None)


def test_an_ffmpeg_that_fails_is_quoted(film: list[Pixels], recorded: Recorded, tmp_path: Path) -> None:
    (program := tmp_path / "ffmpeg").write_text("#!/bin/sh\necho 'no filter' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(QualityError, match=r"could not compare it: no filter"):
        judge(recorded(((n, n) for n in range(5)), 20), film, str(program))
