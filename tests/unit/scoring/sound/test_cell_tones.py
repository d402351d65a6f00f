# SPDX-License-Identifier: Apache-2.0
"""The table of the sound of a cell's call, and its figures."""

from __future__ import annotations

from math import inf

import polars as pl
import pytest

from sojourn.harness.matrix.cells.real_call import neteq, tones
from sojourn.scoring.schema.columns import NETEQ, TONES
from sojourn.scoring.sound.cell_tones import neteq_scores, tone_scores
from sojourn.scoring.sound.ear import Sound
from sojourn.scoring.sound.summary import sound_fields

T0 = 1.79e9


def sound(delays: list[float | None], gaps: set[int]) -> Sound:
    """Tones from 1 s before the cell on, and an ear with gaps in these ms from then on, which hears 2 s more."""
    spoken = pl.DataFrame({"t": [T0 - 1 + n / 50 for n in range(len(delays))], "delay_ms": delays})
    at = range(20 * len(delays) + 2000)
    ear = pl.DataFrame({"t": [T0 - 1 + n / 1e3 + 1e-4 for n in at], "gap": [n in gaps for n in at]})
    return Sound(spoken.cast({"delay_ms": pl.Float64}), ear.with_columns(repeated=False))


DOWN = sound([50.0] * 75 + [None] * 25, {*range(1100, 1150)})
UP = sound([500.0] * 100, set())


def test_every_tone_of_the_cell_has_its_delay_and_the_gaps_at_the_ear() -> None:
    table = tones([DOWN, UP], T0, 0.89)
    assert dict(table.schema) == dict(TONES) and table.height == 2 * 45
    down, up = (table.filter(pl.col("talk") == n) for n in range(2))
    assert down["t_s"].to_list() == pytest.approx([n / 50 for n in range(45)], abs=1e-6)
    assert down["delay_ms"].null_count() == 45 - 25 and set(up["delay_ms"]) == {500.0}
    # 50 ms of gaps from 0.1 s on, at a delay of 50 ms: in place of what was spoken from 0.05 s on.
    assert down["gap_ms"].to_list()[1:6] == [0, 10, 20, 20, 0] and not any(up["gap_ms"])
    assert set(down["ear_ms"]) == set(up["ear_ms"]) == {20.0}
    assert tones([None, UP], T0, 0.89).equals(table.filter(pl.col("talk") == 1))
    assert tones([None, None], T0, 0.89).is_empty()


def test_what_is_heard_while_the_speaker_pauses_is_what_was_spoken_before() -> None:
    """Both ends speak for 1 s and pause for 0.6 s; the 50 ms around a pause are no tones."""
    late_ms, loop_ms, spoken_ms, count = 300, 1600, 1000, 5
    gaps = {ms for n in range(count) for ms in range(n * loop_ms + 1100, n * loop_ms + 1200)}
    slots = [n for n in range(count * loop_ms // 20) if 50 <= n * 20 % loop_ms < spoken_ms - 50]
    spoken = pl.DataFrame({"t": [T0 + n / 50 for n in slots], "delay_ms": [float(late_ms)] * len(slots)})
    heard_ms = range(late_ms, count * loop_ms + late_ms)
    pause = pl.Series([(ms - late_ms) % loop_ms >= spoken_ms for ms in heard_ms])
    ear = pl.DataFrame({"t": [T0 + ms / 1e3 + 1e-4 for ms in heard_ms], "gap": [ms in gaps for ms in heard_ms]})
    ear = ear.with_columns(gap=pl.when(~pause).then("gap"), repeated=pl.when(~pause).then(pl.lit(False)))
    whole = sound_fields(Sound(spoken, ear), None, [(T0, T0 + 10)])
    assert whole["ear_gap_share"] == pytest.approx(0.1)
    (down, _) = tone_scores(tones([Sound(spoken, ear), None], T0, 10), (0.0, 10.0))
    assert down["ear_gap_share"] == pytest.approx(whole["ear_gap_share"], abs=0.003)
    assert down["ear_p50_ms"] == whole["ear_p50_ms"] == late_ms


def test_the_figures_are_those_of_the_window() -> None:
    table = tones([DOWN, UP], T0, 1.0)
    down, up = tone_scores(table, (0.0, 1.0))
    assert down["ear_loss"] == pytest.approx(0.5, abs=0.02) and down["ear_p95_ms"] == inf
    assert down["ear_gap_share"] == pytest.approx(0.05, abs=0.002) and up["ear_gap_share"] == 0
    assert (up["ear_p50_ms"], up["ear_in_time"], up["ear_loss"]) == (500, 0, 0)
    first, _ = tone_scores(table, (0.0, 0.3))
    assert first["ear_loss"] == 0 and first["r_factor"] == pytest.approx(93.2, abs=0.05)
    assert first["r_factor_wb"] == pytest.approx(128.85, abs=0.01)
    assert tone_scores(table.clear(), (0.0, 1.0)) == [{}, {}]


def test_neteqs_counters_are_those_of_the_end_that_hears() -> None:
    def second(t: int, concealed: int) -> dict[str, object]:
        played = {"totalSamplesReceived": 48_000 * t, "concealedSamples": concealed * t}
        emitted = {"jitterBufferEmittedCount": 48_000 * t, "jitterBufferDelay": 0.02 * 48_000 * t}
        return {"t": T0 + t, "event": "call", "detail": {"sound": played | emitted}}

    ends = {"server": [second(t, 4800) for t in range(12)], "client": [second(t, 0) for t in range(12)]}
    table = neteq(ends, T0, 10)
    assert dict(table.schema) == dict(NETEQ) and table.height == 2 * 11
    down, up = neteq_scores(table, (1.0, 9.0))
    assert down == {"neteq_buffer_ms": 20, "neteq_concealed_share": 0}
    assert up == {"neteq_buffer_ms": 20, "neteq_concealed_share": 0.1}
    assert neteq({"server": [], "client": []}, T0, 10).is_empty()
    assert neteq_scores(table.clear(), (1.0, 9.0)) == [{}, {}]
