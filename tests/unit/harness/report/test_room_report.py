# SPDX-License-Identifier: Apache-2.0
"""A room on its report: a row and a band of the timeline for each party, and how layers followed the rate."""

from __future__ import annotations

from io import StringIO
from math import inf
from pathlib import Path

from rich.console import Console

from sojourn.harness.report.grids import far_table, layer_steps_table, phase_table, room_sound_table, room_table
from sojourn.harness.report.headline import headline
from sojourn.harness.report.run_page import page
from sojourn.harness.report.terminal import print_scores
from sojourn.harness.report.timeline import column_figure, panels
from sojourn.scoring.schema.scores import Harm, LayerStep, PartyScores, RenditionChange, Scores
from sojourn.scoring.time_series import run_series


def with_parties(scores: Scores) -> Scores:
    """Return a room of two: the client's picture keeps 720 lines, the other falls to 180 for 10 s."""
    steps = [
        LayerStep(t=5, direction="down", mbps=1.5, seconds=10, first_drop_s=2, lowest_height=180, lowest_fps=7),
        LayerStep(
            t=15,
            direction="down",
            mbps=8,
            seconds=5,
            first_drop_s=None,
            lowest_height=180,
            before_height=720,
            before_fps=30.4,
            recovery_s=3.5,
        ),
        LayerStep(
            t=20,
            direction="down",
            mbps=9,
            seconds=12,
            first_drop_s=None,
            lowest_height=180,
            before_height=720,
            recovery_s=inf,
        ),
    ]
    changes = [
        RenditionChange(t=t, before=a, after=b, drop=a > b, phase=None) for t, a, b in ((7, 720, 180), (17, 180, 720))
    ]
    phases = [phase.model_copy(update={"dominant_height": 720}) for phase in scores.phases]
    parts = [
        PartyScores(party=1, first_picture_s=0.4, phases=phases, renditions=[], freezes=[], steps=[]),
        PartyScores(party=2, first_picture_s=0.25, phases=phases, renditions=changes, freezes=[], steps=steps),
    ]
    return scores.model_copy(update={"parties": parts})


def test_every_party_has_a_row_per_phase_with_its_first_picture(scores: Scores) -> None:
    grid = room_table(with_parties(scores))
    assert len(grid.rows) == 2 * len(scores.phases)
    assert grid.rows[0].cells[:3] == ["1 (client, seen at party 2)", "0.40", scores.phases[0].name]
    assert [row.cells[0] for row in grid.rows[len(scores.phases) :]] == ["2", *[""] * (len(scores.phases) - 1)]
    assert room_table(scores).rows == layer_steps_table(scores).rows == []


def test_a_height_of_several_pictures_is_their_mean_and_no_rung(scores: Scores) -> None:
    two = with_parties(scores)
    four = two.model_copy(update={"parties": [*two.parties, *two.parties[1:] * 2], "far": two.phases})
    shown = {row.cells[0]: row.cells[1:] for row in phase_table(four).rows}
    assert shown["mostly, mean of 3 pictures"] == ["720 lines", "240 lines", "720 lines"]
    assert "lowest, mean of 3 pictures" in shown and "mostly" not in shown
    assert "resolution falls from 720 to 240 lines (mean of 3 pictures)" in headline(four, "room")
    # A single picture has a rung: that of a room of two, and the client's at the other end.
    for single in (phase_table(two), far_table(four)):
        assert {row.cells[0]: row.cells[1:] for row in single.rows}["mostly"] == ["720p", "240p", "720p"]
    assert "resolution falls from 720p to 240p" in headline(two, "room")


def test_steps_are_in_order_with_their_times(scores: Scores) -> None:
    fall, climb, stays = layer_steps_table(with_parties(scores)).rows
    assert fall.cells == ["5.0 s: down 1.5 Mbit/s", "2", "2", "180p", "7", "–", "–"]
    assert climb.cells == ["15.0 s: down 8 Mbit/s", "2", "–", "180p", "–", "720p, 30/s", "3.50"]
    assert stays.cells == ["20.0 s: down 9 Mbit/s", "2", "–", "180p", "–", "720p", "> 2.0"]


