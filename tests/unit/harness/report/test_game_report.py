# SPDX-License-Identifier: Apache-2.0
"""A game on its report: sentence, rows and the timeline's panel; a home's table, sentences and title."""

from __future__ import annotations

from io import StringIO
from math import inf
from pathlib import Path

from rich.console import Console

from sojourn.harness.report.grids import harm_table, home_table, phase_table
from sojourn.harness.report.headline import headline, home_outcomes, home_title, outcomes
from sojourn.harness.report.run_page import page
from sojourn.harness.report.terminal import print_scores
from sojourn.harness.report.timeline import panels
from sojourn.scoring.schema.scores import Harm, HomeFigure, PhaseScores, Scores
from sojourn.scoring.statistics.harm import PRIMARY
from sojourn.scoring.time_series import run_series

LATE = {"tick_in_16ms": 0.5, "tick_in_50ms": 0.75, "tick_in_100ms": 0.9, "tick_loss": 0.02, "tick_p99_ms": inf}


def of_game(scores: Scores) -> Scores:
    """Return a game whose ticks are late in every phase with a contender."""
    alone = dict.fromkeys(("tick_in_16ms", "tick_in_50ms", "tick_in_100ms"), 1.0)
    metric = PRIMARY["game"]
    contended = [phase for phase in scores.phases if phase.contender]
    assert scores.baseline
    return scores.model_copy(
        update={
            "primary": metric,
            "phases": [it.model_copy(update=LATE if it.contender else alone) for it in scores.phases],
            "baseline": scores.baseline.model_copy(update=alone),
            "harm": [
                Harm(phase=it.name, contender=it.name, metric=metric, better="more", solo=1, value=0.75, harm=0.25)
                for it in contended
            ],
            "series": scores.series.model_copy(
                update={"tick_late_ms": [20.0] * len(scores.series.t), "tick_latest_ms": [60.0] * len(scores.series.t)}
            ),
        }
    )


def test_the_sentence_is_about_late_ticks(scores: Scores) -> None:
    name = next(phase.name for phase in scores.phases if phase.contender)
    told = headline(of_game(scores), "game")
    late = "25 % of ticks later than 50 ms (0 % alone); 50 % later than 16 ms, 10 % later than 100 ms; 2 % lost"
    assert f"Game with {name}: {late}." in told and "frames" not in told and "stalls" not in told
    assert {it.severity for it in outcomes(of_game(scores))} == {"severe"}


def test_the_phases_have_the_late_shares(scores: Scores) -> None:
    (row,) = (row for row in phase_table(of_game(scores)).rows if row.cells[0] == "ticks later than 16 ms")
    assert set(row.cells[1:]) == {"0.00%", "50.00%"} and row.group == "Game"
    (p99,) = (row for row in phase_table(of_game(scores)).rows if row.cells[0] == "delay of ticks (down) P99 ms")
    assert "∞ (2 % lost)" in p99.cells


def test_the_timeline_has_the_lateness_in_place_of_the_picture(scores: Scores, tmp_path: Path) -> None:
    panel = panels(run_series(of_game(scores), tmp_path))[1]
    assert panel.title.startswith("lateness") and panel.top > 60
    assert {value for line in panel.lines for _, value in line.points} == {20.0, 60.0}


def figure(member: str, metric: str, alone: float, update: float | None, all_of_them: float, harm: float) -> HomeFigure:
    return HomeFigure(
        member=member, metric=metric, better="more", update="cubic*8", alone_phase="game", alone=alone,
        update_phase=None if update is None else "prague", with_update=update,
        update_harm=None if update is None else harm, all_phase="prague", with_all=all_of_them, all_harm=harm,
    )  # fmt: skip


def home(scores: Scores) -> Scores:
    figures = [
        figure("victim", "played_height", 720, 720, 720, 0),
        figure("game", "game_in_50ms", 1, 0.99, 0.99, 0.01),
        figure("game", "game_in_16ms", 1, None, 0.5, 0.5),
    ]
    late = {"game_in_16ms": 0.5, "game_in_50ms": 0.99, "played_height": 720}
    phases: list[PhaseScores] = [it.model_copy(update=late) for it in scores.phases]
    return scores.model_copy(update={"home": figures, "phases": phases})


def test_a_home_has_a_row_per_figure_and_a_sentence_per_member(scores: Scores) -> None:
    rows = home_table(home(scores)).rows
    assert [row.cells[0] for row in rows] == ["victim", "game", "game"]
    assert rows[2].cells[2:] == ["1", "–", "–", "0.50", "0.50"] and rows[2].hurt == {5, 6} and not rows[1].hurt
    assert not home_table(scores).rows and not home_outcomes(scores)
    (_, unharmed, _), (name, badge, words) = home_outcomes(home(scores))
    assert (unharmed.word, name, badge.word) == ("none", "game", "severe")
    assert "16 ms late: 100 % alone, 50 % with all" in words  # its most harmed figure
    assert home_title(home(scores)) == "severe harm to game"


def test_page_and_terminal_begin_with_the_home(scores: Scores, tmp_path: Path) -> None:
    text, out = page(tmp_path, home(scores)), StringIO()
    assert "<h2>Home</h2>" in text and text.index('id="home"') < text.index('id="timeline"')
    assert "<h2>Home</h2>" not in page(tmp_path, scores)
    print_scores(home(scores), tmp_path, Console(file=out, width=200))
    assert "harm: severe to game" in out.getvalue() and "with the update" in out.getvalue()


def test_a_metric_that_the_first_phase_does_not_have_keeps_its_columns(scores: Scores) -> None:
    first = next(harm.phase for harm in scores.harm)
    others = [it for it in scores.harm if (it.phase, it.metric) != (first, "victim_mbps")]
    grid = harm_table(scores.model_copy(update={"harm": others}))
    assert {len(row.cells) for row in grid.rows} == {len(grid.heads)}
