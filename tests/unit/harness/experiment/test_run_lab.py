# SPDX-License-Identifier: Apache-2.0
"""What the options of a run add to its lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.harness.experiment.run_lab import with_parts
from sojourn.harness.lab.contract import MadeLab, WithPrograms
from sojourn.harness.lab.responsiveness import WithForeignProbes
from sojourn.harness.lab.simulated import SimLab
from sojourn.harness.options.record import restored
from sojourn.harness.options.rules import parse_options


def test_foreign_probes_run_only_if_requested(tmp_path: Path) -> None:
    plain = with_parts(SimLab(), parse_options({"rpm": "off"}), tmp_path)
    assert isinstance(plain, WithPrograms) and isinstance(plain, MadeLab)


@pytest.mark.parametrize(("rates", "interval_s"), [({}, 0.5), ({"rate-up": "800kbit"}, 1.0)])
def test_their_interval_follows_the_slower_direction(tmp_path: Path, rates: dict[str, str], interval_s: float) -> None:
    lab = with_parts(SimLab(), parse_options(rates), tmp_path)
    assert isinstance(lab, WithForeignProbes)
    assert (lab._interval_s, lab._folder) == (interval_s, tmp_path) and isinstance(lab._factory, WithPrograms)


def test_runs_in_simulated_time_send_probes_unless_told_otherwise() -> None:
    given = ({}, {"rpm": "off"}, {"rpm": "on"}, {"lab": "virtual"}, {"lab": "virtual", "rpm": "on"})
    assert [parse_options(it).responsiveness for it in given] == [True, False, True, False, True]
    assert parse_options({"contenders": "rpm", "rpm": "off"}).responsiveness


def test_a_record_without_the_option_is_one_of_a_run_without_probes() -> None:
    plain, probing = (parse_options({"rpm": text}) for text in ("off", "on"))
    assert "rpm" not in plain.record() and probing.record() == {**plain.record(), "rpm": True}
    assert [restored(it.record()).rpm for it in (plain, probing)] == [False, True]
