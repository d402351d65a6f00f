# SPDX-License-Identifier: Apache-2.0
"""The lateness of a game's packets, by hand-computed values."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from sojourn.scoring.evidence import Setting
from sojourn.scoring.game import competing_fields, game_fields, game_of

S, MS = 10**9, 10**6
#: One-way delays of eight ticks, ms, one per 10 ms from 100 s on; None: lost. The path's own delay is 10 ms.
DELAYS = [10, 10, 26, 27, 60, None, 110, 111]


def session(delays: list[int | None], from_s: int = 100) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the lines of a client, which sends nothing, and of a server."""
    sent = [{"sent": n, "t_ns": from_s * S + 10 * n * MS, "bytes": 150} for n in range(len(delays))]
    arrived = [
        {"received": n, "t_ns": line["t_ns"] + delay * MS, "sent_ns": line["t_ns"]}
        for n, (line, delay) in enumerate(zip(sent, delays, strict=True))
        if delay is not None
    ]
    return arrived, sent


def test_lateness_is_the_delay_above_the_least_of_the_run_and_lost_ticks_are_late() -> None:
    fields = game_fields(game_of([session(DELAYS)]), [(100.0, 101.0)])
    # Late by 0, 0, 16, 17, 50, lost, 100 and 101 ms.
    assert (fields["tick_in_16ms"], fields["tick_in_50ms"], fields["tick_in_100ms"]) == (3 / 8, 5 / 8, 6 / 8)
    assert fields["tick_loss"] == 1 / 8
    assert (fields["tick_p50_ms"], fields["tick_p99_ms"]) == (pytest.approx(27), inf)
    # Of consecutive packets that both arrived: 0, 16, 1, 33 and, after the lost one, 1 ms.
    assert fields["tick_jitter_ms"] == pytest.approx((0 + 16 + 1 + 33 + 1) / 5)
    assert not any(name.startswith("input") for name in fields)  # none was sent


def test_the_path_s_delay_is_that_of_all_sessions_and_a_window_has_its_own_packets() -> None:
    game = game_of([session([10, 10]), session([70, 10**4], from_s=200)])
    assert game_fields(game, [(200.0, 201.0)])["tick_in_100ms"] == 0.5
    assert game_fields(game, [(100.0, 101.0)])["tick_in_16ms"] == 1
    assert game_fields(game, [(300.0, 301.0)]) == {}
    assert game.ticks["step_ms"].to_list() == [None, 0.0, None, pytest.approx(9930.0)]  # not across sessions


def test_a_constant_difference_of_the_clocks_does_not_matter() -> None:
    client, server = session(DELAYS)
    ahead = [{**line, "t_ns": line["t_ns"] - 500 * MS} for line in client]
    shifted, true = (game_fields(game_of([(it, server)]), [(100.0, 101.0)]) for it in (ahead, client))
    assert [shifted[it] for it in ("tick_in_16ms", "tick_in_50ms")] == [true["tick_in_16ms"], true["tick_in_50ms"]]


def test_the_ticks_of_a_server_whose_clock_is_ahead_are_those_of_their_window() -> None:
    client, server = session(DELAYS)
    ahead = [{**line, "t_ns": line["t_ns"] + 300 * S} for line in server]
    lab = {"clock_offset_s": {"server": 300.0}, "clock_error_s": {"server": 0.001}}
    found, window = Setting((), lab).server_ahead_s, (100.0, 101.0)
    corrected, true = game_of([(client, ahead)], found), game_of([(client, server)])
    assert game_fields(corrected, [window]) == game_fields(true, [window])
    bulk = [{"contender": "game", "phase": "game", "packets": {"client": client, "server": ahead}}]
    assert competing_fields(bulk, "game", window) != competing_fields(bulk, "game", window, found) != {}
    for same in (lab | {"clock_error_s": {"server": 300.0}}, lab | {"real_time": False}, {}):
        assert Setting((), same).server_ahead_s == 0


def test_a_duplicate_counts_once() -> None:
    client, server = session([10, 10])
    late = {**client[1], "t_ns": client[1]["t_ns"] + 80 * MS}
    assert game_fields(game_of([([*client, late], server)]), [(100.0, 101.0)])["tick_in_16ms"] == 1


def test_a_competing_game_is_late_by_the_least_delay_of_all_its_phases() -> None:
    bulk = [
        {
            "contender": "game",
            "phase": phase,
            "packets": dict(zip(("client", "server"), session(delays, at), strict=True)),
        }
        for phase, delays, at in (("game", [10] * 4, 100), ("cubic+game", [40, 70, 200, None], 200))
    ]
    fields = competing_fields([*bulk, {"contender": "cubic", "phase": "cubic"}], "cubic+game", (200.0, 201.0))
    assert (fields["game_in_16ms"], fields["game_in_50ms"], fields["game_in_100ms"]) == (0, 0.25, 0.5)
    assert (fields["game_down_loss"], fields["game_down_p99_ms"]) == (0.25, inf)
    assert competing_fields(bulk, "cubic", (300.0, 301.0)) == {}
