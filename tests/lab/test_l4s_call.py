# SPDX-License-Identifier: Apache-2.0
"""An L4S call of two stock browsers: its media is ECT(1) on the wire, and both ends count marks and feedback."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.gates.calls import media
from sojourn.scoring.packets.pcapng import CE, ECT1
from sojourn.scoring.run_evidence import RunEvidence
from tests.lab.main_job import run_harm

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

#: First byte of an RTP packet with a header extension (RFC 3550, 5.1), as all of a browser have; RTCP has others.
RTP = 0x90
OPTIONS = "--service=call", "--call-cc=scream", "--qdisc=dualpi2", "--rate=5mbit", "--timeline=solo:15,prague:15"


def test_a_scream_call_is_valid_and_proves_its_marks(tmp_path: Path) -> None:
    done = run_harm(tmp_path, *OPTIONS)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(tmp_path).runs()
    scores, evidence = load_run(run).scores, RunEvidence(run)
    assert scores.validity.valid and {row.queue for row in scores.sojourn if row.of == "victim"} >= {"L"}
    assert evidence.before and evidence.behind
    for sent in (evidence.before.victim, evidence.behind.back):
        fields = media(sent)["ecn"]
        assert (fields == ECT1).sum() > 0.995 * len(fields) and 200 < len(fields) < sent.height
    assert (evidence.behind.victim["ecn"] == CE).sum() > 0
    for here, there in ((scores.phases, scores.far), (scores.far, scores.phases)):
        # Over all phases: the ends count each second at other times, and the rate falls where Prague begins.
        received = sum((row.media_received_ect1 or 0) + (row.media_received_ce or 0) for row in here)
        assert received == pytest.approx(sum(row.media_sent_ect1 or 0 for row in there), rel=0.1)
        assert all(row.media_bleached == 0 and (row.ccfb_received or 0) > 20 for row in here)
        assert all((row.ccfb_received or 0) > 20 * (row.end - row.start) for row in here)
    assert sum(phase.media_received_ce or 0 for phase in scores.phases) > 0


def test_both_ends_count_the_marks_that_the_captures_have(tmp_path: Path) -> None:
    """Without sound, whose packets the counters of the picture's stream do not have."""
    done = run_harm(tmp_path, *OPTIONS, "--call-sound=off")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(tmp_path).runs()
    evidence = RunEvidence(run)
    assert evidence.before and evidence.behind
    for end, arrived in (("client", evidence.behind.victim), ("server", evidence.before.back)):
        log = evidence.marks[end]
        assert log is not None
        last = log.row(-1, named=True)
        rtp = arrived.filter(pl.col("first") == RTP, pl.col("t_ns") <= last["t"] * 1e9)
        for field, counted in ((ECT1, "media_received_ect1"), (CE, "media_received_ce")):
            assert last[counted] == pytest.approx((rtp["ecn"] == field).sum(), rel=0.005, abs=2)
