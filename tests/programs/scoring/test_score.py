# SPDX-License-Identifier: Apache-2.0
"""A whole run with known content gives the known scores; a spoiled one is void and says why."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest
import zstandard

from sojourn.scoring.evidence import Setting
from sojourn.scoring.gates.baseline import healthy
from sojourn.scoring.metrics import Observations
from sojourn.scoring.picture import rendition
from sojourn.scoring.picture.shown import Picture
from sojourn.scoring.schema import records
from sojourn.scoring.schema.records import RecordError
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.score import score_run
from sojourn.scoring.validity import Gate, Limits
from tests.programs.scoring.conftest import FREEZES, record

BASELINE = ("first-solo-phase", "solo-baseline")


def edit_lab(run: Path, **changes: object) -> None:
    """Change keys of lab.json; None takes one away."""
    lab = json.loads((run / "lab.json").read_text()) | changes
    (run / "lab.json").write_text(json.dumps({key: value for key, value in lab.items() if value is not None}))


def failed(scores: Scores) -> list[str]:
    """The codes of the gates that a run fails, sorted."""
    return sorted(scores.validity.failed)


def gate_of(scores: Scores, code: str) -> Gate:
    """The only gate with a code."""
    (found,) = (gate for gate in scores.validity.gates if gate.code == code)
    return found


def test_a_known_run(run: Path) -> None:
    scores = score_run(run)
    assert failed(scores) == [] and scores.validity.valid
    solo, prague = scores.phases
    assert (solo.victim_mbps, prague.victim_mbps) == (pytest.approx(4, abs=0.01), pytest.approx(2, abs=0.01))
    assert (solo.contender_mbps, prague.contender_mbps) == (0, pytest.approx(7, abs=0.01))
    assert (solo.fps, solo.stalls, solo.drops) == (pytest.approx(30, abs=0.2), 0, 0)
    assert (prague.stalls, prague.freezes, prague.drops) == (2, 2, 1)
    assert prague.stall_s == pytest.approx(2.75 + 2 / 30, abs=0.05)
    assert prague.speed == pytest.approx(1 - 0.275, abs=0.01)
    assert (prague.dominant_height, prague.lowest_height) == (360, 360)
    assert prague.mean_height == pytest.approx(0.4 * 720 + 0.6 * 360, abs=3)
    assert prague.rtt_p50_ms == pytest.approx(20.2 + 14.7, abs=0.31)
    assert [(c.before, c.after, c.drop) for c in scores.renditions] == [(720, 360, True)]
    assert scores.renditions[0].t == pytest.approx(14, abs=0.034)
    assert [f.t for f in scores.freezes if f.kind == "stall"] == pytest.approx([12, 15], abs=0.05)
    flow = scores.flows[0]
    assert flow.accecn_syn is True and flow.ect1 == flow.data_packets and flow.ce > 0 and flow.resent == 0
    assert flow.window_goodput_mbps == pytest.approx(7, abs=0.02)
    harms = {h.metric: h.harm for h in scores.harm}
    assert harms["victim_mbps"] == pytest.approx(0.5, abs=0.01)
    assert harms["mean_height"] == pytest.approx((720 - 504) / 720, abs=0.01)
    # 2.8 of 10 s stand still, 0.75 s of them at 720 lines: neither nothing nor all.
    assert harms["played_share"] == pytest.approx(0.28, abs=0.01)
    assert harms["played_height"] == pytest.approx((720 - 504 + 0.075 * 720 + 0.2 * 360) / 720, abs=0.01)
    assert (scores.primary, scores.own_kind) == ("played_height", None)
    assert len(scores.series.t) == 20 and sum(scores.series.stalled_s or []) == pytest.approx(prague.stall_s, abs=0.01)
    assert len(scores.goodput_100ms.t) == 200
    assert [c.name for c in scores.ccdf] == ["solo", "prague", "solo", "unshaped"]


@pytest.mark.parametrize("changing", [False, True])
def test_a_video_that_is_alone_in_changing_rates_is_compared_with_nothing(run: Path, changing: bool) -> None:
    timeline = json.loads((run / "timeline.json").read_text())
    _, second = timeline["phases"]
    second |= {"name": "solo-2", "contender": None}
    step = {"t": second["start"], "direction": "down", "rate_bps": 3_200_000}
    (run / "timeline.json").write_text(json.dumps(timeline | {"rates": [step] * changing}))
    judged = {gate.code for gate in score_run(run).validity.gates} & set(BASELINE)
    assert judged == (set() if changing else set(BASELINE))
    assert ("solo-baseline" in failed(score_run(run))) is not changing


def test_the_same_files_give_the_same_bytes_and_a_schema_that_reads_back(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the film is read each time
    text = score_run(run).model_dump_json(indent=1)
    assert score_run(run).model_dump_json(indent=1) == text
    assert Scores.model_validate_json(text).model_dump_json(indent=1) == text


@pytest.mark.parametrize(
    ("gone", "gates"),
    [
        ("screen.mp4", ["recorder-frames-missing", "recording-complete", "strip-unread", *BASELINE]),
        ("client.pcapng.zst", ["capture-complete", "contender-proven", *BASELINE]),
        ("irtt.json.gz", ["probe-complete"]),
        ("irtt-unshaped.json.gz", ["lab-jitter", "unshaped-probe-complete", "unshaped-probe-lost"]),
        ("host.jsonl", ["host-stalls", "host-samples-complete"]),
        ("player.jsonl", ["player-samples-complete"]),
        ("bulk.json", ["contender-throughout"]),
        ("qdisc.jsonl", [*["qdisc-read-back"] * 2, *["qdisc-samples-complete"] * 2]),
    ],
)
def test_a_missing_record_voids_the_run(run: Path, gone: str, gates: list[str]) -> None:
    (run / gone).unlink()
    scores = score_run(run)
    assert failed(scores) == sorted(gates)
    assert not scores.validity.valid and scores.harm == []
    assert all(gate.reason for gate in scores.validity.gates if not gate.ok)
    incomplete = [gate.name for gate in scores.validity.gates if gate.code == "capture-complete" and not gate.ok]
    assert incomplete == (["client capture complete"] if gone.startswith("client") else [])


def test_an_impostor_voids_the_run(run: Path) -> None:
    lines = (run / "ss.jsonl").read_text().replace('"prague"', '"cubic"')
    (run / "ss.jsonl").write_text(lines)
    assert failed(score_run(run)) == ["contender-proven"]


def test_a_contender_that_its_own_host_holds_back_voids_the_run(run: Path) -> None:
    edit_lab(run, rate_down_bps=20e6)
    assert failed(score_run(run)) == [], "a bottleneck need not be full"
    sockets = [json.loads(line) for line in (run / "ss.jsonl").read_text().splitlines()]
    for sample in sockets:
        sample["sndbuf_limited_ms"] = sample["busy_ms"] // 10
    (run / "ss.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in sockets))
    assert failed(score_run(run)) == ["contender-limited"]


def test_a_live_picture_has_no_strip_so_the_player_tells_the_height(run: Path) -> None:
    edit_lab(run, clip=None)
    (run / "screen.mp4").unlink()
    t0 = json.loads((run / "timeline.json").read_text())["phases"][0]["start"]
    samples = [{"t": t0 + i / 4, "height": 720 if i < 60 else 480} for i in range(80)]
    (run / "player.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    scores = score_run(run)
    assert scores.picture == "player" and scores.phases[1].fps is None
    assert scores.phases[1].lowest_height == 480
    assert failed(scores) == ["recorder-frames-missing", "recording-complete"]


@pytest.mark.parametrize(
    ("of_lab", "heights", "named"),
    [
        ({}, [720] * 34 + [1080] * 4 + [720] * 2, set()),  # it tries the next rung and comes back
        ({"own_folder": "0"}, [720] * 34 + [1080] * 4 + [720] * 2, set(BASELINE)),
        ({}, [720] * 26 + [1080] * 12 + [720] * 2, set(BASELINE)),
        ({}, [720] * 30 + [1080, 720] * 5, set(BASELINE)),
    ],
)
def test_a_real_site_may_try_another_rendition_alone(
    run: Path, of_lab: dict[str, str], heights: list[int], named: set[str]
) -> None:
    edit_lab(run, clip=None, **of_lab)
    (run / "screen.mp4").unlink()
    t0 = json.loads((run / "timeline.json").read_text())["phases"][0]["start"]
    samples = [{"t": t0 + i / 4, "height": height} for i, height in enumerate([*heights, *[720] * 40])]
    (run / "player.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    assert set(failed(score_run(run))) & set(BASELINE) == named


def test_a_live_picture_is_scored_without_a_strip(run: Path) -> None:
    edit_lab(run, clip=None)
    record(run / "screen.mp4", 20, marked=False)
    t0 = json.loads((run / "timeline.json").read_text())["phases"][0]["start"]
    samples = [{"t": t0 + i / 4, "height": 240} for i in range(80)]
    (run / "player.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    scores = score_run(run)
    assert failed(scores) == [] and scores.picture == "blind" and scores.blind
    assert [(f.t, f.length) for f in scores.freezes if f.kind == "stall"] == [
        (pytest.approx(at, abs=0.07), pytest.approx(length + 1 / 30, abs=0.07)) for at, length in FREEZES
    ]
    prague = scores.phases[1]
    assert (prague.stalls, prague.freezes, prague.fps, prague.dominant_height) == (2, 2, None, 240)
    assert scores.blind.place == (0, 0, 426, 240) and scores.blind.undecided == []
    assert len(scores.blind.heights) == 20 and score_run(run).model_dump_json() == scores.model_dump_json()


def test_a_live_recording_of_another_screen_is_void(run: Path) -> None:
    edit_lab(run, clip=None)
    blank = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "color=gray:s=426x240:r=30:d=20"]
    subprocess.run([*blank, "-pix_fmt", "yuv420p", str(run / "screen.mp4")], check=True)
    scores = score_run(run)
    assert scores.phases[0].stalls is None and scores.blind is None
    assert "no video moves on it" in gate_of(scores, "file-whole").reason


def test_an_unreadable_strip_of_a_stand_in_is_void_whatever_the_player_says(run: Path) -> None:
    blank = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "color=gray:s=426x240:r=30:d=20"]
    subprocess.run([*blank, "-pix_fmt", "yuv420p", str(run / "screen.mp4")], check=True)
    scores = score_run(run)
    assert scores.picture == "none" and scores.phases[0].mean_height is None and scores.harm == []
    assert failed(scores) == sorted(["strip-unread", *BASELINE])
    assert gate_of(scores, "strip-unread").measured == "100 % of frames"


def test_a_live_victim_is_whatever_comes_from_the_https_port(run: Path) -> None:
    sites = json.loads((run / "lab.json").read_text())["addresses"] | {"server": "10.42.2.99"}
    edit_lab(run, addresses=sites)
    assert score_run(run).phases[0].victim_mbps == 0
    edit_lab(run, clip=None)
    assert score_run(run).phases[0].victim_mbps == pytest.approx(4, abs=0.01)
    # The contender's own flows never count, wherever they go.
    edit_lab(run, addresses=sites | {"sender": "10.42.2.10"})
    assert score_run(run).phases[0].victim_mbps == 0


def test_a_page_that_hangs_voids_the_run(run: Path) -> None:
    lines = (run / "player.jsonl").read_text().splitlines(keepends=True)
    (run / "player.jsonl").write_text("".join(lines[:15]))
    assert failed(score_run(run)) == ["player-samples-complete"]
    (run / "player.jsonl").write_text("".join(lines[:8] + lines[14:]))
    assert failed(score_run(run)) == ["player-samples-complete"]


def test_a_probe_that_is_lost_is_infinitely_late(run: Path) -> None:
    """2 % lost beside the contender: there is no 99th percentile, its harm is the worst, and the JSON stays strict."""
    file = run / "irtt.json.gz"
    trips = json.loads(gzip.decompress(file.read_bytes()))["round_trips"]
    for trip in trips[1200:1220]:
        trip |= {"lost": "true", "delay": {}}
    file.write_bytes(gzip.compress(json.dumps({"round_trips": trips}).encode()))
    scores = score_run(run)
    solo, prague = scores.phases
    assert scores.validity.valid and (prague.probe_loss, prague.rtt_p99_ms) == (0.02, inf)
    assert solo.rtt_p99_ms and prague.rtt_p50_ms and prague.rtt_p50_ms < prague.rtt_max_ms < 51  # type: ignore[operator]
    harm = {h.metric: h.harm for h in scores.harm}
    assert "rtt_p99_ms" not in harm and 0 < harm["rtt_answered_p99_ms"] < 1  # loss has a harm of its own
    assert harm["answered_share"] == harm["rtt_in_time"] == pytest.approx(0.02) and solo.rtt_in_time == 1
    assert prague.rtt_answered_p99_ms and prague.rtt_p50_ms < prague.rtt_answered_p99_ms <= prague.rtt_max_ms  # type: ignore[operator]
    assert solo.rtt_answered_p99_ms == solo.rtt_p99_ms
    assert [curve.percent[-1] for curve in scores.ccdf if curve.name == "prague"] == [2]
    text = scores.model_dump_json()
    told = json.loads(text, parse_constant=pytest.fail)
    assert told["phases"][1]["rtt_p99_ms"] == "Infinity" and Scores.model_validate_json(text) == scores


def test_a_player_that_fetched_all_it_wanted_is_not_harmed_in_goodput(run: Path) -> None:
    """The buffer is read from the player's own samples; where it drains, the path gave less than was played."""
    edit_lab(run, rate_down_bps=20e6, rate_up_bps=20e6)  # 4 Mbit/s alone leave room
    timeline = json.loads((run / "timeline.json").read_text())
    file, samples = run / "player.jsonl", records.read_lines(run / "player.jsonl", records.PLAYER)

    def goodput(seconds: float, drain: float) -> tuple[float | None, bool, float]:
        timeline["phases"][1]["end"] = timeline["phases"][1]["start"] + seconds
        (run / "timeline.json").write_text(json.dumps(timeline))
        for n, sample in enumerate(samples):
            sample["buffer"] = 12 - 2 * (n % 2) - max(0, n - 10) * drain
        file.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
        scores = score_run(run)
        (harm,) = [it for it in scores.harm if it.metric == "victim_mbps"]
        return scores.phases[1].buffer_fall_s, harm.demand_met, harm.harm

    assert goodput(10, 0)[1:] == (False, pytest.approx(0.5, abs=0.01)), "the picture falls and stalls"
    assert goodput(1.9, 0) == (2, True, 0), "2 of 4 Mbit/s, and all is as alone"
    assert goodput(1.9, 4)[:2] == (6, False), "the picture is kept at the expense of the buffer"