def test_the_harm_to_each_party_is_in_its_row_and_marked(scores: Scores) -> None:
    shown = with_parties(scores)
    phase = next(phase for phase in scores.phases if phase.contender)
    harm = Harm(
        phase=phase.name, contender=phase.contender or "", metric="frames_in_time", better="more", solo=1, value=0.7,
        harm=0.3,
    )  # fmt: skip
    hurt = shown.parties[1].model_copy(update={"harm": [harm]})
    grid = room_table(shown.model_copy(update={"parties": [shown.parties[0], hurt], "primary": "frames_in_time"}))
    assert grid.heads[-1] == "harm" and "harm" not in room_table(shown).heads
    (marked,) = (row for row in grid.rows if row.hurt)
    assert marked.cells[-1] == "0.30" and marked.hurt == {len(marked.cells) - 1}
    assert [row.cells[-1] for row in grid.rows].count("–") == len(grid.rows) - 1


def test_the_sound_of_a_party_that_speaks_has_a_row_per_phase(scores: Scores) -> None:
    shown = with_parties(scores)
    assert not room_sound_table(shown).rows
    first, *others = shown.parties[1].phases
    spoken = first.model_copy(update={"ear_p50_ms": 52.5, "ear_gap_share": 0.01, "r_factor": 91.0})
    speaks = [(first.start - 3, (first.start + first.end) / 2)]
    heard = shown.parties[1].model_copy(update={"phases": [spoken, *others], "speaks": speaks})
    (row,) = room_sound_table(shown.model_copy(update={"parties": [shown.parties[0], heard]})).rows
    assert row.cells[:3] == ["2", first.name, "52.50"] and row.cells[-2:] == ["91", "50.00%"]


def test_the_timeline_has_a_band_for_each_party(scores: Scores, tmp_path: Path) -> None:
    panel = panels(run_series(with_parties(scores), tmp_path))[1]
    assert panel.title == "picture of each party" and panel.labels is not None
    assert sorted(text for _, text in panel.labels) == ["1: 180p", "1: 720p", "2: 180p", "2: 720p"]
    still, falling = ([value for _, value in line.points] for line in panel.lines)
    assert len({*still}) == 1 and min(still) > max(value for value in falling if value is not None)
    names = dict(panel.labels)
    assert [names[value] for value in falling[::2] if value is not None] == ["2: 720p", "2: 180p", "2: 720p"]
    assert panels(run_series(scores, tmp_path))[1].title == "quality shown"


def test_the_line_of_a_party_is_dashed_where_its_picture_is_thinned(scores: Scores, tmp_path: Path) -> None:
    shown = with_parties(scores)
    shown.parties[1].thinned = [(5, 10), (20, 22)]
    view = run_series(shown, tmp_path)
    panel = panels(view)[1]
    assert [line.kind for line in panel.lines] == ["who-quality", "who-quality", "who-quality thinned"]
    _, whole, thinned = ({t for t, value in line.points if value is not None} for line in panel.lines)
    assert thinned == {5, 7, 10, 20, 22} and whole == {0, 5, 10, 17, 20, 22, view.end}
    assert ("who-quality thinned", "frame rate below 3/4 of the baseline") in panel.key
    short = column_figure(shown, tmp_path, (240, 180))
    assert ">thinned<" in short and "baseline" not in short


def test_page_and_terminal_show_it(scores: Scores, tmp_path: Path) -> None:
    shown, out = with_parties(scores), StringIO()
    text = page(tmp_path, shown)
    assert "<h2>Room</h2>" in text and "1.5 Mbit/s" in text and "<h2>Room</h2>" not in page(tmp_path, scores)
    print_scores(shown, tmp_path, Console(file=out, width=200))
    assert "first picture" in out.getvalue() and "recovery" in out.getvalue()
