# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.machine.network_cards import read_counters, speed_bps
from sojourn.hardware.machine.place import CommandError
from tests.programs.hardware.machine.cards import write


def test_what_was_lost_and_how_busy_the_busiest_processor_was(tmp_path: Path) -> None:
    devices = dict.fromkeys(("enp2s0", "enp3s0"), "1000")
    router = write(tmp_path, devices, backlog=2, rx_missed_errors=7)
    before = read_counters(router, *devices)
    assert before.lost["enp2s0 rx_missed_errors"] == 7 and before.lost["backlog"] == 2
    assert len(before.lost) == 11 and before.ticks == {"cpu0": (0, 1000), "cpu1": (0, 1000)}
    assert (before.lost_since(before), before.busiest_since(before)) == ({}, 0)
    write(tmp_path, devices, backlog=19, busy=250, rx_missed_errors=8)
    now = read_counters(router, *devices)
    assert now.lost_since(before) == {"enp2s0 rx_missed_errors": 1, "enp3s0 rx_missed_errors": 1, "backlog": 17}
    assert now.busiest_since(before) == 1
    with pytest.raises(CommandError):
        read_counters(router, "eth9")


@pytest.mark.parametrize(
    ("text", "bps"), [("100", 10**8), ("2500", 2_500_000_000), ("-1", None), ("4294967295", None), ("0", None)]
)
def test_a_speed_that_is_not_known_is_none(tmp_path: Path, text: str, bps: int | None) -> None:
    assert speed_bps(write(tmp_path, {"enp2s0": text}), "enp2s0") == bps


def test_a_card_without_a_speed_has_none(tmp_path: Path) -> None:
    assert speed_bps(write(tmp_path, {"enp2s0": "100"}), "enp3s0") is None