def test_lost_unshaped_probes_void_the_run(run: Path) -> None:
    file = run / "irtt-unshaped.json.gz"
    trips = json.loads(gzip.decompress(file.read_bytes()))["round_trips"]
    for trip in trips[500:530]:
        trip["lost"] = "true"
    file.write_bytes(gzip.compress(json.dumps({"round_trips": trips}).encode()))
    assert failed(score_run(run)) == ["unshaped-probe-lost"]


def test_a_disturbed_baseline_voids_the_run(run: Path) -> None:
    timeline = json.loads((run / "timeline.json").read_text())
    solo, prague = timeline["phases"]
    solo["end"] = prague["start"] = solo["start"] + 12.5
    (run / "timeline.json").write_text(json.dumps(timeline))
    bulk = json.loads((run / "bulk.json").read_text())
    bulk["flows"][0]["start"] = prague["start"]
    (run / "bulk.json").write_text(json.dumps(bulk))
    scores = score_run(run)
    assert failed(scores) == [*BASELINE] and scores.harm == []
    assert "the baseline is disturbed: 1 stalls" in gate_of(scores, "solo-baseline").reason


def test_a_phase_is_measured_while_its_contender_is_there(run: Path) -> None:
    timeline = json.loads((run / "timeline.json").read_text())
    solo, prague = timeline["phases"]
    # The flow begins 3 s into its phase: the solo phase ends earlier than in the files.
    solo["end"] = prague["start"] = solo["start"] + 7
    (run / "timeline.json").write_text(json.dumps(timeline))
    scores = score_run(run)
    assert failed(scores) == []
    phase = scores.phases[1]
    assert (phase.start, phase.end, phase.seconds) == (7, 20, 10)
    assert phase.contender_mbps == pytest.approx(7, abs=0.01)


