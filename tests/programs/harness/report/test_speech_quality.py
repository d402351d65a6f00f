# SPDX-License-Identifier: Apache-2.0
"""The speech of a call, as an end heard it, is judged by ViSQOL against what espeak-ng spoke."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sojourn
from sojourn.apps.base import ServiceError
from sojourn.apps.standins.speech.espeak import digest_of, ensure_speech, read_speech
from sojourn.hardware.machine.programs import find
from sojourn.harness.cli import app
from sojourn.harness.report import speech_quality
from sojourn.harness.report.data import RunData
from sojourn.harness.store.loaded import LoadError
from sojourn.harness.store.manifest import hash_file
from sojourn.scoring.picture.quality import QualityError
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.sound import code, speech
from sojourn.scoring.sound.speech import Samples
from tests.sound import ear_line, write_flac
from tests.unit.harness.sealed import seal

pytestmark = pytest.mark.skipif(find("espeak-ng") is None, reason="espeak-ng is missing")

DELAY_S, SECONDS, BEGUN_S = 0.08, 24.0, -3.0
"""Of the recording; its speaker's loop begins 3 s before the first phase, the recording 1 s before."""


@pytest.fixture(scope="module")
def loop() -> Samples:
    return read_speech(ensure_speech())


def heard(loop: Samples, seconds: float = SECONDS) -> Samples:
    """Return what an end hears from 1 s before the first phase on."""
    first = round((-1 - BEGUN_S - DELAY_S) * code.RATE)
    return np.roll(loop, -first)[: round(seconds * code.RATE)].copy()


