# SPDX-License-Identifier: Apache-2.0
"""The members of a home, in the phases in which each is alone, with the update, and with all others."""

from __future__ import annotations

from math import inf
from typing import Any

from sojourn.scoring.home import home_figures
from sojourn.scoring.schema.scores import HomeFigure, Metrics, PhaseScores

BASELINE = Metrics(seconds=20, played_height=720)


def phase(contender: str | None, **figures: Any) -> PhaseScores:
    return PhaseScores(name=contender or "solo", contender=contender, start=0, end=10, seconds=10, **figures)


EVENING = [
    phase(None, played_height=700),
    phase("game", game_in_16ms=1.0, game_in_50ms=1.0),
    phase("call", call_down_p99_ms=20, call_up_p99_ms=20),
    phase("call+game", played_height=720, game_in_16ms=0.9, game_in_50ms=1.0, call_down_p99_ms=25, call_up_p99_ms=20),
    phase("cubic*8", played_height=480),
    phase("game+cubic*8", game_in_16ms=0.5, game_in_50ms=0.8),
    phase("call+game+cubic*8", played_height=360, game_in_16ms=0.25, game_in_50ms=0.6, call_down_p99_ms=inf,
          call_up_p99_ms=20),
]  # fmt: skip


def by_metric(rows: list[PhaseScores]) -> dict[str, HomeFigure]:
    return {it.metric: it for it in home_figures(rows, BASELINE, "played_height")}


def test_every_member_has_its_harm_by_the_update_alone_and_with_all_others() -> None:
    found = by_metric(EVENING)
    film = found["played_height"]
    assert (film.member, film.alone, film.with_update, film.with_all) == ("victim", 720, 480, 360)
    assert (film.update, film.update_harm, film.all_harm) == ("cubic*8", 0.3333, 0.5)
    game = found["game_in_16ms"]
    assert (game.alone_phase, game.alone, game.with_update, game.with_all) == ("game", 1.0, 0.5, 0.25)
    assert (game.update_harm, game.all_harm) == (0.5, 0.75)


def test_a_figure_without_its_phase_is_unknown_and_what_never_came_is_the_worst() -> None:
    call = by_metric(EVENING)["call_down_p99_ms"]
    assert (call.alone, call.with_update, call.update_harm) == (20, None, None)  # never alone with the update
    assert (call.with_all, call.all_harm) == (inf, 1.0)


def test_without_a_phase_of_its_own_a_member_is_alone_with_the_fewest_others() -> None:
    found = by_metric([it for it in EVENING if it.name != "game"])
    assert (found["game_in_16ms"].alone_phase, found["game_in_16ms"].alone) == ("call+game", 0.9)


def test_every_update_has_its_own_figures() -> None:
    rows = [*EVENING, phase("call+game+cubic+prague@up*2", played_height=720, game_in_16ms=1.0, game_in_50ms=1.0)]
    updates = [it.update for it in home_figures(rows, BASELINE, "played_height") if it.metric == "game_in_16ms"]
    assert updates == ["cubic*8", "cubic+prague@up*2"]


def test_one_application_is_no_home() -> None:
    assert home_figures([it for it in EVENING if "call" not in it.name], BASELINE, "played_height") == []
    assert home_figures(EVENING[:4], BASELINE, "played_height") == []  # no update
