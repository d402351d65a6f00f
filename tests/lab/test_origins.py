# SPDX-License-Identifier: Apache-2.0
"""The stand-ins play from every origin: HTTP/3 by noq, and HTTP/2 by Prague and BBRv3; a seed gives the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.packets.pcapng import CE, ECT0, ECT1, NOT_ECT, TCP
from sojourn.scoring.run_evidence import RunEvidence
from tests.lab.main_job import run_harm

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

QUIC = "--origin-protocol=h3"


def valid_run(results: Path, *options: str) -> Path:
    done = run_harm(results, "--recorder=none", "--timeline=solo:5,cubic:5", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(results).runs()
    assert load_run(run).scores.validity.valid
    return run


@pytest.mark.parametrize(
    ("service", "control"), [("youtube", "bbr3"), ("o2tv", "cubic"), ("sledovanitv", "newreno"), ("iptv", "bbr3")]
)
def test_a_service_plays_over_http3_and_a_seed_gives_the_same_bytes(service: str, control: str, tmp_path: Path) -> None:
    run = valid_run(tmp_path / "first", f"--service={service}", QUIC, f"--origin-cc={control}")
    assert load_run(run).scores.own_kind == f"program_quic-{control}"
    requests = [json.loads(line) for line in (run / "origin.jsonl").read_text().splitlines()]
    assert {line["request"]["proto"] for line in requests} == {"HTTP/3.0"}
    assert sum(line["request"]["uri"].endswith(".m4s") and line["status"] == 200 for line in requests) > 3
    evidence = RunEvidence(run)
    assert evidence.before
    sent = evidence.before.victim
    assert (sent["proto"] != TCP).all() and (sent["ecn"] == ECT0).mean() > 0.99
    command = [sys.executable, "-m", "sojourn.harness.cli", "rerun", str(run), f"--results={tmp_path / 'again'}"]
    again = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=1200)
    assert again.returncode == 0 and "files are identical" in again.stdout, again.stdout + again.stderr


@pytest.mark.parametrize("protocol", ["h2", "h3"])
def test_a_prague_origin_is_ect1_and_answers_marks(protocol: str, tmp_path: Path) -> None:
    run = valid_run(tmp_path, f"--origin-protocol={protocol}", "--origin-cc=prague", "--qdisc=dualpi2")
    gates = {gate.code: gate for gate in load_run(run).scores.validity.gates}
    assert gates["origin-marked"].ok
    evidence = RunEvidence(run)
    assert evidence.before and evidence.behind
    data = evidence.before.victim.filter(evidence.before.victim["payload"] > 0)
    assert (data["ecn"] == ECT1).mean() > 0.98 and (data["ecn"] == ECT0).sum() == 0
    assert (evidence.behind.victim["ecn"] == CE).sum() > 0


def test_a_bbr3_origin_needs_its_kernel_and_is_not_ect(tmp_path: Path) -> None:
    refused = run_harm(tmp_path / "refused", "--origin-cc=bbr3")
    assert refused.returncode and "--origin-cc: bbr3 is not in this kernel" in refused.stderr
    run = valid_run(tmp_path / "run", "--origin-cc=bbr3", f"--kernel-source={FRAGMENTS / 'bbr3'}")
    evidence = RunEvidence(run)
    assert evidence.before and (evidence.before.victim["ecn"] == NOT_ECT).all()
