# SPDX-License-Identifier: Apache-2.0
"""NQB in dualpi2 by a filter, and the optional queue with queue protection (hardware/kernel/queue_protection)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.qdiscs import marks
from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from sojourn.hardware.kernel_build.sources import OURS, Sources
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.simulated import run_cell
from sojourn.scoring.protection import protection_scores
from sojourn.scoring.schema.cell_scores import CellScores
from sojourn.scoring.transport.cell_scores import score
from sojourn.scoring.transport.frames import CellFrames
from sojourn.traffic.spec import Flow, Probe

pytestmark = pytest.mark.lab
QPROT = Sources(FRAGMENTS / "queue_protection")
RTT = 20
NQB = Probe(rtt_us=RTT * 1000, interval_s=1 / 60, ecn="nqb")
NOT_ECT = Probe(rtt_us=RTT * 1000)


def ran(cell: Cell, folder: Path, sources: Sources = OURS) -> tuple[CellScores, list[dict[str, Any]]]:
    """Run a cell; return its scores, and the samples of the queue under test, down."""
    run_cell(cell, folder, seed=1, sources=sources)
    frames = CellFrames.read(folder)
    kind = cell.hops[0].down.qdisc.kind if cell.hops[0].down else ""
    seen = [q for line in frames.queues if line["dev"] == "lan" for q in line["qdiscs"] if q["kind"] == kind]
    return score(cell, frames, window_s=cell.seconds / 2), seen


def test_dualpi2_nqb_has_dscp_45_in_l_by_its_read_back_filter(tmp_path: Path) -> None:
    """The default kernel: a game's packets wait in L; without the filter, with CUBIC in C."""
    p99 = {}
    for name in ("dualpi2", "dualpi2 nqb"):
        cell = Cell(
            name="nqb", flows=dumbbell.flows(["cubic"], RTT), hops=(dumbbell.bottleneck(10, name),), seconds=15,
            probes=(NQB, NOT_ECT),
        )  # fmt: skip
        (tmp_path / name).mkdir()
        scores, seen = ran(cell, tmp_path / name)
        assert scores.probes
        assert scores.probes[0].loss == 0 or name == "dualpi2"
        p99[name] = [probe.p50_ms or 0 for probe in scores.probes]
        assert (seen[-1]["pkts-in-l"] > 800) == (name == "dualpi2 nqb")
    game, other = p99["dualpi2 nqb"]
    assert game < 13 < other and p99["dualpi2"][0] > 13
    log = (tmp_path / "dualpi2 nqb/setup.log").read_text()
    assert '"classid":"10:2","keys":{"eth_type":"ipv4","ip_tos":180,"ip_tos_mask":"fc"}' in log
    assert "ip_tos" not in (tmp_path / "dualpi2/setup.log").read_text()


def protected(name: str, contenders: list[str], unresponsive: dict[str, int], seconds: float, words: str = "") -> Cell:
    """Return a cell of 50 Mbit/s with these flows, and others that send so many Mbit/s from 5 s on."""
    others = tuple(
        Flow(contender=kind, rtt_us=RTT * 1000, rate_bps=rate * 1_000_000, start_s=5)
        for kind, rate in unresponsive.items()
    )
    hop = dumbbell.bottleneck(50, f"sch_dualpi2_qprot rate 50mbit{words}")
    flows = (*dumbbell.flows(contenders, RTT), *others)
    return Cell(name=name, flows=flows, hops=(hop,), seconds=seconds, probes=(NQB, NOT_ECT))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_prague_flow_is_not_sanctioned_in_60_s(tmp_path: Path) -> None:
    """After its slow start, whose overshoot is."""
    cell = protected("prague", ["prague"], {}, 60, " lg_aging 19 critical_score 4000")
    scores, seen = ran(cell, tmp_path, QPROT)
    last = seen[-1]
    options = {"lg_aging": 19, "lg_range": 19, "critical_score": 4000, "ramp_end": 1164, "critical_ql": 1164}
    assert options.items() <= last["options"].items() and last["options"]["protect"] is True
    assert marks(last) and 0 < last["native_mark"] <= last["ecn_mark"]
    assert 3500 < last["nqb"] <= 3600 < last["pkts-in-l"]
    protection = protection_scores(CellFrames.read(tmp_path).queues, (2, 60))
    assert protection and protection.window_sanctioned_share == 0 and protection.sanctioned < 200
    assert (scores.flows[0].d_ss_mbps or 0) > 45
    made = json.loads((tmp_path / "cell.json").read_text())["kernel"]
    assert " with sch_dualpi2_qprot.c sha256:" in made["source"]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["udp-ect1", "udp-nqb"])
def test_an_unresponsive_flow_in_l_is_sanctioned_within_seconds(kind: str, tmp_path: Path) -> None:
    """90 % of the link: L's delay stays low with protection, and not without."""
    delays = {}
    for words in ("", " no_protect"):
        folder = tmp_path / f"run{words}"
        folder.mkdir()
        scores, seen = ran(protected("unresponsive", ["prague"], {kind: 45}, 12, words), folder, QPROT)
        assert scores.probes
        delays[words] = scores.probes[0].p99_ms or 0
        samples = protection_scores(CellFrames.read(folder).queues, (5, 8))
        assert samples and samples.sanctioned == seen[-1]["sanctioned"]
        if words:
            assert samples.sanctioned == 0
        else:
            assert (samples.window_sanctioned_share or 0) > 0.03, "in the first 3 s of the flow"
    assert delays[""] < 13 < 30 < delays[" no_protect"]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_an_unresponsive_flow_below_the_law_keeps_its_place(tmp_path: Path) -> None:
    """60 % of the link with one Prague flow: its congestion-rate is below AGING (README, "Who is sanctioned")."""
    scores, _ = ran(protected("below", ["prague"], {"udp-ect1": 30}, 20), tmp_path, QPROT)
    protection = protection_scores(CellFrames.read(tmp_path).queues, scores.window_s)
    assert protection and (protection.window_sanctioned_share or 0) < 0.02
