# SPDX-License-Identifier: Apache-2.0
"""--lab=black-box: a router that somebody else has set up is measured from outside, and never asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sojourn.bottleneck.spec import Bottleneck
from sojourn.captures.packets import PacketCapture
from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.hardware.machine.clock import clock_offsets
from sojourn.harness.cli import app
from sojourn.harness.lab.check import examine
from sojourn.harness.lab.contract import SIDES, Tap
from sojourn.harness.lab.instruments import Instruments
from sojourn.harness.lab.physical import PhysicalLab
from sojourn.harness.lab.under_test import BlackBox
from sojourn.harness.report.index import INDEX
from sojourn.harness.store.manifest import MANIFEST, PARTIAL, REPORT, read_manifest
from sojourn.scoring.packets import pcapng, per_flow, sojourn
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.traffic.irtt import IrttClient
from tests.lab.real_time.bench import Bench, changed, job, needs_root, until
from tests.tiers import first

pytestmark = [pytest.mark.lab, needs_root]

RATE_BPS, TARGET_MS, DELAY_MS = 10_000_000, 15, 10
#: What a host without a moment to spare may fail; none of it is about the box.
OF_THE_HOST = {"recorder frames missing", "first solo phase", "solo baseline", "host stalls", "strip unread"}


@pytest.fixture
def vendor(nodes: Bench) -> Iterator[Bench]:
    """The bench, whose router has a shaper, a queue that marks, and a delay that no run asked for."""
    router = nodes.lab.router
    router.apply(Bottleneck.symmetric(RATE_BPS, f"codel target {TARGET_MS}ms ecn", 2000 * DELAY_MS))
    yield nodes
    router.clear()


def counted(nodes: Bench) -> dict[str, Any]:
    """What the queue on the way down tells by itself."""
    qdiscs = json.loads(nodes.lab.router.place.run(["tc", "-s", "-j", "qdisc", "show", "dev", "lan"]))
    return next(qdisc for qdisc in qdiscs if qdisc["kind"] == "codel")


def set_up(nodes: Bench) -> str:
    return nodes.lab.router.place.run(
        ["sh", "-c", "for dev in lan wan; do tc qdisc show dev $dev; tc class show dev $dev; done"]
    )


@pytest.mark.nightly
def test_a_box_is_measured_from_outside(vendor: Bench, tmp_path: Path) -> None:
    before = set_up(vendor)
    # All that reaches the router's management port but by the vendor's own connection.
    asked = PacketCapture.start(vendor.hub, "mgmt-router", tmp_path / "asked.pcapng", only="not host 10.42.0.254")
    with (
        vendor.as_a_box() as file,
        job(file, tmp_path, "solo:5,cubic:12", "--lab=black-box", "--max-quality=240p") as process,
    ):
        said, _ = process.communicate(timeout=400)
    assert asked.stop().packets == 0 and set_up(vendor) == before
    (run,) = (manifest.parent for manifest in tmp_path.glob(f"*/{MANIFEST}"))
    assert run.suffix != PARTIAL and "vendor-CPE" in run.name, said
    print(read_manifest(run).status, read_manifest(run).reasons)
    scores = Scores.model_validate_json((run / SCORES).read_bytes())
    gates = {gate.name: gate for gate in scores.validity.gates}
    assert {name for name, gate in gates.items() if not gate.ok} <= OF_THE_HOST
    probes = {f"{name} probe complete" for name in ("Not-ECT", "ECT(1)")}
    assert {"clocks of both captures", "offloads off", "contender proven (cubic)", *probes} <= gates.keys()
    assert not any(name.startswith(("qdisc", "unshaped", "jitter", "router")) for name in gates)
    tells_what_was_planted(scores, counted(vendor))
    report, index = (run / REPORT).read_text(), (tmp_path / INDEX).read_text()
    assert "neither configured nor read" in report and "vendor CPE" in report and "vendor CPE" in index


def tells_what_was_planted(scores: Scores, queue: dict[str, Any]) -> None:
    """The figures of a run beside what the vendor set up, and what his queue counted."""
    print(scores.lab, scores.phases[1], scores.sojourn, queue, sep="\n")
    assert scores.lab["least_down_ms"] == pytest.approx(DELAY_MS, abs=1) == scores.lab["least_up_ms"]
    assert scores.lab["most_down_bps"] == pytest.approx(RATE_BPS, rel=0.05)
    beside = scores.phases[1]
    assert 0.7 * RATE_BPS < 1e6 * ((beside.contender_mbps or 0) + (beside.victim_mbps or 0)) < RATE_BPS
    through = {row.of: row for row in scores.sojourn if row.phase == "cubic"}
    assert set(through) == {"victim", "contender", "probe", "ect1_probe"}
    assert through["probe"].p50_ms == pytest.approx(TARGET_MS, abs=10)
    # Some packets fall between phases, or are nobody's.
    assert queue["ecn_mark"] >= (through["contender"].marked or 0) >= queue["ecn_mark"] / 2 > 0
    assert queue["drops"] >= sum(row.lost or 0 for row in through.values()) > 0


@pytest.mark.nightly
def test_between_two_hosts_the_least_times_add_up_whatever_their_clocks_tell(vendor: Bench, tmp_path: Path) -> None:
    """The far host's clock is 5 minutes ahead, and it is reached by ssh; so is its capture."""
    far = 'ssh = "sender"', "10.42.2.20"
    with (
        changed(vendor.lab.sender, "date -s '300 seconds'", "date -s '300 seconds ago'"),
        vendor.as_a_box(*far) as file,
        PhysicalLab(read_lab_file(file, "black-box")) as lab,
    ):
        assert lab.router is None and lab.server_tap == Tap(lab.server, "eth0")
        with ExitStack() as stack:
            parts = Instruments(lab, BlackBox(lab), stack)
            parts.capture(tmp_path)
            parts.echo(tmp_path / "echo.log")
            probe = IrttClient(lab.client, lab.addresses.server, tmp_path / "irtt.json.gz").start(3)
            until(lambda: not probe.alive(), 15)
            probe.stop()
        behind, before = (pcapng.read(parts.captured[side].file).packets for side in SIDES)
        (ahead,) = clock_offsets([lab.server]).values()
    before = before.unique(["src", "ip_id", "fingerprint"], keep="first", maintain_order=True)  # its own come twice
    down = sojourn.least_ms(per_flow.select(before, dst="10.42.1.10"), behind)
    up = sojourn.least_ms(per_flow.select(behind, src="10.42.1.10"), before)
    assert down is not None and up is not None and down + up == pytest.approx(2 * DELAY_MS, abs=2)
    assert up == pytest.approx(1000 * ahead.seconds + DELAY_MS, abs=1000 * ahead.error + 50)


