# SPDX-License-Identifier: Apache-2.0
"""The recording by the figures of its capture, and its replay."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sojourn.hardware.machine.ip import UDP_HEADERS
from sojourn.traffic import recorded_call
from sojourn.traffic.recorded_call import SECONDS, Burst, replay


def sent_bytes(bursts: Iterable[Burst]) -> int:
    return sum(one.packets * (one.payload + UDP_HEADERS[4]) for one in bursts)


def test_the_recording_has_the_packets_and_rates_of_its_capture() -> None:
    down, up = recorded_call.recording()["down"], recorded_call.recording()["up"]
    # Of the capture, by tshark: packets, and Mbit/s of IP.
    assert (sum(one.packets for one in down), sum(one.packets for one in up)) == (19043, 10538)
    assert sent_bytes(down) * 8 / SECONDS == pytest.approx(1.7538e6, rel=1e-4)
    assert sent_bytes(up) * 8 / SECONDS == pytest.approx(0.83645e6, rel=1e-4)
    assert (sent_bytes(down) + sent_bytes(up)) * 8 / SECONDS == pytest.approx(recorded_call.BITRATE_BPS, abs=1)
    long = [one for one in down if one.payload + UDP_HEADERS[4] > 1024]
    assert sent_bytes(long) / sent_bytes(down) == pytest.approx(1.25805 / 1.7538, rel=0.001)
    for way in (down, up):
        assert [one.at_s for one in way] == sorted(one.at_s for one in way) and way[-1].at_s <= SECONDS


def test_a_replay_begins_anywhere_and_repeats() -> None:
    down = recorded_call.recording()["down"]
    assert [*replay("down", SECONDS)] == [*down]
    twice = [*replay("down", 2 * SECONDS)]
    assert [one.packets for one in twice] == 2 * [one.packets for one in down]
    assert twice[len(down)].at_s == pytest.approx(SECONDS)
    later = [*replay("down", SECONDS, start_s=30)]
    first = next(one for one in down if one.at_s >= 30)
    assert later[0] == Burst(pytest.approx(first.at_s - 30), first.packets, first.payload)
    assert len(later) == len(down) and sent_bytes(later) == sent_bytes(down)


def test_another_speed_changes_the_times_alone() -> None:
    half, whole = [*replay("up", SECONDS, speed=0.5)], [*replay("up", SECONDS / 2)]
    assert [(one.packets, one.payload) for one in half] == [(one.packets, one.payload) for one in whole]
    assert [one.at_s for one in half] == pytest.approx([2 * one.at_s for one in whole])
