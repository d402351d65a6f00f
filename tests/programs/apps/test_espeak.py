# SPDX-License-Identifier: Apache-2.0
"""The speech that espeak-ng makes: sentences in two voices with pauses, the same whenever it is made."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from sojourn.apps.base import ServiceError
from sojourn.apps.standins.speech import espeak
from sojourn.apps.standins.speech.espeak import (
    UTTERANCES,
    VOICES,
    digest_of,
    ensure_speech,
    laid_out,
    read_speech,
    speech_of,
)
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.programs import find
from sojourn.scoring.sound import code, speech
from tests.refusals import refusal

NEEDS_ESPEAK = pytest.mark.skipif(find("espeak-ng") is None, reason="espeak-ng is missing")


def test_every_segment_has_two_sentences_of_its_own() -> None:
    sentences = [sentence for pair in UTTERANCES for sentence in pair]
    assert len(UTTERANCES) == speech.SEGMENTS and len({*sentences}) == len(sentences)
    assert all(text.isascii() and text.endswith(".") and 5 <= len(text.split()) <= 8 for text in sentences)


def test_sentences_are_laid_out_with_pauses_and_must_fit() -> None:
    one = np.full(2 * code.RATE, 0.1, np.float32)
    loop = laid_out([(one, one)] * speech.SEGMENTS)
    loud = np.flatnonzero(loop[speech.SEGMENT : 2 * speech.SEGMENT]) / code.RATE
    assert len(loop) / code.RATE == pytest.approx(code.LOOP_S)
    assert (loud[0], loud[-1]) == pytest.approx((0.3, 4.8), abs=1e-3) and np.diff(loud).max() == pytest.approx(
        0.5, abs=1e-3
    )
    with refusal(ServiceError, "failed", "espeak-ng takes 6.0 s", "too long"):
        laid_out([(one, np.tile(one, 2))] * speech.SEGMENTS)


@NEEDS_ESPEAK
def test_it_is_made_once_and_always_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for name in "ab":
        monkeypatch.setattr(cache, "root", lambda name=name: tmp_path / name)
        made.append(ensure_speech())
    assert digest_of(made[0]) == digest_of(made[1]) and made[0] != made[1]
    before = made[1].stat().st_mtime_ns
    assert ensure_speech() == made[1] and made[1].stat().st_mtime_ns == before
    with wave.open(str(made[0])) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, code.RATE)
        assert file.getnframes() == speech.SEGMENT * speech.SEGMENTS
    loop = read_speech(made[0]).reshape(speech.SEGMENTS, -1)
    levels = [20 * np.log10(np.sqrt(np.square(segment[segment != 0]).mean())) for segment in loop]
    assert levels == pytest.approx([-26] * speech.SEGMENTS, abs=0.7) and np.abs(loop).max() < 0.9
    # A microphone's excerpt of 2 s has speech wherever it begins.
    silent = np.diff(np.flatnonzero(np.abs(np.concatenate([*loop, *loop[:1]])) > 0.003)).max() / code.RATE
    assert 0.8 < silent < 1.9


def test_without_espeak_the_option_and_the_package_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(espeak, "find", lambda name: None)
    with refusal(ServiceError, "missing", "--call-sound=speech", "apt-get install espeak-ng"):
        ensure_speech()


def test_what_a_run_spoke_is_taken_from_the_cache_whoever_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    (kept := tmp_path / "speech/of-another-espeak/speech.wav").parent.mkdir(parents=True)
    kept.write_bytes(b"spoken")
    monkeypatch.setattr(espeak, "find", lambda name: None)
    assert speech_of(digest_of(kept)) == kept
    with refusal(ServiceError, "missing", "espeak-ng is missing", "copy speech/*/speech.wav") as refused:
        speech_of("0" * 64)
    assert "--call-sound" not in str(refused.value), "the run is finished"


@NEEDS_ESPEAK
def test_another_speech_than_the_runs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    with refusal(ServiceError, "other-version", "this espeak-ng speaks otherwise", "numpy, scipy or Sojourn"):
        speech_of("0" * 64)
    assert speech_of(digest_of(ensure_speech())) == ensure_speech()


@NEEDS_ESPEAK
def test_a_voice_that_it_has_not_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    monkeypatch.setattr(espeak, "VOICES", ("nobody", *VOICES[1:]))
    with refusal(ServiceError, "failed", "espeak-ng fails"):
        ensure_speech()
