# SPDX-License-Identifier: Apache-2.0
"""The main job over IPv4 and over IPv6: all of it goes over the one that was asked for, and is measured alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.bottleneck.rig import draw
from sojourn.harness.store.manifest import read_manifest
from sojourn.scoring.packets import pcapng
from sojourn.scoring.schema.scores import SCORES, Scores, Sojourn
from sojourn.scoring.tables import TABLES

pytestmark = [pytest.mark.lab, pytest.mark.nightly]  # cells are measured over IPv6 by day

_IPV4, _ARP, _IPV6 = 0x0800, 0x0806, 0x86DD


def ether_types(run: Path) -> set[int]:
    """What is in the frames of both captures."""
    bodies = (body for file in run.glob("*.pcapng.zst") for kind, body in pcapng.blocks(file) if kind == pcapng.PACKET)
    return {int.from_bytes(body[32:34], "big") for body in bodies}


def scores_of(run: Path) -> Scores:
    return Scores.model_validate_json((run / SCORES).read_bytes())


def test_nothing_of_a_run_goes_over_the_other_version(harm_run: Path, ipv6_run: Path) -> None:
    assert ether_types(harm_run) == {_IPV4, _ARP}
    assert ether_types(ipv6_run) == {_IPV6}


def test_prague_is_proven_over_ipv6(ipv6_run: Path) -> None:
    scores = scores_of(ipv6_run)
    assert scores.validity.failed == []
    prague = next(flow for flow in scores.flows if flow.contender == "prague")
    assert prague.accecn_syn and prague.ect1 > 0.99 * prague.data_packets and prague.ce > 0
    cubic = next(flow for flow in scores.flows if flow.contender == "cubic")
    assert cubic.ect0 == cubic.data_packets and not cubic.ect1


def test_sojourn_times_over_ipv6_are_those_over_ipv4(l4s_run: Path, ipv6_run: Path) -> None:
    def of(run: Path, contender: str, queue: str) -> Sojourn:
        rows = scores_of(run).sojourn
        return next(row for row in rows if (row.phase, row.of, row.queue) == (contender, "contender", queue))

    for contender, queue in (("prague", "L"), ("cubic", "C")):
        four, six = of(l4s_run, contender, queue), of(ipv6_run, contender, queue)
        print(contender, four, six)
        assert six.packets > 0.5 * four.packets and six.alike == 0
        assert six.p90_ms == pytest.approx(four.p90_ms, rel=0.5, abs=1)
    assert (of(ipv6_run, "prague", "L").marked or 0) > 100 and (of(ipv6_run, "prague", "L").p99_ms or 99) < 10


def test_the_tables_of_a_run_tell_addresses_as_text(ipv6_run: Path) -> None:
    packets, sojourn = (TABLES[name].of(ipv6_run) for name in ("packets", "sojourn"))
    assert {*packets["src"], *packets["dst"]} == {"fd42:1::10", "fd42:1::20", "fd42:2::10", "fd42:2::20"}
    assert sojourn.filter(of="victim", proto=pcapng.UDP, src="fd42:2::10").height > 500
    assert "IPv6" in (ipv6_run / "report.html").read_text()


def test_its_seed_drew_a_rig(harm_run: Path, ipv6_run: Path) -> None:
    drawn, rig = read_manifest(ipv6_run).drawn, draw(1)
    assert drawn == rig.words() and set(drawn) == {"RTT", "bunching"}
    lab = scores_of(ipv6_run).lab
    assert lab["rtt_ms"] == pytest.approx(20 * rig.rtt_factor, abs=0.002) != 20
    assert lab["path_varies_ms"] == pytest.approx(2 * rig.bunching_us / 1000)
    assert read_manifest(harm_run).drawn == {} and scores_of(harm_run).lab["rtt_ms"] == 20


def test_a_solo_phase_lasts_until_the_picture_has_had_its_height_for_a_while(ipv6_run: Path) -> None:
    last = json.loads((ipv6_run / "timeline.json").read_text())["phases"][-1]
    assert last["contender"] is None and 10 <= last["end"] - last["start"] < 62
    scores = scores_of(ipv6_run)
    (prague,) = (phase for phase in scores.phases if phase.contender == "prague")
    assert prague.recovery_s is not None and prague.recovery_s <= last["end"] - last["start"] - 9.5
    assert next(phase for phase in scores.phases if phase.contender == "cubic").recovery_s is None, "prague follows it"
