# SPDX-License-Identifier: Apache-2.0
"""How often foreign probes are sent, and where the programs cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import ProcessError
from sojourn.traffic.rpm_programs import PROBE_INTERVAL_S, Identity, interval_s, start_server
from tests.refusals import refusal


@pytest.mark.parametrize(
    ("rates", "interval"),
    [((10_000_000, 10_000_000), PROBE_INTERVAL_S), ((None, None), PROBE_INTERVAL_S), ((10_000_000, 400_000), 2.0)],
)
def test_a_slow_path_gets_fewer_probes(rates: tuple[int | None, ...], interval: float) -> None:
    assert interval_s(*rates) == interval


def test_another_host_is_refused(tmp_path: Path) -> None:
    far = Place("far", ("ssh", "far"), remote=True)
    with refusal(ProcessError, "unsupported", "far is on another host", "--rpm"):
        start_server(far, "10.0.0.1", 8444, Identity(tmp_path, tmp_path, tmp_path, "tv.test"), tmp_path / "log")
