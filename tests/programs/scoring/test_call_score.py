# SPDX-License-Identifier: Apache-2.0
"""The known run as that of a call: both ends' pictures, how long frames took, and how packets were marked."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from sojourn.scoring.gates.marking import marked
from sojourn.scoring.score import score_run
from sojourn.scoring.tables import TABLES
from sojourn.scoring.validity import Limits
from tests.sound import ear_line, mouth_line, spoken, write_flac

DELAY_S = 0.1
FIRST, LOOP = 1700, 1800  # of the recorded strip


@pytest.fixture
def call(run: Path) -> Path:
    """The run with a far end that saw the same, and cameras that captured each frame 100 ms before it was shown."""
    start = json.loads((run / "timeline.json").read_text())["phases"][0]["start"]
    lab = json.loads((run / "lab.json").read_text())
    lab["clip"]["heights"] = []
    lab["call"] = {"ecn": "not-ect", "client_port": 50000}
    (run / "lab.json").write_text(json.dumps(lab))
    detail = [[(FIRST + n) % LOOP, n / 30 * 1e6, (start + n / 30 - DELAY_S) * 1e3] for n in range(600)]
    with (run / "player.jsonl").open("a") as file:
        file.write(json.dumps({"t": start, "event": "camera", "detail": detail}) + "\n")
    far = run / "far"
    far.mkdir()
    for name in ("screen.mp4", "screen.json", "player.jsonl"):
        shutil.copy(run / name, far)
    return run


def test_frames_of_both_ends_are_timed_from_the_others_camera(call: Path) -> None:
    scores = score_run(call)
    solo, prague = scores.phases
    # The recording shows each frame at the grab that is taken as half a grab too late.
    assert [solo.frame_p50_ms, solo.frame_p99_ms] == pytest.approx([DELAY_S * 1e3 - 1e3 / 60] * 2, abs=0.5)
    # Two stops of 2.75 s in all, which this picture never makes good.
    assert prague.frame_max_ms == pytest.approx(solo.frame_p50_ms + 2750, abs=40)  # type: ignore[operator]
    assert (solo.dominant_height, prague.stalls) == (720, 2)
    assert [phase.name for phase in scores.far] == ["solo", "prague"]
    assert scores.far[1].stalls == 2 and scores.far[0].frame_p50_ms == solo.frame_p50_ms
    assert [curve.name for curve in scores.frame_ccdf] == ["solo", "prague", "solo"]


def test_a_scream_calls_counters_are_scored_per_phase_and_end(call: Path) -> None:
    for name in ("media_sent_ect1", "ccfb_received"):
        assert name not in score_run(call).model_dump_json(), "no field of another call's document"
    lab = json.loads((call / "lab.json").read_text())
    lab["call"]["cc"] = "scream"
    (call / "lab.json").write_text(json.dumps(lab))
    start = json.loads((call / "timeline.json").read_text())["phases"][0]["start"]
    for folder, each in ((call, 100), (call / "far", 7)):
        with (folder / "player.jsonl").open("a") as file:
            for second in range(-2, 21):
                counts = {"packetsSentWithEct1": 1000 + each * second, "ccfbMessagesReceived": 60 + 30 * second}
                detail = {"marks": {**counts, "packetsReceivedWithCe": max(0, second - 10), "unknown": 1}}
                file.write(json.dumps({"t": start + second, "event": "call", "detail": detail}) + "\n")
    scores = score_run(call)
    assert [phase.media_sent_ect1 for phase in scores.phases] == [1000, 1000]
    assert [phase.media_received_ce for phase in scores.phases] == [0, 10]
    assert [phase.media_sent_ect1 for phase in scores.far] == [70, 70]
    assert scores.phases[0].ccfb_received == 300 and scores.phases[0].media_bleached is None
    gates = {gate.code: gate for gate in scores.validity.gates}
    assert gates["call-feedback"].ok and not gates["call-marked"].ok
    document = json.loads(scores.model_dump_json())["phases"][0]
    assert document["media_sent_ect1"] == 1000 and "media_bleached" not in document


def test_a_call_without_the_other_end_is_void(call: Path) -> None:
    shutil.rmtree(call / "far")
    failed = {(gate.code, gate.name) for gate in score_run(call).validity.gates if not gate.ok}
    assert {
        ("recording-complete", "far end's recording complete"),
        ("player-samples-complete", "far end's player samples complete"),
    } <= failed


@pytest.fixture
def live_call(call: Path) -> Path:
    """The same as a call of somebody else's service, whose address and transport are known from the page alone."""
    lab = json.loads((call / "lab.json").read_text())
    path = {"port": 50000, "remotePort": lab["ports"]["origin"], "protocol": "udp", "address": None}
    lab |= {"live": True, "call": {"client_port": 50000, "client": path, "far": path}}
    (call / "lab.json").write_text(json.dumps(lab))
    begun = json.loads((call / "timeline.json").read_text())["phases"][0]["start"]
    tell(call, begun + 1, path)
    return call