@pytest.fixture
def run(tmp_path: Path, scores: Scores, loop: Samples) -> Path:
    """13.5 s alone and 6.5 s with a contender, in which the client misses a segment."""
    (far := (run := tmp_path / "run") / "far").mkdir(parents=True)
    parts = (("alone-1", 0.0, 13.5, None), ("cubic", 13.5, 20.0, "cubic"))
    phases = [
        scores.phases[0].model_copy(update={"name": name, "start": at, "end": end, "contender": contender})
        for name, at, end, contender in parts
    ]
    told = {"phases": phases, "baseline_windows": [(0.0, 13.5)], "harm": [], "freezes": [], "renditions": []}
    (run / SCORES).write_text(scores.model_copy(update=told).model_dump_json())
    lab = {"rtt_ms": 20, "rate_down_bps": 10_000_000, "qdisc_down": "pfifo", "qdisc_up": "pfifo"}
    call = {"width": 640, "height": 360, "sound": True, "speech": digest_of(ensure_speech())}
    (run / "lab.json").write_text(json.dumps({**lab, "call": call}))
    times = [{"name": it.name, "contender": it.contender, "start": scores.t0 + it.start, "end": scores.t0 + it.end}
             for it in phases]  # fmt: skip
    (run / "timeline.json").write_text(json.dumps({"phases": times}))
    excerpt = np.roll(loop, -round(2 * code.RATE))[: 96_000 : speech.EXCERPT_THINNED]
    at = (scores.t0 + BEGUN_S + 2) * 1e3
    detail = {"rate": code.RATE, "count": 96_000, "marks": [[0, 5e6, at]],
              "excerpts": [[0, np.rint(excerpt * 32768).astype(int).tolist()]]}  # fmt: skip
    for folder in (run, far):
        lines: list[dict[str, Any]] = [{"t": at / 1e3 + 2, "event": "spoken", "detail": detail}]
        lines.append(ear_line(scores.t0 - 1))
        (folder / "player.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        sound = heard(loop)
        if folder is run:
            sound[round(14.2 * code.RATE) : round(21.0 * code.RATE)] = 0
        write_flac(sound, folder / "sound.flac")
    return sealed(run)


def sealed(run: Path) -> Path:
    files = {str(file.relative_to(run)): hash_file(file) for file in run.rglob("*") if file.is_file()}
    return seal(run, files={name: it for name, it in files.items() if name != "manifest.json"})


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A judge that says 4 of everything, and the lengths that it was given."""
    lengths: list[int] = []

    def mos(spoken: Samples, heard: Samples) -> float:
        assert np.corrcoef(spoken, heard[: len(spoken)])[0, 1] > 0.95  # it is placed to a sample
        lengths.append(len(heard))
        return 4.0

    monkeypatch.setattr(speech_quality, "visqol", lambda: mos)
    return lengths


def test_every_segment_is_judged_where_it_was_heard(run: Path, judge: list[int]) -> None:
    found = speech_quality.measure(run, lambda share: None)
    client, far = (found.filter(listener=end) for end in ("client", "far"))
    assert far["segment"].to_list() == [1, 2, 3] == client["segment"].to_list()
    assert far["phase"].to_list() == ["alone-1", "alone-1", "cubic"]
    assert far["t"].to_list() == pytest.approx([3.06, 8.82, 14.58], abs=0.02)
    assert far["delay_ms"].to_list() == pytest.approx([1e3 * DELAY_S] * 3, abs=0.1)
    assert client["mos_lqo"].to_list() == [4.0, 4.0, None] and client["delay_ms"].null_count() == 1
    assert judge == [speech.SEGMENT // 3] * 8, "those heard, and what was spoken once each"


def test_what_may_have_been_heard_after_the_recording_has_no_row(run: Path, loop: Samples, judge: list[int]) -> None:
    """Segment 3 ends 20.04 s after the first phase began."""
    for seconds, segments in ((1 + 20.1 + DELAY_S, [1, 2, 3]), (1 + 20.0 + DELAY_S, [1, 2])):
        write_flac(heard(loop, seconds), run / "far/sound.flac")
        found = speech_quality.measure(sealed(run), lambda share: None)
        assert found.filter(listener="far")["segment"].to_list() == segments


def test_a_call_that_was_deaf_alone_is_not_judged(run: Path, loop: Samples, judge: list[int]) -> None:
    sound = heard(loop)
    sound[round(9.5 * code.RATE) : round(15.3 * code.RATE)] = 0
    write_flac(sound, run / "far/sound.flac")
    with pytest.raises(QualityError, match="the other end never heard 1 of the 2 segments that were spoken without"):
        speech_quality.measure(sealed(run), lambda share: None)


def test_a_microphone_without_times_and_one_without_the_speech_differ(run: Path, judge: list[int]) -> None:
    lines = [json.loads(line) for line in (run / "player.jsonl").read_text().splitlines()]
    spoken = next(line["detail"] for line in lines if line["event"] == "spoken")
    other = np.random.default_rng(1).integers(-3000, 3000, 6000).tolist()
    for excerpts, why in (([], "no times"), ([[0, other]], "microphone of the client heard something else")):
        spoken["excerpts"] = excerpts
        (run / "player.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        with pytest.raises(QualityError, match=why):
            speech_quality.measure(sealed(run), lambda share: None)


def test_what_visqol_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Api:
        def create(self, **_: object) -> None: ...

        def measure_from_arrays(self, *_: object) -> None:
            raise ValueError("too short\nat line 3")

    monkeypatch.setattr(speech_quality, "find_spec", lambda name: True)
    monkeypatch.setattr(speech_quality, "import_module", lambda name: SimpleNamespace(VisqolApi=Api))
    none = np.zeros(1, np.float32)
    with pytest.raises(QualityError, match=r"was heard of it: too short$"):
        speech_quality.visqol()(none, none)


def test_stored_values_are_in_report_and_tables(run: Path, judge: list[int]) -> None:
    done = CliRunner().invoke(app, ["quality", str(run), "--speech", "--write", "--json"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.stderr
    rows = {(row["listener"], row["phase"]): row for row in json.loads(done.stdout)["phases"]}
    assert rows["client", "cubic"]["speech_unheard"] == 1 and rows["client", "cubic"]["mos_lqo_mean"] == 1.0
    assert rows["client", "cubic"]["mos_lqo_lost"] == 3.0 and rows["client", "cubic"]["delay_ms"] == "Infinity"
    assert rows["far", "alone"]["mos_lqo_mean"] == 4.0
    loaded = sojourn.load(run)
    assert isinstance(loaded, RunData) and loaded.speech.height == 6
    figures = {(phase, metric): value for _, _, _, phase, _, metric, value, _ in loaded.figures.rows()}
    assert figures["alone-1", "mos_lqo_mean"] == 4.0 and figures["cubic", "speech_unheard"] == 1
    assert "<h2>Speech quality</h2>" in (run / "report.html").read_text()
    (run / "speech.csv").write_text((run / "speech.csv").read_text().replace(",4.0", ",5.0"))
    refused = CliRunner().invoke(app, ["report", str(run)])
    assert refused.exit_code == 1 and "speech.csv does not match the manifest" in refused.stderr


def test_what_cannot_be_judged_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, ["quality", str(run), "--speech", "--every=1"])
    assert done.exit_code == 1 and "omit --every" in done.stderr
    monkeypatch.setattr(speech_quality, "find_spec", lambda name: None)
    with pytest.raises(QualityError, match=r"pip install 'sojourn\[visqol\]'"):
        speech_quality.measure(run, lambda share: None)
    monkeypatch.setattr(speech_quality, "visqol", lambda: lambda spoken, heard: 4.0)
    lab = json.loads((run / "lab.json").read_text())
    for wrong, why in (
        ({"speech": "0" * 64}, "this espeak-ng speaks otherwise"),
        ({"speech": None}, "nobody spoke"),
    ):
        kept = {name: value for name, value in (lab["call"] | wrong).items() if value}
        (run / "lab.json").write_text(json.dumps(lab | {"call": kept}))
        with pytest.raises((QualityError, ServiceError), match=why):
            speech_quality.measure(sealed(run), lambda share: None)
    (run / "far/sound.flac").write_bytes(b"")
    with pytest.raises(LoadError, match=r"far/sound.flac does not match"):
        speech_quality.measure(run, lambda share: None)


@pytest.fixture(scope="module")
def spoken(loop: Samples) -> Samples:
    pytest.importorskip("visqol")
    return speech.wideband(loop[: speech.SEGMENT])


def test_visqol_puts_what_is_worse_lower(spoken: Samples) -> None:
    judge = speech_quality.visqol()
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 0.05, len(spoken)).astype(np.float32)

    def lossy(share: float) -> Samples:
        heard = spoken.copy()
        for first in range(0, len(heard), 320):
            if rng.random() < share:
                heard[first : first + 320] = 0
        return heard

    same, quiet, late = judge(spoken, spoken), judge(spoken, spoken / 4), judge(spoken, np.roll(spoken, 1600))
    losses, noisy = [judge(spoken, lossy(share)) for share in (0.05, 0.3)], judge(spoken, spoken + noise)
    print(same, quiet, late, losses, noisy)
    # Google gives 4.51 for a clean recording compared with itself.
    assert same > 4.2 and quiet == pytest.approx(same, abs=0.1) and late == pytest.approx(same, abs=0.2)
    assert same > losses[0] + 0.2 > losses[1] + 0.4 and noisy < same - 1
    assert judge(spoken, spoken) == same