@pytest.mark.parametrize(("found", "gates"), [(True, []), ("limit differs", ["router-read-back-at-end"])])
def test_the_router_must_be_the_same_at_the_end(run: Path, found: bool | str, gates: list[str]) -> None:
    edit_lab(run, verified_at_end=found)
    assert failed(score_run(run)) == gates


@pytest.mark.parametrize(
    ("lab", "remedy"), [("virtual", "on a quiet host or with --lab=sim ("), ("apu", "on a quiet host (")]
)
def test_the_first_reason_of_a_run_on_a_busy_host_is_the_host(run: Path, lab: str, remedy: str) -> None:
    edit_lab(run, name=lab, processor_share=0.05)
    assert failed(score_run(run)) == [], "the run is what counts"
    samples = [json.loads(line) | {"stall_ms": 300.0} for line in (run / "host.jsonl").read_text().splitlines()]
    (run / "host.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    (reason,) = score_run(run).validity.reasons
    assert reason.startswith("the host was busy: other programs left this run 5% of") and remedy in reason


@pytest.fixture
def simulated(run: Path) -> Path:
    """The same run as if made in simulated time, where nobody watches the host; its jitter is let pass."""
    edit_lab(run, real_time=False)
    (run / "host.jsonl").unlink()
    (run / "options.json").write_text(json.dumps({"jitter_gate_ms": 1.0}))
    return run


def test_in_simulated_time_no_host_is_judged_but_every_frame_is(simulated: Path) -> None:
    scores = score_run(simulated)
    codes = {gate.code for gate in scores.validity.gates}
    assert not [code for code in codes if code.startswith(("host", "wall-clock"))] and scores.host is None
    assert gate_of(scores, "time-forwards").measured == "in 5 records"
    assert gate_of(scores, "every-frame-recorded").measured == "0 missing of 30 a second"
    assert gate_of(scores, "recorder-frames-missing").limit == "at most 0 %"
    assert failed(scores) == [] and scores.harm


def test_in_simulated_time_the_lab_adds_next_to_nothing_unless_more_was_allowed(simulated: Path) -> None:
    (simulated / "options.json").write_text(json.dumps({"jitter_gate_ms": None}))
    scores = score_run(simulated)
    assert failed(scores) == ["lab-jitter"] and scores.harm == []
    (gate,) = (gate for gate in scores.validity.gates if not gate.ok)
    assert (gate.measured, gate.limit) == ("0.685 ms", "at most 0.05 ms above or below the path's")


def test_one_missing_frame_voids_a_simulated_run(simulated: Path) -> None:
    whole, cut = simulated / "screen.mp4", simulated / "cut.mp4"
    leave_out = ["-vf", "select=not(eq(n\\,100))", "-fps_mode", "passthrough", "-preset", "superfast"]
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(whole), *leave_out, str(cut)], check=True)
    cut.replace(whole)
    scores = score_run(simulated)
    assert failed(scores) == ["every-frame-recorded"] and scores.harm == []


