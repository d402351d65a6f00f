# SPDX-License-Identifier: Apache-2.0
"""Quality of the speech that both ends of a call heard, against what was spoken: MOS-LQO of ViSQOL's speech mode."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from sojourn.apps.standins.speech.espeak import read_speech, speech_of
from sojourn.harness.store.loaded import load_victim_run, valid
from sojourn.scoring.evidence import FAR, Setting
from sojourn.scoring.long_table import ALONE
from sojourn.scoring.picture.quality import QualityError
from sojourn.scoring.schema import records
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.sound import speech
from sojourn.scoring.sound.ear import SOUND, excerpts, heard_from
from sojourn.scoring.sound.judged_speech import CLIENT, COLUMNS, by_phase

PLAYER = "player.jsonl"
Judge = Callable[[speech.Samples, speech.Samples], float]
"""Returns the MOS-LQO of heard speech, the second, against what was spoken, the first; both have `speech.RATE`."""


class _Listener(NamedTuple):
    """What an end of a call listened to."""

    ear: speech.Samples
    """What it heard from the first phase on, at `speech.RATE`."""
    segments: list[speech.Spoken]
    """What the other end spoke during the phases."""


def measure(run: Path, progress: Callable[[float], None]) -> pl.DataFrame:
    """Judge each segment of speech that was spoken inside a phase, one row per segment and listener.

    Columns: `sojourn.scoring.sound.judged_speech.COLUMNS`. A segment that may have been heard after the end of the
    recorded sound has no row. `progress` receives the share done.

    Raises LoadError for a run that is not valid, QualityError for one without speech, with an end that missed a segment
    of the baseline, or without ViSQOL; ServiceError without what was spoken; RecordError, RecordingError.
    """
    files = [f"{prefix}{name}" for prefix in ("", f"{FAR}/") for name in (SOUND, PLAYER)]
    scores = valid(load_victim_run(run, "quality")).require_unaltered(*files).scores
    if not (digest := Setting.read(run).speech):
        raise QualityError(f"{run}: nobody spoke in it; make a call with --call-sound=speech")
    judge = visqol()
    loop = read_speech(speech_of(digest))
    wide = speech.wideband(loop).reshape(speech.SEGMENTS, -1)
    perfect = cache(lambda number: judge(wide[number], wide[number]))
    rows = []
    for nth, (listener, speaker) in enumerate(((CLIENT, FAR), (FAR, CLIENT))):
        end = _listener(run, listener, speaker, scores, loop)
        for done, (segment, phase, heard) in enumerate(_heard(end, scores, wide)):
            progress((nth + done / len(end.segments)) / 2)
            start, seconds = segment.begins - scores.t0, segment.ends - segment.begins
            mos = judge(wide[segment.number], heard.samples) if heard else None
            delay = round(1e3 * heard.delay, 3) if heard else None
            row = (round(start, 3), round(seconds, 3), phase, listener, segment.number, delay, mos)
            rows.append((*row, perfect(segment.number)))
    judged = pl.DataFrame(rows, schema=COLUMNS, orient="row")
    _check_baseline(run, judged, scores)
    progress(1.0)
    return judged


def _listener(run: Path, listener: str, speaker: str, scores: Scores, loop: speech.Samples) -> _Listener:
    """Return what an end listened to. Raises QualityError without times of its sound; RecordError, RecordingError."""
    folders = {CLIENT: run, FAR: run / FAR}
    heard, spoken = (records.read_lines(folders[end] / PLAYER, records.PLAYER) for end in (listener, speaker))
    ear = heard_from(heard, folders[listener] / SOUND, scores.t0)
    if ear is None or not excerpts(spoken):
        raise QualityError(f"{run}: {PLAYER} has no times of the sound that was spoken or heard; repeat the run")
    if not (begun := speech.anchors(spoken, loop)):
        raise QualityError(
            f"{run}: the microphone of the {'client' if speaker == CLIENT else 'other end'} heard something else than "
            f"the speech: no excerpt in {PLAYER} is part of it; repeat the run"
        )
    segments = speech.spoken(begun, loop, scores.t0, scores.t0 + scores.phases[-1].end)
    return _Listener(speech.wideband(ear), list(segments))


def _heard(
    end: _Listener, scores: Scores, wide: speech.Samples
) -> Iterator[tuple[speech.Spoken, str, speech.Heard | None]]:
    """Yield each segment that was spoken inside a phase, the phase, and what was heard; None: never.

    `wide` has the samples of every segment at `speech.RATE`. A segment whose end was heard after the sound ends is
    skipped; one that was not found has the delay of the segment before.
    """
    last_delay = 0.0
    for segment in end.segments:
        start, stop = segment.begins - scores.t0, segment.ends - scores.t0
        phase = next((it.name for it in scores.phases if it.start <= start and stop <= it.end), None)
        if phase is None:
            continue
        at = round((segment.t - scores.t0) * speech.RATE)
        until = at + round((speech.SEGMENT_S + speech.LATEST_S) * speech.RATE)
        before = np.zeros(max(-at, 0), np.float32)  # of the first phase, when the first sound of a segment is in it
        heard = speech.find(wide[segment.number], np.concatenate([before, end.ear[max(at, 0) : until]]))
        last_delay = heard.last_delay if heard else last_delay
        if at + round((speech.SEGMENT_S + last_delay) * speech.RATE) <= len(end.ear):
            yield segment, phase, heard


def _check_baseline(run: Path, judged: pl.DataFrame, scores: Scores) -> None:
    """Raise QualityError if an end missed a segment alone: there is nothing to compare the phases with."""
    for row in by_phase(judged, scores):
        if row.phase == ALONE and row.speech_unheard:
            listener = "client" if row.listener == CLIENT else "other end"
            raise QualityError(
                f"{run}: the {listener} never heard {row.speech_unheard} of the {row.speech_segments} segments that "
                "were spoken without a contender, so its speech has no baseline; repeat the run on a better path"
            )


def visqol() -> Judge:
    """Return ViSQOL's speech mode with the mapping that it has by default, a lattice network. Raises QualityError."""
    if not (find_spec("visqol") and find_spec("ai_edge_litert")):
        raise QualityError("ViSQOL is missing; install it: pip install 'sojourn[visqol]', in a checkout: make setup")
    api = import_module("visqol").VisqolApi()
    logging.getLogger("visqol").setLevel(logging.ERROR)  # a segment that was stretched may differ in length
    api.create(mode="speech", use_lattice_model=True)

    def judge(spoken: speech.Samples, heard: speech.Samples) -> float:
        try:
            return round(float(api.measure_from_arrays(spoken, heard, speech.RATE).moslqo), 4)
        except ValueError as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise QualityError(f"ViSQOL cannot compare a segment with what was heard of it: {why}") from error

    return judge
