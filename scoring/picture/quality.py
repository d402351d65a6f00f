# SPDX-License-Identifier: Apache-2.0
"""Full-reference quality: pictures of a recording compared with the film's, by ffmpeg's filters ssim and libvmaf."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.scoring.picture import strip
from sojourn.scoring.picture.recording import QUIET, decode, picture_size

Pixels = npt.NDArray[np.uint8]
_SSIM = re.compile(r"^n:\d+ Y:([\d.]+)", re.MULTILINE)
#: A strip located in a recording may differ from the screen's edge by this much, px.
_EDGE = 2
#: The share of the progress that painting the film takes.
_PAINTING = 0.3
#: Pictures whose alignment is checked, and the width at which, px.
_CHECKED, _SMALL = 40, 160
#: By squared error. A picture is recognised if that to the closest frame of the film is below this share of the median
#: over all; a badly encoded one resembles several. Another frame is closer if it is below this share of the own one's.
_RECOGNISED, _CLOSER = 0.2, 0.8


class QualityError(RuntimeError):
    """Pictures that cannot be compared; the message has the reason."""


class Pick(NamedTuple):
    """A picture to judge: its number in the recording, the time of display (s), its frame of the film."""

    nth: int
    t: float
    frame: int


class Quality(NamedTuple):
    """SSIM of the luma (1: identical; Wang et al., 2004) and VMAF (0 to 100), None if ffmpeg has no libvmaf."""

    ssim: float
    vmaf: float | None


def picks(shown: pl.DataFrame, every_s: float | None) -> list[Pick]:
    """Return the first new, readable picture in every span of `every_s`, or all of them if it is None.

    `shown` has t, frame per recorded frame, in order. A picture that stands still is new once, also if its strip could
    not be read for a while.
    """
    read = shown.with_row_index("index").filter(pl.col("frame") >= 0)
    new = read.filter(pl.col("frame").ne_missing(pl.col("frame").shift(1)))
    if every_s is not None:
        new = new.group_by((pl.col("t") / every_s).floor().alias("span"), maintain_order=True).first()
    return [Pick(*row) for row in new.select("index", "t", "frame").rows()]


def compare(
    recording: Path,
    box: strip.Box,
    chosen: Sequence[Pick],
    film: Iterator[Pixels],
    program: str,
    progress: Callable[[float], None],
) -> list[Quality]:
    """Judge the chosen pictures, except the strip at the bottom; `film` yields the film's RGB pictures in order.

    They are scaled by area to the recording's size, as for a player with the best rendition; `box` is the strip's
    place in the recording, which the picture must fill. `program` is the ffmpeg to use; `progress` receives the share
    done. Raises QualityError, also if most of the pictures that are recognised show another frame than their strip
    says; RecordingError.
    """
    size = _above(recording, box)
    reference = _Reference(recording, chosen, film, size, lambda share: progress(_PAINTING * share))
    checked = set(range(0, len(chosen), max(1, len(chosen) // _CHECKED)))
    displaced: list[bool] = []  # of the pictures that are recognised

    def pairs() -> Iterator[bytes]:
        for number, (pick, picture) in enumerate(_pictures(recording, chosen, size)):
            if number in checked and (frame := reference.recognise(picture, pick.frame)) is not None:
                displaced.append(frame != pick.frame)
            yield picture.tobytes() + reference.of[pick.frame].tobytes()
            progress(_PAINTING + (1 - _PAINTING) * (number + 1) / len(chosen))

    judged = _judged(pairs(), size, program, recording)
    if len(judged) != len(chosen):
        raise QualityError(f"{recording}: {len(chosen)} pictures were to be judged, {len(judged)} were")
    if 2 * sum(displaced) > len(displaced):
        raise QualityError(
            f"{recording}: {sum(displaced)} of {len(displaced)} pictures show another frame of the film than their "
            "strip says, so they cannot be compared with it"
        )
    return judged


def _above(recording: Path, box: strip.Box) -> tuple[int, int]:
    """Return width and height of the picture above its strip, px. Raises QualityError if it does not fill the screen.

    Its place would be known to a pixel only, and a picture that is off by one has another SSIM.
    """
    width, height = picture_size(recording)
    margins = box.x, width - box.x - box.width, height - box.y - box.height
    if max(map(abs, margins)) > _EDGE:
        raise QualityError(
            f"{recording}: its picture does not fill the screen ({width}x{height} px, strip at {box.x},{box.y}, "
            f"{box.width} px wide), so it cannot be compared pixel by pixel"
        )
    return width, strip.Box.bottom(width, height).y // 2 * 2


def _pictures(recording: Path, chosen: Sequence[Pick], size: tuple[int, int]) -> Iterator[tuple[Pick, Pixels]]:
    """Yield the chosen pictures of a recording, in order: the luma above the strip."""
    width, height = size
    left = iter(chosen)
    pick = next(left, None)
    # The plane itself: a conversion to grey would change its range.
    for nth, picture in enumerate(decode(recording, f"extractplanes=y,crop={width}:{height}:0:0", width, height)):
        if pick is None:
            break
        if nth == pick.nth:
            yield pick, picture
            pick = next(left, None)


class _Reference:
    """The film at the size of a recording: `of` has the luma of the frames that are needed, above the strip."""

    def __init__(
        self,
        recording: Path,
        chosen: Sequence[Pick],
        film: Iterator[Pixels],
        size: tuple[int, int],
        progress: Callable[[float], None],
    ) -> None:
        whole = picture_size(recording)
        wanted = {pick.frame for pick in chosen}
        last = max(wanted, default=-1)
        self.of: dict[int, Pixels] = {}
        small: list[Pixels] = []
        for number, picture in zip(range(last + 1), film, strict=False):
            scaled = cv2.resize(picture, whole, interpolation=cv2.INTER_AREA)
            luma = np.asarray(cv2.cvtColor(scaled, cv2.COLOR_RGB2YUV_I420)[: size[1]], np.uint8)
            small.append(_small(luma))
            if number in wanted:
                self.of[number] = luma
                progress((number + 1) / (last + 1))
        if strange := wanted - self.of.keys():
            raise QualityError(f"frame {min(strange)} was shown, which the film has not")
        self._small = np.array(small)

    def recognise(self, picture: Pixels, own: int) -> int | None:
        """Return the frame that a picture shows: its own, unless another is clearly closer; None if it shows none."""
        apart = np.square(np.subtract(self._small, _small(picture), dtype=np.float32)).mean(axis=(1, 2))
        closest = int(apart.argmin())
        if apart[closest] > _RECOGNISED * np.median(apart):
            return None
        return closest if apart[closest] < _CLOSER * apart[own] else own


def _small(luma: Pixels) -> Pixels:
    """Return a picture at the size at which frames are matched."""
    size = _SMALL, round(luma.shape[0] * _SMALL / luma.shape[1])
    return np.asarray(cv2.resize(luma, size, interpolation=cv2.INTER_AREA), np.uint8)


def _judged(pairs: Iterator[bytes], size: tuple[int, int], program: str, recording: Path) -> list[Quality]:
    """Return the quality of each pair: the luma of a picture, and below it that of its reference."""
    width, height = size
    vmaf = "libvmaf" in subprocess.run([program, "-v", "error", "-filters"], capture_output=True, text=True).stdout
    graph = [f"[0:v]split[top][bottom];[top]crop={width}:{height}:0:0[shown]"]
    graph += [f"[bottom]crop={width}:{height}:0:{height}[film]"]
    if vmaf:
        graph += ["[shown]split[shown][shown2]", "[film]split[film][film2]"]
        graph += ["[shown2][film2]libvmaf=log_fmt=json:log_path=vmaf.json"]
    graph += ["[shown][film]ssim=stats_file=ssim.txt"]
    command = [program, *QUIET, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{width}x{2 * height}", "-r", "1"]
    command += ["-i", "pipe:0", "-lavfi", ";".join(graph), "-f", "null", "-"]
    grey = bytes([128]) * (width * height)  # the chroma planes of both
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        # Not confined: it reads pixels alone, and the decoder that parses the recording is confined.
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, cwd=folder) as it:
            assert it.stdin is not None
            with suppress(BrokenPipeError):  # ffmpeg says why it ended
                for pair in pairs:
                    it.stdin.write(pair + grey)
                it.stdin.close()
        if it.returncode:
            said.seek(0)
            why = said.read().decode(errors="replace").strip().splitlines()[-1:]
            raise QualityError(f"{recording}: ffmpeg could not compare it: {''.join(why)}")
        ssim = [float(value) for value in _SSIM.findall((Path(folder) / "ssim.txt").read_text())]
        frames = json.loads((Path(folder) / "vmaf.json").read_text())["frames"] if vmaf else [None] * len(ssim)
    return [Quality(like, frame and float(frame["metrics"]["vmaf"])) for like, frame in zip(ssim, frames, strict=True)]