def test_one_frame_that_the_recorder_missed_voids_a_simulated_run(simulated: Path) -> None:
    screen = json.loads((simulated / "screen.json").read_text())
    (simulated / "screen.json").write_text(json.dumps(screen | {"missing": 1}))
    assert failed(score_run(simulated)) == ["recorder-frames-missing"]


def test_time_that_goes_back_voids_a_simulated_run(simulated: Path) -> None:
    lines = (simulated / "qdisc.jsonl").read_text().splitlines()
    lines[6:8], lines[8:10] = lines[8:10], lines[6:8]
    (simulated / "qdisc.jsonl").write_text("\n".join(lines) + "\n")
    assert failed(score_run(simulated)) == ["time-forwards"]


def test_what_the_lab_adds_is_told(run: Path) -> None:
    scores = score_run(run)
    assert scores.jitter_ms and scores.host
    added = scores.jitter_ms
    assert (added.p50, added.p99, added.max) == (pytest.approx(0.3875, abs=0.01), 0.685, 0.695)
    host = scores.host
    assert (host.cpu_cores_mean, host.cpu_cores_max, host.cores, host.stall_worst_ms) == (1.025, 1.5, 2, 3)


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def half_capture(run: Path) -> None:
    half(run / "client.pcapng.zst")


def empty_capture(run: Path) -> None:
    (run / "client.pcapng.zst").write_bytes(b"")


