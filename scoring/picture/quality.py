# SPDX-License-Identifier: Apache-2.0
"""Full-reference quality: pictures of a recording compared with the film's, by ffmpeg's filters ssim and libvmaf."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.hardware.confine.decoder import decoder
from sojourn.scoring.picture import strip
from sojourn.scoring.picture.recording import QUIET, input_options, picture_size

Picture = npt.NDArray[np.uint8]
_SSIM = re.compile(r"^n:\d+ Y:([\d.]+)", re.MULTILINE)


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


def picks(shown: pl.DataFrame, every_s: float) -> list[Pick]:
    """Return the first new, readable picture in every span of `every_s`; `shown` has t, frame per recorded frame, in
    order."""
    frame = pl.col("frame")
    new = shown.with_row_index("index").filter((frame >= 0) & frame.ne_missing(frame.shift(1)))
    chosen = new.group_by((pl.col("t") / every_s).floor().alias("span"), maintain_order=True).first()
    return [Pick(*row) for row in chosen.select("index", "t", "frame").rows()]


def compare(
    recording: Path, chosen: Sequence[Pick], film: Iterator[Picture], program: str, progress: Callable[[float], None]
) -> list[Quality]:
    """Judge the chosen pictures, except the strip at the bottom; `film` yields the film's RGB pictures in order.

    They are scaled by area to the recording's size, as for a player with the best rendition. `program` is the
    ffmpeg to use; `progress` receives the share done. Raises QualityError, RecordingError.
    """
    width, height = picture_size(recording)
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder)
        _references(own / "film.yuv", chosen, film, (width, height), progress)
        vmaf = "libvmaf" in subprocess.run([program, "-v", "error", "-filters"], capture_output=True, text=True).stdout
        select = "+".join(f"eq(n,{pick.nth})" for pick in chosen)
        above = f"crop={width}:{strip.Box.bottom(width, height).y // 2 * 2}:0:0,setpts=N/TB"
        graph = [f"[0:v]select='{select}',{above}[shown]", f"[1:v]{above}[film]"]
        if vmaf:
            graph += ["[shown]split[shown][shown2]", "[film]split[film][film2]"]
        raw, written = own / "film.yuv", (own / "ssim.txt", own / "vmaf.json")
        with decoder(program, [recording, raw], written) as ready:
            ssim_file, vmaf_file = (ready.names[path] for path in written)
            if vmaf:
                graph += [f"[shown2][film2]libvmaf=log_fmt=json:log_path={vmaf_file}"]
            graph += [f"[shown][film]ssim=stats_file={ssim_file}"]
            command = [*ready.command, *QUIET, "-nostdin", *input_options(ready.names[recording])]
            command += ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{width}x{height}", "-r", "1"]
            command += ["-i", ready.names[raw], "-lavfi", ";".join(graph), "-f", "null", "-"]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise QualityError(f"{recording}: ffmpeg could not compare it: {done.stderr.strip().splitlines()[-1:]}")
        ssim = [float(value) for value in _SSIM.findall((own / "ssim.txt").read_text())]
        vmaf_frames = json.loads((own / "vmaf.json").read_text())["frames"] if vmaf else [None] * len(ssim)
    if len(ssim) != len(chosen):
        raise QualityError(f"{recording}: {len(chosen)} pictures were to be judged, {len(ssim)} were")
    return [
        Quality(like, frame and float(frame["metrics"]["vmaf"])) for like, frame in zip(ssim, vmaf_frames, strict=True)
    ]


def _references(
    file: Path,
    chosen: Sequence[Pick],
    film: Iterator[Picture],
    size: tuple[int, int],
    progress: Callable[[float], None],
) -> None:
    """Write the film's pictures of the chosen frames, in order, as raw yuv420p."""
    wanted = {pick.frame for pick in chosen}
    last, kept = max(wanted, default=-1), dict[int, bytes]()
    for number, picture in zip(range(last + 1), film, strict=False):
        if number in wanted:
            scaled = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
            kept[number] = cv2.cvtColor(scaled, cv2.COLOR_RGB2YUV_I420).tobytes()
            progress((number + 1) / (last + 1))
    if strange := wanted - kept.keys():
        raise QualityError(f"frame {min(strange)} was shown, which the film has not")
    with file.open("wb") as out:
        out.writelines(kept[pick.frame] for pick in chosen)
