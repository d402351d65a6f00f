# SPDX-License-Identifier: Apache-2.0
"""OBS's configuration, and the times of its frames by the slate."""

from __future__ import annotations

import configparser
import json
from pathlib import Path

import numpy as np
import pytest

from sojourn.captures import recorders
from sojourn.captures.obs import Edge, ObsRecorder, first_frame
from sojourn.captures.obs_control import EDGES, SLATE, STAYS, files
from sojourn.hardware.machine.process import ProcessError
from sojourn.scoring.picture.recording import RecordingError
from tests.refusals import refusal

FPS = 30


def test_configuration_is_read_by_old_and_new_obs() -> None:
    made = files(
        part=Path("/run/x/screen.part.mkv"), size=(1280, 720), scale=0.5, fps=FPS, quantiser=20, port=4711,
        password="p%s=;",
    )  # fmt: skip
    assert json.loads(made["basic/profiles/Sojourn/recordEncoder.json"])["crf"] == 20
    profile = configparser.ConfigParser(interpolation=None)
    profile.optionxform = str  # type: ignore[assignment,method-assign]
    profile.read_string(made["basic/profiles/Sojourn/basic.ini"])
    assert [profile["Video"][key] for key in ("BaseCX", "OutputCY", "FPSInt")] == ["640", "360", "30"]
    advanced = profile["AdvOut"]
    assert advanced["RecFormat"] == advanced["RecFormat2"] == "mkv"
    assert f"{advanced['RecFilePath']}/{profile['Output']['FilenameFormatting']}.mkv" == "/run/x/screen.part.mkv"
    old = configparser.ConfigParser(interpolation=None)
    old.read_string(made["global.ini"])
    new = json.loads(made["plugin_config/obs-websocket/config.json"])
    assert old["OBSWebSocket"]["ServerPort"] == str(new["server_port"]) == "4711"
    assert old["OBSWebSocket"]["ServerPassword"] == new["server_password"] == "p%s=;"
    assert old["OBSWebSocket"]["AuthRequired"] == "true" and new["auth_required"]
    scene = json.loads(made["basic/scenes/Sojourn.json"])["sources"][-1]
    assert scene["settings"]["items"][0]["scale"] == {"x": 0.5, "y": 0.5}
    shown, hidden = scene["settings"]["items"]
    assert (shown["name"], shown["visible"]) == ("display", True)
    assert (hidden["name"], hidden["visible"], hidden["id"]) == ("slate", False, SLATE)


def recording(start: float, *, repeated: tuple[int, ...] = ()) -> tuple[list[float], np.ndarray, list[Edge]]:
    """Times and slates of a recording whose frame 0 was drawn at `start`; frames `repeated` show the one before."""
    begin = 1_700_000_000.4
    slate: list[Edge] = []
    for number in range(EDGES):
        at = begin + number * (STAYS + 1 / EDGES) / FPS
        slate.append((number % 2 == 0, at, at + 0.0005))
    times = [i / FPS for i in range(100)]
    state = [False, *(shown for shown, *_ in slate)]
    seen = [state[sum(at + 0.0002 < start + t for _, at, _ in slate)] for t in times]
    for frame in repeated:
        seen[frame] = seen[frame - 1]
    return times, np.array(seen), slate


@pytest.mark.parametrize("into", np.linspace(0, 1 / FPS, 7))
def test_frames_are_dated_to_a_tenth_of_a_frame(into: float) -> None:
    start = 1_700_000_000 + into
    found, error = first_frame(*recording(start))
    assert found == pytest.approx(start, abs=1 / FPS / 10)
    assert abs(found - start) <= error + 0.001 and error < 1 / FPS / 10


def test_frames_that_obs_drew_late_move_nothing() -> None:
    start = 1_700_000_000.02
    found, _ = first_frame(*recording(start, repeated=(13, 29, 30)))
    assert found == pytest.approx(start, abs=1 / FPS / 4)


def test_a_recording_without_a_readable_slate_is_refused() -> None:
    times, seen, slate = recording(1_700_000_000)
    with pytest.raises(RecordingError, match="does not begin with a slate"):
        first_frame(times, np.zeros_like(seen), slate)
    with pytest.raises(RecordingError, match="too few"):
        first_frame(times, np.arange(len(seen)) % 2 == 0, slate)


def test_missing_obs_names_the_option_and_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObsRecorder, "program", "obs-that-is-not-there")
    with refusal(ProcessError, "missing-program", "--recorder=obs", "apt install obs-studio"):
        recorders.RECORDERS["obs"].check()
    recorders.RECORDERS["ffmpeg"].check()