def cut_irtt(run: Path) -> None:
    text = gzip.decompress((run / "irtt.json.gz").read_bytes())
    (run / "irtt.json.gz").write_bytes(gzip.compress(text[: len(text) // 2]))


def one_way(run: Path) -> None:
    """Leave what goes down in the capture: who made it looked at one direction."""
    both = zstandard.ZstdDecompressor().decompressobj().decompress((run / "client.pcapng.zst").read_bytes())
    kept, at = [], 0
    while at < len(both):
        kind, size = struct.unpack_from("<II", both, at)
        block, at = both[at : at + size], at + size
        # Pure acknowledgements are what goes up: 66 bytes on the wire.
        if kind != 6 or struct.unpack_from("<I", block, 24)[0] > 66:
            kept.append(block)
    (run / "client.pcapng.zst").write_bytes(zstandard.compress(b"".join(kept)))


@pytest.mark.parametrize(
    ("damage", "gate", "says", "gone"),
    [
        (lambda run: half(run / "screen.mp4"), "screen.mp4 whole", "moov atom", ["fps", "mean_height", "stalls"]),
        (lambda run: (run / "screen.mp4").write_bytes(b"no video"), "screen.mp4 whole", "screen.mp4", ["fps"]),
        (lambda run: (run / "screen.json").write_text("{"), "screen.json whole", "screen.json", ["fps", "freezes"]),
        (empty_capture, "client.pcapng.zst whole", "not a pcapng", ["victim_mbps"]),
        (half_capture, "client capture complete", "of it", ["victim_mbps", "contender_mbps"]),
        (one_way, "client capture both ways", "0 up", ["victim_mbps", "contender_mbps"]),
        (cut_irtt, "irtt.json.gz whole", "not a whole irtt result", ["rtt_p50_ms", "probe_loss"]),
        (lambda run: half(run / "irtt.json.gz"), "irtt.json.gz whole", "not a whole irtt result", ["rtt_p99_ms"]),
        (lambda run: (run / "player.jsonl").write_bytes(b"\xff\xfe\n{}\n"), "player.jsonl whole", "no JSON", []),
        (lambda run: (run / "bulk.json").write_text("[]"), "bulk.json whole", "valid dictionary", []),
    ],
    ids=lambda value: value if isinstance(value, str) and "whole" not in value else "",
)  # fmt: skip
def test_a_damaged_record_voids_the_run_and_is_no_number(
    run: Path, damage: Callable[[Path], object], gate: str, says: str, gone: list[str]
) -> None:
    damage(run)
    scores = score_run(run)
    failing = {found.name: found.reason for found in scores.validity.gates if not found.ok}
    assert ("file-whole" in scores.validity.failed) == gate.endswith("whole")
    assert not scores.validity.valid and scores.harm == []
    assert says in failing[gate] and str(run) not in failing[gate]
    assert [getattr(phase, name) for phase in scores.phases for name in gone] == [None] * 2 * len(gone)
    assert score_run(run).model_dump_json() == scores.model_dump_json()


def test_without_its_timeline_or_lab_a_run_cannot_be_scored(run: Path) -> None:
    half(run / "lab.json")
    with pytest.raises(RecordError, match=r"lab\.json"):
        score_run(run)
    (run / "timeline.json").unlink()
    with pytest.raises(RecordError, match=r"timeline\.json"):
        score_run(run)


def test_a_strip_that_names_no_rung_of_the_ladder_is_unread(run: Path) -> None:
    clip = json.loads((run / "lab.json").read_text())["clip"]
    edit_lab(run, clip=clip | {"heights": clip["heights"][:3]})  # the clip shows 360p and 720p, 1 and 3
    scores = score_run(run)
    assert "strip-unread" in failed(scores) and scores.harm == []


def test_a_baseline_that_begins_with_the_recovery_is_not_disturbed_by_it() -> None:
    heights = [720] * 30 + [360] * 45 + [720] * 55
    segments = rendition.from_player([{"t": t, "height": height} for t, height in enumerate(heights)])
    window = rendition.since_recovery(segments, (70, 129), 720)
    assert window == (75, 129)
    evidence = Observations(Picture(segments=segments), 30)
    assert "changes" not in healthy("solo-baseline", [window], evidence, False, Limits()).reason
    assert "1 changes" in healthy("solo-baseline", [(70, 129)], evidence, False, Limits()).reason


def as_a_box(run: Path, apart_s: float = 0.0, drift_s: float = 0.0) -> None:
    """Make a run one through a box, whose captures' clocks are `apart_s` apart, and drift."""
    clocks = [
        {"client": {"seconds": 0.0, "error": 0.0}, "server": {"seconds": there, "error": 0.0002}}
        for there in (apart_s, apart_s + drift_s)
    ]
    lab = json.loads((run / "lab.json").read_text()) | dict.fromkeys(("rtt_ms", "rate_down_bps", "rate_up_bps"))
    lab |= {"qdisc_down": None, "qdisc_up": None, "box": "vendor CPE", "tap_clocks": clocks}
    (run / "lab.json").write_text(json.dumps(lab | {"capture_offset_s": {"server": apart_s}}))
    for gone in ("qdisc.jsonl", "irtt-unshaped.json.gz"):
        (run / gone).unlink()


def test_a_box_is_scored_without_a_word_from_it(run: Path) -> None:
    known = score_run(run)
    as_a_box(run, apart_s=0.012)
    scores = score_run(run)
    assert failed(scores) == [] and scores.jitter_ms is None
    codes = {gate.code for gate in scores.validity.gates}
    assert {gate.code for gate in known.validity.gates} - codes == {
        "qdisc-read-back", "qdisc-samples-complete", "unshaped-probe-complete", "unshaped-probe-lost", "lab-jitter",
    }  # fmt: skip
    assert "capture-clocks" in codes
    assert scores.lab["box"] == "vendor CPE" and scores.lab["rtt_ms"] is None
    # Both captures were made at one moment: what lies between them is their clocks, and no queue.
    assert scores.lab["least_down_ms"] == 12
    assert scores.lab["least_up_ms"] is None, "its acknowledgements are all alike"
    assert {(row.of, row.queue, row.max_ms) for row in scores.sojourn} == {
        ("victim", "C", 0), ("contender", "C", 0), ("contender", "L", 0),
    }  # fmt: skip
    assert 0 < sum(row.marked or 0 for row in scores.sojourn) <= sum(flow.ce for flow in scores.flows)
    assert scores.lab["most_down_bps"] == pytest.approx(9e6 * 1500 / 1448, rel=0.02)
    # The rate of a box is unknown, and with it the fair share.
    assert scores.harm == [harm for harm in known.harm if harm.metric != "fair_share_met"]


def test_of_a_router_everything_is_told(run: Path) -> None:
    lab = json.loads((run / "lab.json").read_text()) | {"qdisc_up": None}
    (run / "lab.json").write_text(json.dumps(lab))
    with pytest.raises(RecordError, match="qdisc_up is null, and it names no box"):
        score_run(run)


def test_clocks_that_drift_around_a_box_void_the_run(run: Path) -> None:
    as_a_box(run, drift_s=0.006)
    assert failed(score_run(run)) == ["capture-clocks"]


@pytest.mark.parametrize(("drift_s", "gates"), [(0.004, []), (0.006, ["capture-clocks"])])
def test_clocks_of_captures_on_two_machines_around_a_router_may_not_drift(
    run: Path, drift_s: float, gates: list[str]
) -> None:
    assert "capture-clocks" not in {gate.code for gate in score_run(run).validity.gates}
    here = {"seconds": 0.0, "error": 0.0}
    edit_lab(run, tap_clocks=[{"client": here, "server": here | {"seconds": at}} for at in (300.0, 300 + drift_s)])
    assert failed(score_run(run)) == gates


@pytest.mark.parametrize(("lost", "gates"), [({}, []), ({"enp2s0 rx_missed_errors": 3}, ["router-drops"])])
def test_a_packet_lost_outside_the_queue_voids_the_run(run: Path, lost: dict[str, int], gates: list[str]) -> None:
    assert "router-drops" not in {gate.code for gate in score_run(run).validity.gates}
    edit_lab(run, router_drops=lost)
    scores = score_run(run)
    assert failed(scores) == gates
    assert [gate.measured for gate in scores.validity.gates if gate.code == "router-drops"] == [
        "enp2s0 rx_missed_errors 3" if lost else "0 packets"
    ]


@pytest.mark.parametrize(("step_s", "gates"), [(0.0, []), (1.0, ["router-clock"]), (-5.0, ["router-clock"])])
def test_a_routers_clock_may_not_be_set_during_a_run(run: Path, step_s: float, gates: list[str]) -> None:
    assert "router-clock" not in {gate.code for gate in score_run(run).validity.gates}
    offsets = [30.002, 30.001, 30.004 + step_s]
    start, end = Setting.read(run).span
    lines = [
        json.dumps({"t": t, "offset_s": ahead}) + "\n"
        for t, ahead in zip((start - 1, (start + end) / 2, end), offsets, strict=True)
    ]
    (run / "router-clock.jsonl").write_text("".join(lines))
    scores = score_run(run)
    assert failed(scores) == gates and "router-clock" in {gate.code for gate in scores.validity.gates}
    (run / "router-clock.jsonl").write_text("".join(lines[1:]))
    assert failed(score_run(run)) == ["router-clock"], "not sampled from the first phase on"
