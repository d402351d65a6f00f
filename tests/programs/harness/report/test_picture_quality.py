# SPDX-License-Identifier: Apache-2.0
"""Pictures of a camera's film, recorded well and badly, are judged against the film itself."""

from __future__ import annotations

import hashlib
import json
import subprocess
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import sojourn
from sojourn.apps.standins.call import camera
from sojourn.apps.standins.film import FilmError
from sojourn.harness.cli import app
from sojourn.harness.report import picture_quality
from sojourn.harness.report.data import RunData
from sojourn.harness.store.integrity import verify_run
from sojourn.harness.store.loaded import LoadError
from sojourn.harness.store.manifest import Bundled, read_manifest, write_manifest
from sojourn.scoring.picture import strip
from sojourn.scoring.picture.quality import Pick, QualityError, picks
from sojourn.scoring.schema.scores import SCORES, Scores
from tests.unit.harness.sealed import seal

WIDTH, HEIGHT, FPS, SECONDS = 640, 360, 30, 4
_POOR_FROM_S = 2


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4 s of a call; from 2 s on its picture has 9 lines."""
    file = tmp_path_factory.mktemp("recording") / "screen.mp4"
    command = ["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{WIDTH}x{HEIGHT}"]
    command += ["-r", f"{FPS}", "-i", "-", "-c:v", "libx264", "-preset", "ultrafast", "-crf", "12", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as ffmpeg:
        assert ffmpeg.stdin
        for number, picture in enumerate(islice(camera.pictures(WIDTH, HEIGHT), SECONDS * FPS)):
            if number >= _POOR_FROM_S * FPS:
                small = cv2.resize(picture, (WIDTH // 40, HEIGHT // 40), interpolation=cv2.INTER_AREA)
                picture = cv2.resize(small, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC).astype(np.uint8)
            planes = cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_I420)
            band = strip.render(number, 0, WIDTH, HEIGHT)
            planes[HEIGHT - len(band) : HEIGHT] = band
            ffmpeg.stdin.write(planes.tobytes())
    return file


@pytest.fixture
def run(tmp_path: Path, scores: Scores, recording: Path) -> Path:
    (run := tmp_path / "run").mkdir()
    phases = [scores.phases[0].model_copy(update={"name": name, "start": at, "end": at + 2.0, "contender": contender})
              for name, at, contender in (("good", 0.0, None), ("poor", 2.0, "cubic"))]  # fmt: skip
    told = {"phases": phases, "baseline_windows": [(0.0, 2.0)], "harm": [], "freezes": [], "renditions": []}
    (run / SCORES).write_text(scores.model_copy(update=told).model_dump_json())
    clip = {"frames": camera.FRAMES, "fps": camera.FPS, "heights": [], "rates_bps": []}
    (run / "lab.json").write_text(json.dumps({"clip": clip, "call": {"width": WIDTH, "height": HEIGHT}}))
    (run / "screen.json").write_text(json.dumps({"start": scores.t0}))
    times = [{"name": it.name, "contender": it.contender, "start": scores.t0 + it.start, "end": scores.t0 + it.end}
             for it in phases]  # fmt: skip
    (run / "timeline.json").write_text(json.dumps({"phases": times}))
    (run / "screen.mp4").hardlink_to(recording)
    return seal(run)


def test_each_picture_is_judged_against_its_own(run: Path) -> None:
    told: list[float] = []
    found = picture_quality.measure(run, 0.5, told.append)
    assert found["frame"].to_list() == [0, 15, 30, 45, 60, 75, 90, 105] and told[-1] == 1
    good, poor = (found.filter(pl.col("phase") == name) for name in ("good", "poor"))
    assert good["ssim"].min() > 0.99 > 0.97 > poor["ssim"].max()  # type: ignore[operator]
    assert good["vmaf"].min() > 90 > 60 > poor["vmaf"].max()  # type: ignore[operator]
    assert picture_quality.summary(found).select("phase", "n").rows() == [("good", 4), ("poor", 4)]


def test_an_ffmpeg_without_libvmaf_tells_the_rest(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_quality, "find_spec", lambda name: None)
    if "libvmaf" in subprocess.run(["ffmpeg", "-v", "error", "-filters"], capture_output=True, text=True).stdout:
        pytest.skip("this system's ffmpeg has libvmaf")
    found = picture_quality.measure(run, 1.0, lambda share: None)
    assert found["ssim"].min() > 0.5 and found["vmaf"].null_count() == 4  # type: ignore[operator]


def test_of_each_span_the_first_new_picture_that_can_be_read_is_taken() -> None:
    shown = pl.DataFrame({"t": [0.0, 0.4, 0.6, 1.0, 1.2, 1.4, 2.5], "frame": [-1, 7, 7, 7, -1, 9, 9]})
    assert picks(shown, 1.0) == [Pick(1, 0.4, 7), Pick(5, 1.4, 9)]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"validity": {"valid": False, "gates": []}}, "an invalid run has no figures"),
        ({"picture": "player"}, "did not show Sojourn's film"),
    ],
)
def test_what_cannot_be_judged_is_told(run: Path, wrong: dict[str, object], told: str) -> None:
    kept = json.loads((run / SCORES).read_text())
    (run / SCORES).write_text(json.dumps(kept | wrong))
    seal(run)
    with pytest.raises((QualityError, LoadError), match=told):
        picture_quality.measure(run, 1.0, lambda share: None)


def test_a_bundles_record_has_no_file_of_ours_opened(run: Path, tmp_path: Path) -> None:
    """Whoever made a bundle names the film in it: a decoder would open whatever stands there."""
    (secret := tmp_path / "secret.mp4").write_bytes(b"private")
    clip = json.loads((run / "lab.json").read_text())["clip"]
    digest = hashlib.sha256(b"private").hexdigest()
    (run / "lab.json").write_text(json.dumps({"clip": clip | {"heights": [360], "film": digest}}))
    (run / "options.json").write_text(json.dumps({"clip": str(secret)}))
    with pytest.raises(FilmError, match=r"secret\.mp4: not a film: "):
        picture_quality.measure(seal(run), 1.0, lambda share: None)
    manifest = read_manifest(run)
    write_manifest(run, manifest.model_copy(update={"bundle": Bundled(source="0" * 64, anonymised=False)}))
    with pytest.raises(QualityError, match=f"showed a film of another machine: --clip={secret}"):
        picture_quality.measure(run, 1.0, lambda share: None)


def test_a_frame_that_the_film_has_not_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera, "FRAMES", 50)
    with pytest.raises(QualityError, match="frame 60 was shown, which the film has not"):
        picture_quality.measure(run, 1.0, lambda share: None)


def test_every_picture_of_a_call_is_judged(run: Path) -> None:
    found = picture_quality.measure(run, None, lambda share: None)
    assert found["frame"].to_list() == list(range(SECONDS * FPS)) and found["height"].null_count() == found.height


def test_stored_values_are_in_report_and_tables(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the command, and an altered file is refused by name."""
    monkeypatch.setattr(picture_quality, "find_spec", lambda name: None)
    told = CliRunner().invoke(app, ["quality", str(run), "--every=0.5", "--write", "--json"], env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.stderr
    alone, good, poor = json.loads(told.stdout)["phases"]
    assert alone["ssim_mean"] == good["ssim_mean"] > 0.99 and poor["pictures"] == 4
    assert poor["harm"]["ssim_mean"] == pytest.approx(1 - poor["ssim_mean"] / good["ssim_mean"])
    loaded = sojourn.load(run)
    assert isinstance(loaded, RunData) and loaded.pictures["frame"].to_list() == [0, 15, 30, 45, 60, 75, 90, 105]
    figures = {(phase, metric): value for _, _, _, phase, _, metric, value, _ in loaded.figures.rows()}
    assert figures["poor", "ssim_mean"] == poor["ssim_mean"]
    assert figures["poor", "harm.ssim_mean"] == poor["harm"]["ssim_mean"]
    page = (run / "report.html").read_text()
    assert "<h2>Picture quality</h2>" in page and f"{poor['ssim_mean']:.3f}" in page
    assert verify_run(run).files.keys() >= {"quality.csv", "report.html"}
    (run / "quality.csv").write_text((run / "quality.csv").read_text().replace(",poor,", ",good,"))
    for arguments in (["report", str(run)], ["data", str(run), "--table=pictures", "-o", str(run.parent / "out")]):
        refused = CliRunner().invoke(app, arguments)
        assert refused.exit_code == 1 and "quality.csv does not match the manifest" in refused.stderr
    assert CliRunner().invoke(app, ["quality", str(run), "--every=2", "--write"]).exit_code == 0
    assert sojourn.load(run).pictures.height == 2
