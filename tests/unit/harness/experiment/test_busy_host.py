# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest

from sojourn.harness.experiment.busy_host import BusyHost, times_of_tree


class Machine:
    """Threads that run and wait for shares of the time that passes, on two processors."""

    def __init__(self, *shares: tuple[float, float]) -> None:
        self.now, self.shares = 100.0, shares
        self.host = BusyHost(self.times, lambda: self.now, processors=2)

    def times(self) -> Iterator[tuple[int, int]]:
        for ran, waited in self.shares:
            yield round(ran * self.now * 1e9), round(waited * self.now * 1e9)

    def said(self, seconds: float) -> str:
        self.now += seconds
        return self.host.line()


@pytest.mark.parametrize(
    ("shares", "share"),
    [
        ([(0.3, 0.7)], "30%"),
        ([(0.2, 0.6), (0.2, 0.4)], "29%"),
        ([(0.9, 0.1)], ""),  # alone on its processor
        ([(0.01, 0.005)], ""),  # idle
        ([(0.3, 0.7)] * 6, ""),  # its own threads wait for each other
        ([], ""),
    ],
)
def test_a_host_is_busy_when_a_run_waits_for_others(shares: list[tuple[float, float]], share: str) -> None:
    machine = Machine(*shares)
    assert machine.said(1) == ""
    line = machine.said(10)
    assert bool(line) == bool(share) and share in line
    assert machine.said(100) == ""  # once


def test_the_share_of_a_run_is_that_of_all_its_time() -> None:
    machine = Machine((0.2, 0.6))
    assert machine.host.given == 1.0, "not known yet"
    machine.said(10)
    assert machine.host.given == pytest.approx(0.25)
    machine.said(30)
    assert machine.host.given == pytest.approx(0.25)


def test_a_thread_that_has_ended_is_no_negative_time() -> None:
    machine = Machine((0.9, 0.1), (0.9, 0.1))
    machine.said(10)
    machine.shares = ((0.9, 0.1),)
    assert machine.said(10) == ""


def test_the_times_of_this_process_are_read() -> None:
    assert sum(ran for ran, _ in times_of_tree()) > 0
