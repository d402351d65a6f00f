# SPDX-License-Identifier: Apache-2.0
"""Which cells a lab of real time takes, and what its own delay is measured from."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.rig import draw
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.capabilities import missing_capability
from sojourn.harness.matrix.cells.real_time import bottleneck_of, path_rtt_ms
from sojourn.traffic.spec import Call, RecordedCall


def cell(path: Impairment) -> Cell:
    return Cell(
        name="a", flows=dumbbell.flows(["cubic"], 20), hops=(dumbbell.bottleneck(50, "pie", path=path),), seconds=10
    )


@pytest.mark.parametrize("path", [dumbbell.bursts(16), Impairment(delay_us=5000, jitter_us=5000)])
@pytest.mark.parametrize("lab", ["virtual", "apu"])
def test_a_path_in_bursts_would_void_every_run_in_real_time(path: Impairment, lab: str) -> None:
    assert "bursts" in missing_capability(cell(path), lab)
    assert missing_capability(cell(path), "sim") == ""
    assert missing_capability(cell(Impairment(delay_us=200)), lab) == ""


def test_slots_programs_recordings_and_single_packets_are_simulated() -> None:
    flow = dumbbell.flows(["cubic"], 20)[0]
    plain = cell(Impairment())
    others = {
        "delivery trace": plain.model_copy(update={"hops": (dumbbell.slotted(DeliveryTrace(seconds=1), "pie"),)}),
        "kernel's TCP": plain.model_copy(update={"flows": (flow.model_copy(update={"contender": "udp"}),)}),
        "single packets": plain.model_copy(update={"per_packet": True}),
        "DSCP 45": plain.model_copy(update={"call": Call(rtt_us=20_000, ecn="nqb")}),
        "recorded call": plain.model_copy(update={"call": RecordedCall(rtt_us=20_000)}),
    }
    for what, asked in others.items():
        assert what in missing_capability(asked, "virtual") and not missing_capability(asked, "sim")


@pytest.mark.parametrize("lab", ["virtual", "apu"])
def test_senders_are_paced_otherwise_in_simulated_time_alone(lab: str) -> None:
    paced = cell(Impairment()).model_copy(update={"pacing_percent": (100, 40)})
    assert "pacing" in missing_capability(paced, lab) and not missing_capability(paced, "sim")


def test_the_delay_of_the_path_counts_with_the_flows_rtt() -> None:
    assert path_rtt_ms(bottleneck_of(cell(Impairment(delay_us=3000)))) == 26


def test_a_users_program_runs_as_in_real_time_also_in_the_sim_lab() -> None:
    plain = cell(Impairment()).model_copy(update={"flows": dumbbell.flows(["program_mine", "cubic"], 20)})
    assert [missing_capability(plain, lab) for lab in ("sim", "virtual")] == ["", ""]
    assert "program" in missing_capability(plain, "apu")
    assert "single packets" in missing_capability(plain.model_copy(update={"per_packet": True}), "sim")
    assert "tunnel" in missing_capability(plain.model_copy(update={"tunnel": "wireguard"}), "virtual")


def test_a_call_with_sound_has_browsers_in_simulated_time_alone() -> None:
    plain = cell(Impairment()).model_copy(update={"call": Call(rtt_us=20_000, sound=True)})
    assert [missing_capability(plain, lab) for lab in ("sim", "virtual", "apu")] == ["", *["no sound of a call"] * 2]
    assert "IPsec" in missing_capability(plain.model_copy(update={"tunnel": "ipsec"}), "sim")


def test_a_scream_call_has_browsers_also_in_the_sim_lab() -> None:
    plain = cell(Impairment()).model_copy(update={"call": Call(rtt_us=20_000, cc="scream")})
    assert [missing_capability(plain, lab) for lab in ("sim", "virtual", "apu")] == [""] * 3
    assert "IPsec" in missing_capability(plain.model_copy(update={"tunnel": "ipsec"}), "sim")


@pytest.mark.parametrize(
    "changed",
    [{"call": Call(rtt_us=20_000, cc="scream")}, {"flows": dumbbell.flows(["program_mine"], 20)}],
    ids=["browsers", "program"],
)
def test_a_rig_bunches_packets_of_whatever_runs_in_simulated_time(changed: dict[str, Any]) -> None:
    plain = cell(Impairment()).model_copy(update=changed)
    rig = draw(1, plain)
    assert rig.bunching_us and missing_capability(rig.applied(plain), "sim") == ""
    assert "bunching" in missing_capability(rig.applied(plain), "virtual")
    assert missing_capability(draw(1, plain, bunching=False).applied(plain), "virtual") == ""
