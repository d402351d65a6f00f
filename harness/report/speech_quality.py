# SPDX-License-Identifier: Apache-2.0
"""Quality of the speech that both ends of a call heard, against what was spoken: MOS-LQO of ViSQOL's speech mode."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl

from sojourn.apps.standins.speech.espeak import digest_of, ensure_speech, read_speech
from sojourn.hardware.machine.files import replace_file
from sojourn.harness.store.loaded import load_victim_run, valid
from sojourn.harness.store.manifest import reseal
from sojourn.scoring.evidence import FAR, Setting
from sojourn.scoring.picture.quality import QualityError
from sojourn.scoring.schema import records
from sojourn.scoring.sound import speech
from sojourn.scoring.sound.ear import SOUND, heard_from, tapped
from sojourn.scoring.sound.judged_speech import CLIENT, COLUMNS, SPEECH

PLAYER = "player.jsonl"
Judge = Callable[[speech.Samples, speech.Samples], float]
"""Returns the MOS-LQO of heard speech, the second, against what was spoken, the first; both have `speech.RATE`."""


def measure(run: Path, progress: Callable[[float], None]) -> pl.DataFrame:
    """Judge each segment of speech that was spoken inside a phase, one row per segment and listener.

    Columns: `sojourn.scoring.sound.judged_speech.COLUMNS`. `progress` receives the share done. Raises LoadError for a
    run that is not valid, QualityError for one without speech, or without ViSQOL; ServiceError without espeak-ng;
    RecordError, RecordingError.
    """
    folders = {CLIENT: run, FAR: run / FAR}
    files = [f"{prefix}{name}" for prefix in ("", f"{FAR}/") for name in (SOUND, PLAYER)]
    scores = valid(load_victim_run(run, "quality")).require_unaltered(*files).scores
    setting = Setting.read(run)
    if not setting.speech:
        raise QualityError(f"{run}: nobody spoke in it; make a call with --call-sound=speech")
    judge = visqol()
    file = ensure_speech()
    if digest_of(file) != setting.speech:
        raise QualityError(
            f"{run}: its speech differs from that of this espeak-ng, so there is no reference to compare with; use the "
            "espeak-ng and the Sojourn that made the run"
        )
    loop = read_speech(file)
    wide = speech.wideband(loop).reshape(speech.SEGMENTS, -1)
    lines = {end: records.read_lines(folder / PLAYER, records.PLAYER) for end, folder in folders.items()}
    ends = scores.t0 + scores.phases[-1].end
    perfect: dict[int, float] = {}
    rows = []
    for number, (listener, speaker) in enumerate(((CLIENT, FAR), (FAR, CLIENT))):
        sound = tapped(lines[listener], folders[listener] / SOUND)
        begun = speech.anchors(lines[speaker], loop)
        if sound is None or not begun:
            raise QualityError(f"{run}: its sound has no times; repeat the run")
        last = sound.ear["t"][-1]
        segments = [it for it in speech.spoken(begun, loop, scores.t0, ends) if speech.is_judged(it, last)]
        length = ends - scores.t0 + speech.SEGMENT_S + speech.LATEST_S
        ear = heard_from(lines[listener], folders[listener] / SOUND, scores.t0, length)
        assert ear is not None
        ear = speech.wideband(ear)
        for done, segment in enumerate(segments):
            progress((number + done / len(segments)) / 2)
            start, end = segment.begins - scores.t0, segment.ends - scores.t0
            phase = next((it.name for it in scores.phases if it.start <= start and end <= it.end), None)
            if phase is None:
                continue
            at = round((segment.t - scores.t0) * speech.RATE)
            until = at + round((speech.SEGMENT_S + speech.LATEST_S) * speech.RATE)
            before = np.zeros(max(-at, 0), np.float32)  # of the first phase, when the first sound of a segment is in it
            said = wide[segment.number]
            if segment.number not in perfect:
                perfect[segment.number] = judge(said, said)
            heard = speech.find(said, np.concatenate([before, ear[max(at, 0) : until]]))
            mos = judge(said, heard.samples) if heard else None
            delay = round(1e3 * heard.delay, 3) if heard else None
            row = (round(start, 3), round(end - start, 3), phase, listener, segment.number, delay, mos)
            rows.append((*row, perfect[segment.number]))
    progress(1.0)
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def store(run: Path, judged: pl.DataFrame) -> Path:
    """Write the judged speech to a run, let its manifest hold it, and return its file. Raises StoreError, OSError."""
    replace_file(run / SPEECH, judged.write_csv().encode())
    reseal(run, SPEECH)
    return run / SPEECH


def visqol() -> Judge:
    """Return ViSQOL's speech mode with the mapping that it has by default, a lattice network. Raises QualityError."""
    if not (find_spec("visqol") and find_spec("ai_edge_litert")):
        raise QualityError("ViSQOL is missing; install it with pip install 'sojourn[visqol]'")
    api = import_module("visqol").VisqolApi()
    logging.getLogger("visqol").setLevel(logging.ERROR)  # a segment that was stretched may differ in length
    api.create(mode="speech", use_lattice_model=True)

    def judge(spoken: speech.Samples, heard: speech.Samples) -> float:
        return round(float(api.measure_from_arrays(spoken, heard, speech.RATE).moslqo), 4)

    return judge
