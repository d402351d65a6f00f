# SPDX-License-Identifier: Apache-2.0
"""Picture quality on the screen against Sojourn's film or camera: SSIM, and VMAF if ffmpeg supports it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.apps.standins import scenes
from sojourn.apps.standins.call import camera
from sojourn.apps.standins.film import Film, FilmError
from sojourn.hardware.machine.programs import find
from sojourn.harness.store.loaded import load_victim_run, stored_object, valid
from sojourn.harness.store.manifest import read_manifest
from sojourn.scoring.picture import frames, judged, quality
from sojourn.scoring.picture.quality import Pixels, QualityError
from sojourn.scoring.picture.recording import picture_size
from sojourn.scoring.picture.strip import Box
from sojourn.scoring.schema.files import OPTIONS

FILM_EVERY_S = 1.0
"""Time between the judged pictures of a film, s; of a call, every picture is."""


def measure(run: Path, every_s: float | None, progress: Callable[[float], None]) -> pl.DataFrame:
    """Judge one picture every `every_s` (s; None: FILM_EVERY_S, in a call every picture), one row per picture.

    Columns: `sojourn.scoring.picture.judged.COLUMNS`. A picture is compared with the frame whose number it shows, so
    one that stands still is judged once, and its length is left to the freezes. `progress` receives the share done.
    Raises LoadError for a run that is not valid, QualityError if no Sojourn film was shown; ReportError,
    RecordingError.
    """
    scores = valid(load_victim_run(run, "quality")).require_unaltered("screen.mp4", "screen.json").scores
    try:
        lab = json.loads((run / "lab.json").read_text())
        screen = {} if lab.get("screening") or lab.get("game") else json.loads((run / "screen.json").read_text())
    except (OSError, ValueError) as error:
        raise QualityError(f"{run}: {error}") from error
    if lab.get("game"):
        raise QualityError(f"{run}: a game has no picture; sojourn quality judges videos and calls")
    if lab.get("screening"):
        raise QualityError(f"{run}: its screen was not recorded; repeat it with --recorder=ffmpeg")
    if lab.get("room"):
        raise QualityError(f"{run}: several pictures share the screen of a room; only a single one can be judged")
    clip = lab.get("clip")
    if scores.picture != "strip" or not clip:
        raise QualityError(f"{run}: it did not show Sojourn's film, so there is no reference to compare with")
    video = run / "screen.mp4"
    size = picture_size(video)
    box = frames.find_box(video, *size) or Box.bottom(*size)
    shown = frames.read_recording(video, float(screen["start"]) - scores.t0, box)
    if every_s is None and not lab.get("call"):
        every_s = FILM_EVERY_S
    picks = quality.picks(shown, every_s)
    chosen = [pick for pick in picks if any(p.start <= pick.t < p.end for p in scores.phases)]
    compared = quality.compare(video, box, chosen, _film(run, lab), _ffmpeg(), progress)
    heights = dict(enumerate(clip["heights"]))
    renditions = shown["rendition"].gather([pick.nth for pick in chosen])
    values = {
        "t": [round(pick.t, 3) for pick in chosen],
        "phase": [next(p.name for p in scores.phases if p.start <= pick.t < p.end) for pick in chosen],
        "height": [heights.get(index) for index in renditions],
        "frame": [pick.frame for pick in chosen],
        "ssim": [picture.ssim for picture in compared],
        "vmaf": [picture.vmaf for picture in compared],
    }
    return pl.DataFrame(values, schema=judged.COLUMNS)


def summary(scores: pl.DataFrame) -> pl.DataFrame:
    """Return, by phase and height: n, mean and 5th percentile of ssim, mean and 5th percentile of vmaf."""
    rows = [
        (*group, of.height, *judged.mean_and_p5(of["ssim"]), *judged.mean_and_p5(of["vmaf"]))
        for group, of in scores.group_by("phase", "height", maintain_order=True)
    ]
    figures = [(f"{name}_{what}", pl.Float64) for name in ("ssim", "vmaf") for what in ("mean", "p5")]
    columns = [("phase", pl.String), ("height", judged.COLUMNS["height"]), ("n", pl.UInt32), *figures]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _film(run: Path, lab: dict[str, Any]) -> Iterator[Pixels]:
    """Yield the pictures of a run's film in order; in a call, those of the cameras."""
    if call := lab.get("call"):
        return camera.pictures(call["width"], call["height"])
    clip = lab["clip"]
    if own := clip.get("film"):
        return _own_film(run, own, clip)
    return scenes.frames(clip["frames"] // clip["fps"], clip["fps"])


def _own_film(run: Path, digest: str, clip: dict[str, Any]) -> Iterator[Pixels]:
    """Yield the pictures of the user's film that a run showed, if it still exists. Raises QualityError."""
    clip_path = stored_object(run / OPTIONS).get("clip")
    if read_manifest(run).bundle:
        raise QualityError(
            f"{run}: imported from a bundle, and it showed a film of another machine: --clip={clip_path}"
        )
    film = Film(Path(str(clip_path or "")))
    try:
        if film.digest != digest:
            raise QualityError(f"{clip_path}: no longer the film that {run} showed")
    except FilmError as missing:
        raise QualityError(f"the reference film of {run}: {missing}") from missing
    height = clip["heights"][-1]
    return film.colours(round(height * 16 / 9 / 2) * 2, height, clip["fps"])


def _ffmpeg() -> str:
    """Return the ffmpeg of the extra `vmaf`, which has libvmaf, otherwise the system's. Raises QualityError."""
    if find_spec("imageio_ffmpeg"):
        return str(import_module("imageio_ffmpeg").get_ffmpeg_exe())
    if program := find("ffmpeg"):
        return program
    raise QualityError("ffmpeg is missing (apt install ffmpeg)")
