# SPDX-License-Identifier: Apache-2.0
"""deltic in simulated time: what its three laws do to a burst, beside the text's arithmetic in floating point."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from sojourn.bottleneck.qdiscs import marks
from tests.lab.simulated import Talk, bottleneck, counts, talk

pytestmark = pytest.mark.lab
BURST = 400


@dataclass
class Law:
    """The control law of "The Tao of DelTiC", of a resonance (Hz)."""

    resonance: float
    accumulator: float = 0
    oscillator: float = 0

    def beats(self, sojourn: float, history: float, interval: float) -> bool:
        target = 1 / self.resonance
        self.accumulator += ((sojourn - target) * interval + sojourn - history) * self.resonance
        if self.accumulator < 0:
            self.accumulator = self.oscillator = 0
        if sojourn < target / 2:
            return False
        self.oscillator += self.accumulator * interval * self.resonance
        if self.oscillator < 1:
            return False
        self.oscillator -= 1
        if self.oscillator >= 1:
            self.accumulator *= 15 / 16
            self.oscillator %= 1
        return True


def signalled(sent_s: list[float], left_s: list[float]) -> tuple[list[int], int, int]:
    """Which packets are dropped, how many are marked CE and SCE, by when each is sent and leaves."""
    drop, ce, sce = Law(8), Law(40), Law(200)
    before = history = jitter = 0.0
    dropped, much, some = [], 0, 0
    for n, (sent, now) in enumerate(zip(sent_s, left_s, strict=True)):
        # The link is idle until a packet comes to an empty queue.
        busy, interval = min(now - max(before, sent), 1), min(now - before, 1)
        jitter = busy * busy + jitter * (1 - busy)
        sojourn = max(0.0, now - sent - jitter)
        beats = [law.beats(sojourn, history, interval) for law in (drop, ce, sce)]
        before, history = now, sojourn
        if beats[0]:
            dropped.append(n)
        elif beats[1]:
            much += 1
        elif beats[2]:
            some += 1
    return dropped, much, some


# Past all targets, with more beats of SCE than packets; and bursts after idle time, which lowers the level.
@pytest.mark.parametrize("burst", [Talk(10**10, BURST * 1200), Talk(300_000_000, 100 * 1200)])
def test_bursts_are_signalled_by_the_text(burst: Talk, tmp_path: Path) -> None:
    packets = talk(bottleneck(10, "deltic sce"), [burst], tmp_path, 2, "ect1", "ce")
    sent = [at / 1e9 for at in range(burst.first_ns, 2 * 10**9, burst.every_ns) for _ in range(burst.size // 1200)]
    delays = packets["delay_us"].to_list()
    # A packet that is dropped is taken out when the next that is not leaves.
    arrived = [at + delay / 1e6 if delay is not None else None for at, delay in zip(sent, delays, strict=True)]
    left = pl.Series(arrived).fill_null(strategy="backward").to_list()
    dropped, much, some = signalled(sent, left)
    assert [n for n, delay in enumerate(delays) if delay is None] == dropped
    assert counts(tmp_path, "receiver") == [some, much]
    queue = json.loads((tmp_path / "tc").read_text())[1]
    assert (marks(queue), queue["sce_mark"], queue["aqm_drop"]) == (much, some, len(dropped))
    assert much + len(dropped) > 3 and some > 50


def test_what_cannot_be_marked_is_dropped(tmp_path: Path) -> None:
    packets = talk(bottleneck(10, "deltic"), [Talk(10**10, 100 * 1200)], tmp_path, 1, "ect1", "ce", tos=0)
    queue = json.loads((tmp_path / "tc").read_text())[1]
    assert packets["delay_us"].null_count() == queue["aqm_drop"] > 0
    assert queue["ecn_mark"] == queue["sce_mark"] == 0 and counts(tmp_path, "receiver") == [0, 0]
