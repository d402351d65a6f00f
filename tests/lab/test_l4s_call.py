# SPDX-License-Identifier: Apache-2.0
"""An L4S call of two stock browsers: its media is ECT(1) on the wire, and both ends count marks and feedback."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.gates.calls import media
from sojourn.scoring.packets.pcapng import CE, ECT1
from sojourn.scoring.run_evidence import RunEvidence
from tests.lab.main_job import run_harm

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

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
    assert sum(phase.media_received_ce or 0 for phase in scores.phases) > 0
