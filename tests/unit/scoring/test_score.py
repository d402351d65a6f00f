# SPDX-License-Identifier: Apache-2.0
"""A whole run with known content gives the known scores; a spoiled one is void and says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scoring.score import Scores, ScoringError, score_run


def failed(scores: Scores) -> list[str]:
    return [gate.name for gate in scores.validity.gates if not gate.ok]


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
    assert flow.d_ss_mbps == pytest.approx(7, abs=0.02)
    harms = {h.metric: h.harm for h in scores.harm}
    assert harms["victim_mbps"] == pytest.approx(0.5, abs=0.01)
    assert harms["mean_height"] == pytest.approx((720 - 504) / 720, abs=0.01)
    assert harms["stall_s_per_min"] == harms["drops_per_min"] == 1
    assert len(scores.series.t) == 20 and sum(scores.series.stalled_s or []) == pytest.approx(prague.stall_s, abs=0.01)
    assert len(scores.goodput_100ms.t) == 200
    assert [c.name for c in scores.ccdf] == ["solo", "prague", "solo", "unshaped"]


def test_the_same_files_give_the_same_bytes_and_a_schema_that_reads_back(run: Path) -> None:
    text = score_run(run).model_dump_json(indent=1)
    assert score_run(run).model_dump_json(indent=1) == text
    assert Scores.model_validate_json(text).model_dump_json(indent=1) == text


@pytest.mark.parametrize(
    ("gone", "gates"),
    [
        ("screen.mp4", {"recorder frames missing", "recording complete"}),
        ("client.pcapng.zst", {"client capture complete", "contender proven (prague)"}),
        ("irtt.json.gz", {"probe complete"}),
        ("irtt-unshaped.json.gz", {"jitter of the lab (P99)"}),
        ("host.jsonl", {"host stalls"}),
        ("qdisc.jsonl", {"qdisc of lan", "qdisc of wan"}),
    ],
)
def test_a_missing_record_voids_the_run(run: Path, gone: str, gates: set[str]) -> None:
    (run / gone).unlink()
    scores = score_run(run)
    assert set(failed(scores)) == gates
    assert not scores.validity.valid and scores.harm == []
    assert all(gate.reason for gate in scores.validity.gates if not gate.ok)


def test_an_impostor_voids_the_run(run: Path) -> None:
    lines = (run / "ss.jsonl").read_text().replace('"prague"', '"cubic"')
    (run / "ss.jsonl").write_text(lines)
    assert failed(score_run(run)) == ["contender proven (prague)"]


def test_an_empty_bottleneck_voids_the_run(run: Path) -> None:
    lab = json.loads((run / "lab.json").read_text()) | {"rate_down_bps": 20e6}
    (run / "lab.json").write_text(json.dumps(lab))
    assert failed(score_run(run)) == ["bottleneck saturated (prague)"]


def test_without_a_strip_the_player_tells_the_height(run: Path) -> None:
    (run / "screen.mp4").unlink()
    t0 = json.loads((run / "timeline.json").read_text())["phases"][0]["start"]
    samples = [{"t": t0 + i / 4, "height": 720 if i < 60 else 480} for i in range(80)]
    (run / "player.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    scores = score_run(run)
    assert scores.picture == "player" and scores.phases[1].fps is None
    assert scores.phases[1].lowest_height == 480


def test_damage_is_one_clear_line(run: Path) -> None:
    (run / "screen.mp4").write_bytes(b"not a video")
    with pytest.raises(ScoringError, match=r"screen\.mp4"):
        score_run(run)
    (run / "timeline.json").unlink()
    with pytest.raises(ScoringError, match=r"timeline\.json"):
        score_run(run)