def tell(run: Path, t: float, path: dict[str, object]) -> None:
    with (run / "player.jsonl").open("a") as file:
        file.write(json.dumps({"t": t, "event": "call", "detail": {"path": path}}) + "\n")


def test_a_live_call_is_scored_by_its_strip_and_its_transport(live_call: Path, call: Path) -> None:
    scores = score_run(live_call)
    gates = {gate.code: gate for gate in scores.validity.gates}
    assert scores.picture == "strip" and gates["call-path"].ok
    assert "call-marked" not in gates
    assert "frames/s" not in gates["solo-baseline"].limit
    assert scores.phases[1].stalls == 2 and scores.phases[0].frame_p50_ms is not None
    assert scores.phases[0].victim_mbps and scores.phases[0].victim_mbps > 0


def test_a_live_call_that_changes_its_transport_is_void(live_call: Path) -> None:
    lab = json.loads((live_call / "lab.json").read_text())
    begun = json.loads((live_call / "timeline.json").read_text())["phases"][0]["start"]
    tell(live_call, begun + 2, lab["call"]["client"] | {"remotePort": 3478})
    gate = next(gate for gate in score_run(live_call).validity.gates if gate.code == "call-path")
    assert not gate.ok and "1 of 2 s by another" in gate.reason


def test_a_live_call_whose_strip_is_not_shown_is_scored_by_its_motion(live_call: Path) -> None:
    picture = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=60:duration=21", "-g", "60"]
    subprocess.run(["ffmpeg", "-v", "error", "-y", *picture, str(live_call / "screen.mp4")], check=True)
    shutil.copy(live_call / "screen.mp4", live_call / "far")
    scores = score_run(live_call)
    assert scores.picture == "blind" and scores.phases[0].dominant_height
    assert scores.phases[1].freezes == 0 and scores.phases[1].frame_p50_ms is None
    assert not any("strip" in gate.code for gate in scores.validity.gates)


@pytest.mark.parametrize(
    ("asked", "sent", "ok"),
    [("ect1", [1] * 995 + [0] * 5, True), ("ect1", [1] * 90 + [0] * 10, False), ("not-ect", [0], True),
     ("not-ect", [1], False), ("not-ect", [], False)],
)  # fmt: skip
def test_marking_is_proven_by_the_packets_sent(asked: str, sent: list[int], ok: bool) -> None:
    assert marked("call-marked", "call", "client", sent, asked, Limits()).ok is ok


@pytest.fixture
def heard(call: Path) -> Path:
    """The same call with sound, 60 ms from mouth to ear; in the second phase, the client misses 2 of 10 s."""
    lab = json.loads((call / "lab.json").read_text())
    lab["call"]["sound"] = True
    (call / "lab.json").write_text(json.dumps(lab))
    start = json.loads((call / "timeline.json").read_text())["phases"][0]["start"]
    for folder in (call, call / "far"):
        sound = spoken(24)
        if folder is call:
            sound[16 * 48_000 : 18 * 48_000] = 0
        write_flac(sound, folder / "sound.flac")
        with (folder / "player.jsonl").open("a") as file:
            for line in (mouth_line(start - 1), ear_line(start - 1 + 0.06)):
                file.write(json.dumps(line) + "\n")
            for second in range(-2, 24):
                concealed = 4800 * max(0, second - 10)
                counters = {"totalSamplesReceived": 48_000 * (second + 2), "concealedSamples": concealed}
                line = {"t": start + second, "event": "call", "detail": {"sound": counters}}
                file.write(json.dumps(line) + "\n")
    return call


