# SPDX-License-Identifier: Apache-2.0
"""The gates of a game: its packets throughout at its rate, and a baseline that is in time."""

from __future__ import annotations

from sojourn.scoring.gates.baseline import punctual
from sojourn.scoring.gates.game import sent_rate


def test_an_end_must_send_at_its_rate() -> None:
    sent = [n / 60 for n in range(600)]
    assert sent_rate("ticks", sent, (0.0, 10.0), 60).ok
    slow = sent_rate("ticks", sent[::2], (0.0, 10.0), 60)
    assert not slow.ok and "30.00 per second" in slow.reason


def test_a_late_game_is_no_baseline() -> None:
    assert punctual("solo-baseline", {"tick_in_50ms": 1.0, "input_in_50ms": 0.995}).ok
    assert not punctual("solo-baseline", {"tick_in_50ms": 1.0, "input_in_50ms": 0.9}).ok
    assert not punctual("solo-baseline", {}).ok
