# SPDX-License-Identifier: Apache-2.0
"""What the microphones of a call hear with --call-sound=speech: sentences that espeak-ng speaks in two voices."""

from __future__ import annotations

import hashlib
import subprocess
import wave
from pathlib import Path

import numpy as np

from sojourn.apps.base import ServiceError
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.programs import find
from sojourn.scoring.sound import code, speech

VOICES = "en-gb", "en-us+f3"
"""The voices of espeak-ng, a man's and a woman's, which take turns."""
UTTERANCES = (
    ("The ferry leaves at half past seven.", "She painted the old door green."),
    ("Rain is expected before the evening.", "He keeps his tools in the cellar."),
    ("The baker opens early on Fridays.", "Two boats were tied to the pier."),
    ("My brother plays the violin badly.", "The soup needs a little more salt."),
    ("We missed the last bus to town.", "A grey cat sleeps on the piano."),
    ("The teacher wrote a long answer.", "Please bring the chairs inside."),
    ("Snow covered the road by midnight.", "Their garden is full of roses."),
    ("The doctor asked me to wait here.", "He found a coin under the carpet."),
    ("The train was late again today.", "Children ran along the river bank."),
    ("I left my umbrella at the office.", "The museum is closed on Mondays."),
    ("A strong wind shook the windows.", "She reads the paper after lunch."),
    ("The bridge was built in one year.", "Fresh bread is on the kitchen table."),
    ("The clock stopped in the morning.", "They walked home through the park."),
    ("Our neighbour sells honey and eggs.", "The letter arrived a week too late."),
    ("He washes the car every Sunday.", "The choir sang without any music."),
    ("A small lamp stood by the bed.", "The farmer counted his sheep twice."),
)
"""The two sentences of every segment: short, simple and unrelated, as ITU-T P.800 (08/1996), B.1.4, has them."""
WORDS_PER_MINUTE = 150
LEAD_S, PAUSE_S, LEAST_PAUSE_S = 0.3, 0.5, 0.3
"""The silence before the first sentence of a segment, between its two, and the least after the second."""
_FOLDER, _FILE = "speech", "speech.wav"
_LEVEL_DB = -26.0
"""The level of every sentence, dBov as RMS: the nominal one of ITU-T P.56 and P.800."""
_SILENT = 0.01
"""The peak of what is cut from both ends of a sentence, as a share of full scale."""


def ensure_speech() -> Path:
    """Return the WAV file for --use-file-for-fake-audio-capture, writing it first when the cache has none.

    Raises ServiceError if espeak-ng is missing or fails.
    """
    program = find("espeak-ng")
    if program is None:
        raise ServiceError(
            "--call-sound=speech: espeak-ng is missing; install it with apt-get install espeak-ng, or use "
            "--call-sound=on",
            code="missing",
        )
    return _made_once(program)


def speech_of(digest: str) -> Path:
    """Return the WAV file with this SHA-256, which a run spoke: from the cache, or else spoken again.

    Raises ServiceError if the cache has none and espeak-ng is missing, fails or speaks otherwise.
    """
    for file in sorted((cache.root() / _FOLDER).glob(f"*/{_FILE}")):
        if digest_of(file) == digest:
            return file
    remedy = f"copy {_FOLDER}/*/{_FILE} from the cache of the machine that made the run to {cache.root()}"
    if (program := find("espeak-ng")) is None:
        raise ServiceError(
            f"espeak-ng is missing, and the cache does not have what the run spoke; {remedy}, or install the espeak-ng "
            "that the run had",
            code="missing",
        )
    if digest_of(file := _made_once(program)) != digest:
        raise ServiceError(
            "the cache does not have what the run spoke, and this espeak-ng speaks otherwise: espeak-ng, its voices, "
            f"numpy, scipy or Sojourn have another version, or lab.json was altered; {remedy}",
            code="other-version",
        )
    return file


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file that is alone in its folder. Raises OSError."""
    return str(cache.contents(file.parent)[file.name][1])


def read_speech(file: Path) -> speech.Samples:
    """Return the loop's samples at `code.RATE`, between -1 and 1."""
    with wave.open(str(file)) as opened:
        pcm = opened.readframes(opened.getnframes())
    return np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)


def laid_out(sentences: list[tuple[speech.Samples, speech.Samples]]) -> speech.Samples:
    """Return the loop with two spoken sentences in every segment. Raises ServiceError for sentences that do not fit."""
    loop = np.zeros(speech.SEGMENTS * speech.SEGMENT, np.float32)
    lead, pause, least = (round(seconds * code.RATE) for seconds in (LEAD_S, PAUSE_S, LEAST_PAUSE_S))
    for number, (first, second) in enumerate(sentences):
        if lead + len(first) + pause + len(second) + least > speech.SEGMENT:
            raise ServiceError(
                f"espeak-ng takes {(len(first) + len(second)) / code.RATE:.1f} s for {UTTERANCES[number]}, which is "
                "too long; use the espeak-ng of Debian",
                code="failed",
            )
        begins = number * speech.SEGMENT + lead
        loop[begins : begins + len(first)] = first
        begins += len(first) + pause
        loop[begins : begins + len(second)] = second
    return loop


def _made_once(program: str) -> Path:
    """Return the file that this espeak-ng makes, writing it first if the cache has none. Raises ServiceError."""
    recipe = hashlib.sha256(_output(program, "--version"))
    recipe.update(repr((code.RATE, speech.SEGMENT, speech.SEGMENTS)).encode() + Path(__file__).read_bytes())
    entry = cache.root() / _FOLDER / recipe.hexdigest()[:16]
    return cache.build_once(entry, lambda work: _write(program, work / _FILE)) / _FILE


def _write(program: str, file: Path) -> None:
    spoken = [
        (_say(program, first, VOICES[number % 2]), _say(program, second, VOICES[number % 2]))
        for number, (first, second) in enumerate(UTTERANCES)
    ]
    with wave.open(str(file), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(code.RATE)
        out.writeframes(np.rint(laid_out(spoken) * 32767).astype("<i2").tobytes())


def _say(program: str, text: str, voice: str) -> speech.Samples:
    """Return a spoken sentence without silence at its ends, at `code.RATE` and the nominal level."""
    from scipy.signal import resample_poly  # type: ignore[import-untyped]  # slow to import

    wav = _output(program, "-v", voice, "-s", str(WORDS_PER_MINUTE), "--stdout", text)
    rate = int.from_bytes(wav[24:28], "little")  # of a header of 44 bytes; its sizes are those of an endless stream
    samples = np.frombuffer(wav[44:], "<i2") / 32768
    loud = np.flatnonzero(np.abs(samples) > _SILENT)
    if not loud.size or not rate:
        raise ServiceError(f"espeak-ng says nothing for {text!r} in the voice {voice}", code="failed")
    heard = resample_poly(samples[loud[0] : loud[-1] + 1], code.RATE, rate)
    level = 10 ** (_LEVEL_DB / 20) / np.sqrt(np.square(heard).mean())
    return np.asarray(np.clip(heard * level, -1, 1), np.float32)


def _output(program: str, *arguments: str) -> bytes:
    """Return the standard output of espeak-ng. Raises ServiceError."""
    run = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if run.returncode:
        why = run.stderr.decode(errors="replace").strip().splitlines()
        raise ServiceError(f"espeak-ng fails: {why[-1] if why else f'exit code {run.returncode}'}", code="failed")
    return run.stdout