def test_the_sound_is_scored_per_phase_and_end_and_held_against_the_picture(heard: Path) -> None:
    scores = score_run(heard)
    solo, prague = scores.phases
    assert (solo.ear_p50_ms, solo.ear_in_time, solo.ear_loss) == (pytest.approx(60, abs=0.1), 1.0, 0.0)
    assert [prague.ear_loss, prague.ear_gap_share] == pytest.approx([0.2, 0.2], abs=0.01)
    assert prague.ear_in_time == pytest.approx(0.8, abs=0.01) and prague.ear_interactive == prague.ear_in_time
    assert (solo.neteq_concealed_share, prague.neteq_concealed_share) == pytest.approx((0.0, 0.1))
    # Pictures take 40 ms longer than the sound, less half a grab: within what is not noticed.
    assert solo.lip_sync_p50_ms == pytest.approx(40 - 1e3 / 60, abs=1) and solo.lip_sync_in_limits == 1
    assert solo.r_factor == pytest.approx(93.2, abs=0.05) and prague.r_factor < 60  # type: ignore[operator]
    assert prague.e_model and prague.e_model["ppl"] == pytest.approx(20, abs=1)
    assert [phase.ear_loss for phase in scores.far] == [0.0, 0.0]
    harm = {it.metric: it.harm for it in scores.harm if it.phase == "prague"}
    assert not scores.validity.valid or harm["ear_in_time"] == pytest.approx(0.2, abs=0.01)
    assert scores.series.ear_ms and scores.series.ear_ms[2] == pytest.approx(60, abs=0.1)
    assert scores.series.ear_gap_s and sum(scores.series.ear_gap_s) == pytest.approx(2, abs=0.02)
    assert scores.sound_begins == pytest.approx(-1 + 0.06)
    table = TABLES["sound"].of(heard)
    assert set(table["listener"]) == {"client", "far"} and table["delay_ms"].null_count() == pytest.approx(100, abs=2)


def test_the_tables_of_a_call_are_read_from_the_files_that_they_name(heard: Path) -> None:
    """Whoever opens a table has them checked against the manifest, and no others, at neither end."""
    wholes = {name: TABLES[name].of(heard) for name in ("frames", "sound")}
    for name, whole in wholes.items():
        named = {Path(file) for file in TABLES[name].files}
        assert not whole.is_empty()
        shutil.copytree(heard, alone := heard.with_name(f"only-{name}"))
        for file in [it for it in alone.rglob("*") if it.is_file() and it.relative_to(alone) not in named]:
            file.unlink()
        assert TABLES[name].of(alone).equals(whole)


def test_a_call_that_lost_its_sound_is_invalid_and_one_that_had_none_has_no_field_of_it(heard: Path) -> None:
    (heard / "far/sound.flac").unlink()
    failed = {(gate.code, gate.name) for gate in score_run(heard).validity.gates if not gate.ok}
    assert ("sound-complete", "far end's sound complete") in failed
    lab = json.loads((heard / "lab.json").read_text())
    del lab["call"]["sound"]
    (heard / "lab.json").write_text(json.dumps(lab))
    assert "ear_" not in score_run(heard).model_dump_json()


def test_speech_has_no_figures_of_tones_and_fails_no_gate_of_them(heard: Path) -> None:
    """NetEq's counters stay, and the sound must be complete."""
    codes = {gate.code: gate.ok for gate in score_run(heard).validity.gates}
    lab = json.loads((heard / "lab.json").read_text())
    lab["call"]["speech"] = "0" * 64
    (heard / "lab.json").write_text(json.dumps(lab))
    scores = score_run(heard)
    assert {gate.code: gate.ok for gate in scores.validity.gates} == codes and codes["sound-complete"]
    solo, prague = scores.phases
    assert (solo.neteq_concealed_share, prague.neteq_concealed_share) == pytest.approx((0.0, 0.1))
    assert scores.sound_begins == pytest.approx(-1 + 0.06) and TABLES["sound"].of(heard).is_empty()
    text = scores.model_dump_json(exclude={"validity"})
    assert not [it for it in ("ear_", "lip_sync", "r_factor", "mos_cqe", "e_model") if f'"{it}' in text]
    (heard / "far/sound.flac").unlink()
    assert ("sound-complete", False) in {(gate.code, gate.ok) for gate in score_run(heard).validity.gates}


def test_a_call_that_is_late_alone_or_hears_nothing_has_no_baseline(heard: Path) -> None:
    def reason() -> str:
        return next(gate for gate in score_run(heard).validity.gates if gate.code == "solo-baseline").reason

    assert "in time" not in reason()
    write_flac(spoken(23.0) * 0, heard / "sound.flac")
    lines = list(map(json.loads, (file := heard / "far/player.jsonl").read_text().splitlines()))
    for line in lines:
        if line.get("event") == "camera":
            line["detail"] = [[n, at, ms - 400] for n, at, ms in line["detail"]]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "0 % of frames in time, 0 % of sound in time" in reason()
