# SPDX-License-Identifier: Apache-2.0
"""Real time over IPv6: virtual nodes, as the virtual lab and as a physical one whose file has IPv6 addresses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.harness.lab.check import examine
from sojourn.harness.store.manifest import MANIFEST, PARTIAL
from sojourn.scoring.schema.scores import SCORES, Scores
from tests.lab.main_job import run_main_job
from tests.lab.real_time.bench import Bench, bench, needs_root

pytestmark = pytest.mark.lab

ASKED = "--qdisc=dualpi2", "--timeline=solo:5,prague:6", "--jitter-gate=50ms"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Virtual nodes that speak IPv6 through the router."""
    with bench(tmp_path_factory.mktemp("bench"), version=6) as nodes:
        yield nodes


def recorded(results: Path, said: str) -> Path:
    """The run that ended, valid or, on a busy host, void."""
    (run,) = (manifest.parent for manifest in results.glob(f"*/{MANIFEST}"))
    assert run.suffix != PARTIAL, said
    return run


def carried(run: Path) -> None:
    """What the run is judged by here, whatever the host was busy with."""
    scores = Scores.model_validate_json((run / SCORES).read_bytes())
    gates = {gate.name: gate for gate in scores.validity.gates}
    for name in ("client capture", "server capture"):
        assert gates[f"{name} complete"].ok and gates[f"{name} both ways"].ok, gates
    assert gates["contender proven (prague)"].ok and gates["qdisc of lan"].ok, gates
    assert gates["unshaped probe lost"].ok and gates["router read back at the end"].ok, gates
    assert (scores.phases[0].victim_mbps or 0) > 1 and (scores.phases[1].contender_mbps or 0) > 1
    addresses = json.loads((run / "lab.json").read_text())["addresses"]
    assert addresses["client"] == "fd42:1::10" and scores.lab["ip_version"] == 6


@pytest.mark.nightly  # a player in real time, next to other tests; by day test_game.py has a main job over IPv6
def test_the_virtual_lab_over_ipv6(tmp_path: Path) -> None:
    told = run_main_job(
        tmp_path,
        "--lab=virtual",
        "--ip-version=6",
        "--qdisc=dualpi2",
        "--buffer=2",
        "--timeline=solo:5,prague:4",
        "--jitter-gate=50ms",
    )
    carried(recorded(tmp_path, told.stdout))


@pytest.mark.nightly
@needs_root
def test_a_lab_file_of_ipv6_addresses(nodes: Bench, tmp_path: Path) -> None:
    with nodes.both_ends_here() as file:
        amiss = [it for it in examine(read_lab_file(file), ["dualpi2"]) if it.verdict != "ok"]
        assert all(it.verdict == "note" and it.subject.endswith(": clock") for it in amiss), amiss
        refused = run_main_job(tmp_path, "--lab=apu", f"--lab-file={file}", *ASKED, "--ip-version=4")
        assert f"--ip-version: the addresses of {file} are IPv6; omit it, or give every" in refused.stderr
        told = run_main_job(tmp_path, "--lab=apu", f"--lab-file={file}", *ASKED)
    carried(recorded(tmp_path, told.stdout))
    assert not nodes.shaped() and not nodes.traces()
