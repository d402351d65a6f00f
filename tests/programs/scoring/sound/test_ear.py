# SPDX-License-Identifier: Apache-2.0
"""Mouth to ear, from the taps' times and the listener's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sojourn.scoring.picture.recording import RecordingError
from sojourn.scoring.sound.ear import SOUND, Sound, ear
from sojourn.scoring.sound.heard import MS, Samples
from sojourn.scoring.sound.summary import sound_fields
from tests.sound import ear_line, mouth_line, spoken, write_flac

T, PLACE_S, DELAY_S = 1.79e9, 90.0, 0.075  # the loop begins again at 92.16 s


def listened(folder: Path, sound: Samples, marks: list[dict[str, Any]] | None = None) -> Sound:
    write_flac(sound, folder / SOUND)
    # The ear's tap begins a second before anything is said.
    lines = marks or [ear_line(T + DELAY_S - 1)]
    heard = ear(lines, [mouth_line(T, PLACE_S)], folder / SOUND)
    assert heard is not None
    return heard


def quiet(seconds: float) -> Samples:
    return np.zeros(round(seconds * 1e3) * MS, np.float32)


def test_every_tone_has_its_delay_across_the_loops_end(tmp_path: Path) -> None:
    heard = listened(tmp_path, np.concatenate([quiet(1), spoken(5, PLACE_S)]))
    assert heard.tones["delay_ms"].null_count() == 0 and heard.tones.height == pytest.approx(250, abs=1)
    assert (heard.tones["delay_ms"] - DELAY_S * 1e3).abs().max() < 0.1  # type: ignore[operator]
    assert heard.tones["t"][0] == pytest.approx(T, abs=0.001) and heard.ear["t"][0] == pytest.approx(T + DELAY_S - 1)
    assert heard.ear["gap"].sum() == pytest.approx(1000, abs=5) and not heard.ear["repeated"].any()


def test_a_lost_part_is_never_heard_and_what_comes_after_a_pause_is_late(tmp_path: Path) -> None:
    said = spoken(6, PLACE_S)
    said[2000 * MS : 2100 * MS] = 0
    late = np.concatenate([quiet(1), said[: 4000 * MS], quiet(0.3), said[4000 * MS :]])
    heard = listened(tmp_path, late)
    lost = heard.tones.filter(pl.col("delay_ms").is_null())
    assert lost.height == pytest.approx(5, abs=1) and lost["t"][0] == pytest.approx(T + 2, abs=0.021)
    last = heard.tones.filter(pl.col("t") > T + 4.05)
    assert (last["delay_ms"] - (DELAY_S + 0.3) * 1e3).abs().max() < 0.1  # type: ignore[operator]


@pytest.mark.parametrize("silent_s", [3, 10])
def test_sound_that_comes_late_or_never_is_lost(tmp_path: Path, silent_s: float) -> None:
    said = spoken(10, PLACE_S)
    said[: round(silent_s * 1e3) * MS] = 0
    heard = listened(tmp_path, np.concatenate([quiet(1), said]))
    assert heard.tones["t"][0] == pytest.approx(T, abs=0.021)
    lost = sound_fields(heard, None, [(T + 1, T + 5)])
    assert lost["ear_loss"] == pytest.approx(min(silent_s - 1, 4) / 4, abs=0.01) and "r_factor" in lost


@pytest.mark.parametrize("shortened_s", [0, 0.2])
def test_a_pause_is_neither_lost_nor_a_gap_and_what_is_lost_next_to_it_is(tmp_path: Path, shortened_s: float) -> None:
    said = spoken(6, PLACE_S)
    said[2000 * MS : 2600 * MS] = 0  # muted, and shortened at the ear
    said[3000 * MS : 3100 * MS] = 0  # lost
    came = np.concatenate([quiet(1), said[: 2000 * MS], said[round((2 + shortened_s) * 1e3) * MS :]])
    write_flac(came, tmp_path / SOUND)
    muted = [{"t": T + t, "event": "muted", "detail": on} for t, on in ((0, False), (2, True), (2.6, False))]
    lines = [ear_line(T + DELAY_S - 1)]
    heard, unmuted = (ear(lines, [mouth_line(T, PLACE_S), *it], tmp_path / SOUND) for it in (muted, []))
    assert heard is not None and unmuted is not None
    lost = heard.tones.filter(pl.col("delay_ms").is_null())
    assert lost.height == pytest.approx(5, abs=1) and lost["t"][0] == pytest.approx(T + 3, abs=0.021)
    assert heard.tones.filter(pl.col("t").is_between(T + 2, T + 2.6)).is_empty()
    after = heard.ear.filter(pl.col("t") > T + DELAY_S + 0.1)
    assert after["gap"].sum() == pytest.approx(100, abs=5)
    assert unmuted.tones["delay_ms"].null_count() == pytest.approx(35, abs=2)
    last = heard.tones.filter(pl.col("t") > T + 3.2)
    assert (last["delay_ms"] - (DELAY_S - shortened_s) * 1e3).abs().max() < 0.1  # type: ignore[operator]


def test_what_is_heard_again_is_repeated(tmp_path: Path) -> None:
    said = spoken(4, PLACE_S)
    heard = listened(tmp_path, np.concatenate([quiet(1), said[: 2000 * MS], said[1985 * MS :]]))
    assert heard.ear["repeated"].sum() == pytest.approx(15, abs=4)


def test_a_tap_that_paused_goes_on_at_its_new_time(tmp_path: Path) -> None:
    said = np.concatenate([quiet(1), spoken(4, PLACE_S)])
    marks = [ear_line(T + DELAY_S - 1), ear_line(T + DELAY_S + 2.05, 3 * 48_000, clock_us=9e6 + 3.05e6)]
    heard = listened(tmp_path, said, marks)
    assert heard.begins == pytest.approx(T + DELAY_S - 1, abs=1e-6)
    second = heard.tones.filter(pl.col("t") > T + 2.05)
    assert (second["delay_ms"] - (DELAY_S + 0.05) * 1e3).abs().max() < 0.1  # type: ignore[operator]


def test_without_taps_or_a_place_nothing_is_known_and_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    write_flac(quiet(1), tmp_path / SOUND)
    assert ear([], [mouth_line(T)], tmp_path / SOUND) is None
    assert ear([ear_line(T)], [], tmp_path / SOUND) is None
    silent = ear([ear_line(T)], [mouth_line(T)], tmp_path / SOUND)
    assert silent is not None and silent.tones.is_empty() and silent.ear["gap"].all()
    (tmp_path / SOUND).write_bytes(b"no sound")
    with pytest.raises(RecordingError, match=SOUND):
        ear([ear_line(T)], [mouth_line(T)], tmp_path / SOUND)
