# SPDX-License-Identifier: Apache-2.0
"""The sound of a real call: as late as its path and NetEq's buffer make it, and concealed where packets are lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.run_evidence import RunEvidence
from tests.lab.main_job import run_harm

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

OPTIONS = "--service=call", "--qdisc=pfifo", "--rate=50mbit", "--timeline=solo:10", "--exact", "--seed=1"
#: Of both ends: ticks of 10 ms of the fake microphone and NetEq, Opus packets of 20 ms and 6.5 ms ahead.
ENDS_MS = 15, 45


def run(folder: Path, *options: str) -> Path:
    done = run_harm(folder, *OPTIONS, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = RunStore(folder).runs()
    return path


@pytest.mark.parametrize("rtt_ms", [40, 200])
def test_it_is_as_late_as_the_path_the_ends_and_neteq_make_it_and_does_not_drift(tmp_path: Path, rtt_ms: int) -> None:
    path = run(tmp_path, f"--rtt={rtt_ms}ms")
    scores, evidence = load_run(path).scores, RunEvidence(path)
    for (phase,), heard in ((scores.phases, evidence.sound), (scores.far, evidence.far_sound)):
        assert heard is not None and phase.ear_p50_ms is not None and phase.neteq_buffer_ms is not None
        assert ENDS_MS[0] < phase.ear_p50_ms - rtt_ms / 2 - phase.neteq_buffer_ms < ENDS_MS[1]
        assert phase.ear_loss == phase.ear_gap_share == phase.neteq_concealed_share == 0
        start, end = (scores.t0 + t for t in (phase.start, phase.end))
        steady = [delay for t, delay in heard.tones.iter_rows() if start <= t < end]
        assert max(steady) - min(steady) < 1 or phase.ear_repeated_share, "it changes only where NetEq changes it"
        assert phase.lip_sync_p50_ms is not None and abs(phase.lip_sync_p50_ms) < 100
        assert phase.r_factor is not None and phase.r_factor > 92


def test_lost_packets_are_gaps_where_neteq_conceals_and_the_same_seed_sounds_the_same(tmp_path: Path) -> None:
    paths = [run(tmp_path / name, "--rtt=40ms", "--loss=5%") for name in "ab"]
    for phase in (*load_run(paths[0]).scores.phases, *load_run(paths[0]).scores.far):
        assert phase.ear_gap_share is not None and phase.neteq_concealed_share is not None
        assert 0 < phase.neteq_concealed_share < 0.03
        assert phase.ear_gap_share == pytest.approx(phase.neteq_concealed_share, abs=0.02)
    for name in ("sound.flac", "far/sound.flac"):
        assert paths[0].joinpath(name).read_bytes() == paths[1].joinpath(name).read_bytes()