def found(file: Path) -> dict[str, tuple[str, str, str]]:
    return {it.subject: (it.verdict, it.found, it.fix) for it in examine(read_lab_file(file))}


def test_a_box_as_described_passes(nodes: Bench) -> None:
    with nodes.as_a_box() as file:
        told = found(file)
    print(told)
    assert told["vendor CPE: between the captures"][:2] == (
        "ok", "probes and bulk flow pass both captures, in both directions",
    )  # fmt: skip
    assert told["client: offloads of eth0"] == told["server: offloads of eth0"] == ("ok", "off", "")
    assert not any(subject.startswith("router") for subject in told)
    assert {verdict for verdict, *_ in told.values()} <= {"ok", "note"}


def test_no_queue_is_wanted_of_a_box(nodes: Bench) -> None:
    with nodes.as_a_box() as file:
        done = CliRunner().invoke(app, ["lab", "check", f"--lab-file={file}", "--qdisc=pie"])
    assert done.exit_code == 1 and "the queue of a black box is fixed; omit --qdisc" in done.stderr


@pytest.mark.parametrize(
    ("machine", "change", "back", "subject", "said", "fix"),
    first(1, [
        ("client", "ethtool -K eth0 gro on", "ethtool -K eth0 gro off",
         "client: offloads of eth0", "on: eth0: gro", "ethtool -K eth0 gro off"),
        ("router", "nft add table ip x; nft add chain ip x y '{ type nat hook postrouting priority 100; }'; "
         "nft add rule ip x y oifname wan masquerade", "nft delete table ip x",
         "vendor CPE: between the captures", "from client to server, but some from 10.42.2.1", "without NAT"),
        ("router", "nft add table ip x; nft add chain ip x y '{ type filter hook forward priority 0; }'; "
         "nft add rule ip x y ip daddr 10.42.1.30 ct state new drop", "nft delete table ip x",
         "vendor CPE: between the captures", "the client's capture has no packet from sender to receiver", "firewall"),
    ]),
)  # fmt: skip
def test_what_is_wrong_around_a_box_is_named_with_its_fix(
    nodes: Bench, machine: str, change: str, back: str, subject: str, said: str, fix: str
) -> None:
    place = nodes.lab.router.place if machine == "router" else nodes.lab.client
    with nodes.as_a_box() as file, changed(place, change, back):
        verdict, told, fixed = found(file)[subject]
    assert verdict == "missing" and said in told and fix in fixed, told
