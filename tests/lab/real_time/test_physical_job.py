# SPDX-License-Identifier: Apache-2.0
"""The main job with --lab=apu: whole, and with the router lost in mid-run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.harness.bundle.archive import import_bundle, verify
from sojourn.harness.bundle.export import ExportRequest, export
from sojourn.harness.lab.physical import CLOCK, PhysicalLab
from sojourn.harness.store.manifest import MANIFEST, PARTIAL, read_manifest
from sojourn.harness.store.reasons import joined
from sojourn.scoring.schema.scores import SCORES, Scores
from tests.lab.canaries import kept_out, names
from tests.lab.main_job import open_to_others
from tests.lab.real_time.bench import Bench, job, needs_root, until
from tests.unit.harness.bundle.contents import told

pytestmark = [pytest.mark.lab, needs_root]

#: What its console tells, and what of that names somebody.
CONSOLE = "login of jnovakova@karelbox7 from 203.0.113.80, serial: pce-apu2-1337"
SECRETS = ["jnovakova", "karelbox7", "203.0.113.80", "pce-apu2-1337"]
APU = "--lab=apu", "--jitter-gate=50ms"
LEASE_S = 10
_AHEAD_S = 300


@pytest.mark.nightly
def test_a_short_experiment_with_a_router_whose_clock_is_off(nodes: Bench, tmp_path: Path) -> None:
    """Packets are captured at the router: without a correction none would lie in the timeline."""
    router = nodes.lab.router.place
    router.run(["date", "-s", f"{_AHEAD_S} seconds"])
    try:
        with (
            nodes.both_ends_here(f'serial = ["sh", "-c", "echo {CONSOLE}; exec cat"]') as file,
            job(file, tmp_path, "solo:5,cubic:5", *APU) as process,
        ):
            said, _ = process.communicate(timeout=400)
    finally:
        router.run(["date", "-s", f"{_AHEAD_S} seconds ago"])
    (run,) = (manifest.parent for manifest in tmp_path.glob(f"*/{MANIFEST}"))
    assert run.suffix != PARTIAL, said
    verify(run)
    assert not open_to_others(run)
    lab = json.loads((run / "lab.json").read_text())
    assert lab["name"] == "apu" and lab["verified_at_end"] is True
    assert lab["clock_offset_s"]["router"] == pytest.approx(_AHEAD_S, abs=0.5)
    assert lab["capture_offset_s"]["client"] == lab["capture_offset_s"]["server"] != 0
    beats = [json.loads(line)["offset_s"] for line in (run / CLOCK).read_text().splitlines()]
    assert beats == pytest.approx([_AHEAD_S] * len(beats), abs=0.5) and len(beats) > 2
    assert (run / "logs" / "console-router.log").read_text() == f"{CONSOLE}\n"
    scores = Scores.model_validate_json((run / SCORES).read_bytes())
    gates = {gate.name: gate for gate in scores.validity.gates}
    for name in ("client capture", "server capture"):
        assert gates[f"{name} complete"].ok and gates[f"{name} both ways"].ok and gates[f"{name} drops"].ok, gates
    assert gates["contender proven (cubic)"].ok and gates["qdisc of lan"].ok, gates
    print(manifest_line(run))
    assert (scores.phases[1].contender_mbps or 0) > 1
    assert not nodes.shaped() and not nodes.traces()
    tells_nobody(run, nodes, tmp_path / "given")


def tells_nobody(run: Path, nodes: Bench, folder: Path) -> None:
    """Nothing that names the lab's people, machines or keys is in what is given away of a run."""
    assert told(run, kept_out()) == {}
    secrets = [*kept_out(), *names(), nodes.folder.name, *SECRETS]
    assert set(SECRETS) <= {secret for those in told(run, SECRETS).values() for secret in those}
    given = import_bundle(export(run, request=ExportRequest(anonymise=True)), folder)
    assert told(given, secrets) == {}


def manifest_line(run: Path) -> str:
    manifest = read_manifest(run)
    return f"{manifest.status}: {joined(manifest.reasons)}"


@pytest.mark.nightly
@pytest.mark.parametrize("lost", ["cut off", "rebooted"])
def test_a_router_lost_in_mid_run_is_told_and_clean_for_the_next(nodes: Bench, tmp_path: Path, lost: str) -> None:
    with nodes.both_ends_here(f"dead_man_s = {LEASE_S}") as file:
        with job(file, tmp_path, "solo:5,cubic:60", *APU) as process:
            logs = f"*{PARTIAL}/ss.jsonl"
            until(lambda: process.poll() is not None or any(it.stat().st_size for it in tmp_path.glob(logs)), 240)
            assert nodes.shaped()
            if lost == "rebooted":
                nodes.reboot()
                said, _ = process.communicate(timeout=240)
            else:
                nodes.cut(process.pid)
                try:
                    print(f"undone after {until(lambda: not nodes.shaped(), LEASE_S + 2):.1f} s")
                    until(lambda: not nodes.traces(), 5)
                    said, _ = process.communicate(timeout=240)
                finally:
                    nodes.join()
        (run,) = tmp_path.iterdir()
        manifest = read_manifest(run)
        print(manifest_line(run))
        assert process.returncode != 0 and "during the run: router: " in said, said
        assert run.suffix == PARTIAL and manifest.status == "interrupted"
        assert manifest.reasons[0].code == "failed" and "during the run: router: " in manifest.reasons[0].text
        assert {"timeline.json", "screen.mp4", "qdisc.jsonl", CLOCK} <= set(manifest.files)
        if lost == "cut off":
            assert "router: could not be restored: router: " in said and f"within {LEASE_S} s" in said
        assert not nodes.shaped() and not nodes.traces()
        with PhysicalLab(read_lab_file(file)) as apu:
            apu.client.run(["ping", "-c", "1", "-W", "2", apu.addresses.server])
