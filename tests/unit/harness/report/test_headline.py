# SPDX-License-Identifier: Apache-2.0
"""The one sentence of runs, its badges, and what stands for an infinite figure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sojourn.harness.report import film, timeline
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.grids import harm_table
from sojourn.harness.report.headline import (
    Harmed,
    VictimOutcome,
    average_headline,
    average_outcomes,
    effects,
    headline,
    measurement,
    outcomes,
    phrase,
    sentence,
    title,
)
from sojourn.harness.report.number_text import percent, two_decimals, value_text
from sojourn.harness.report.repetitions import write_summary
from sojourn.harness.report.run_page import write_report
from sojourn.harness.report.terminal import print_scores
from sojourn.harness.store.manifest import reseal
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.statistics.harm import PRIMARY, SEVERE, SOME, harm, severity
from sojourn.scoring.statistics.relevance import DEFAULT, parse
from sojourn.scoring.statistics.summary import summarise
from sojourn.scoring.time_series import run_series
from tests.unit.harness.report.test_run_page import Page

CALL = {"primary": "frames_in_time", "alone": 0.99, "fps_alone": 31.0, "stalls": 0, "stall_s": 0.0, "freezes": 0}
CALL |= {"best": 720, "lowest": 720, "never_shown": 0.0, "fps": 31.0}
VIDEO = {"primary": "played_height", "alone": 720.0, "fps_alone": 30.0, "stalls": 0, "stall_s": 0.0, "freezes": 0}
VIDEO |= {"best": 720, "lowest": 720, "fps": 30.0}

#: Service, what the viewer had, the sentence and the word of its badge.
TOLD: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("call", CALL | {"value": 0.98, "harm": 0.01},
     "Call with prague: 98 % of frames within 0.4 s, 99 % alone; 31 frames/s; no freezes; resolution kept.", "none"),
    ("call", CALL | {"value": 0.91, "harm": 0.08, "freezes": 1, "fps": 28.6},
     "Call with prague: 91 % of frames within 0.4 s, 99 % alone; 29 frames/s; 1 freeze, no stalls; resolution kept.",
     "some"),
    ("room", CALL | {"value": 0.91, "harm": 0.08},
     "Room with prague: 91 % of frames within 0.4 s, 99 % alone; 31 frames/s; no freezes; resolution kept.", "some"),
    ("room", CALL | {"value": 0.71, "harm": 0.28, "lowest": 540, "pictures": 3},
     "Room with prague: 71 % of frames within 0.4 s, 99 % alone; 31 frames/s; no freezes; resolution falls from 720 to "
     "540 lines (mean of 3 pictures).", "severe"),
    ("room", CALL | {"value": 0.71, "harm": 0.28, "before": 600, "lowest": 540, "pictures": 3},
     "Room with prague: 71 % of frames within 0.4 s, 99 % alone; 31 frames/s; no freezes; resolution already at 600 of "
     "720 lines (mean of 3 pictures), falls to 540 lines.", "severe"),
    # The call of a picture that is sharp and late: the resolution is the last that is said of it.
    ("skype", CALL | {"value": 0.79, "harm": 0.21, "freezes": 4, "fps": 24.2},
     "Call with prague: 79 % of frames within 0.4 s, 99 % alone; 24 frames/s; 4 freezes, no stalls; resolution kept.",
     "severe"),
    ("call", CALL | {"value": 0.12, "harm": 0.88, "never_shown": 0.31, "freezes": 9, "stalls": 3, "stall_s": 4.25,
                     "fps": 9.0, "lowest": 180},
     "Call with prague: 12 % of frames within 0.4 s, 99 % alone; 31 % never shown; 9 frames/s; 9 freezes, of which "
     "3 stalls (4.2 s); resolution falls from 720p to 180p.", "severe"),
    ("jitsi", CALL | {"value": None, "harm": None, "never_shown": None, "stalls": None, "freezes": None},
     "Call with prague: delay of frames not measured; 31 frames/s; resolution kept.", None),
    ("youtube", VIDEO | {"value": 720.0, "harm": 0.0},
     "Video with prague: effective resolution 720 lines, 720 alone; no stalls; resolution kept.", "none"),
    ("youtube", VIDEO | {"value": 640.0, "harm": 0.11, "lowest": 480},
     "Video with prague: effective resolution 640 lines, 720 alone; no stalls; resolution falls from 720p to 480p.",
     "some"),
    ("youtube", VIDEO | {"value": 156.0, "harm": 0.78, "stalls": 2, "stall_s": 3.5, "freezes": 2, "lowest": 240,
                         "fps": 21.5},
     "Video with prague: effective resolution 156 lines, 720 alone; 22 frames/s; 2 stalls (3.5 s); resolution falls "
     "from 720p to 240p.", "severe"),
    ("o2tv", VIDEO | {"value": 719.0, "harm": 0.001, "freezes": 1},
     "TV channel with prague: effective resolution 719 lines, 720 alone; 1 freeze, no stalls; resolution kept.",
     "none"),
    ("iptv", VIDEO | {"value": 670.0, "harm": 0.07, "stalls": 1, "stall_s": 0.75, "freezes": 1},
     "TV channel with prague: effective resolution 670 lines, 720 alone; 1 stall (0.8 s); resolution kept.", "some"),
    ("sledovanitv", VIDEO | {"value": 180.0, "alone": 480.0, "harm": 0.625, "stalls": 5, "stall_s": 9.0, "freezes": 7,
                             "best": 480, "before": 360, "lowest": 240},
     "TV channel with prague: effective resolution 180 lines, 480 alone; 7 freezes, of which 5 stalls (9.0 s); "
     "resolution already at 360p of 480p, falls to 240p.", "severe"),
    ("somebody's", VIDEO | {"value": None, "alone": None, "harm": None, "best": None, "stalls": None, "freezes": None},
     "Video with prague: effective resolution not measured.", None),
]  # fmt: skip


@pytest.mark.parametrize(("service", "had", "told", "word"), TOLD)
def test_the_sentence_begins_with_the_primary_metric(
    service: str, had: dict[str, Any], told: str, word: str | None
) -> None:
    outcome = VictimOutcome(name="prague", **had)
    assert (sentence(outcome, service), outcome.severity) == (told, word)


def test_the_cut_offs_are_of_what_is_shown() -> None:
    assert [severity(value) for value in (-0.9, 0, SOME - 0.01, SOME, SEVERE - 0.01, SEVERE, 1)] == [
        "none", "none", "none", "some", "some", "severe", "severe"
    ]  # fmt: skip
    assert severity(SEVERE - 0.001) == "severe", "it is shown as 0.20"


def test_the_worst_contender_is_in_the_title() -> None:
    mild = VictimOutcome(name="cubic", **VIDEO, harm=0.1)
    bad = VictimOutcome(name="prague", **VIDEO, harm=0.3)
    good, unknown = VictimOutcome(name="bbr", **VIDEO, harm=-0.2), VictimOutcome(name="reno", **VIDEO)
    assert title([mild, bad, good]) == "severe harm with prague"
    assert title([mild, good]) == "some harm with cubic" and title([good]) == "no visible harm"
    assert title([good, unknown]) == "harm unknown" and title([]) == "no contender"


def test_no_visible_harm_names_every_kind_of_row_that_is_coloured(scores: Scores) -> None:
    """The delays alone and with Prague, ms, and what then is coloured and said."""
    for solo, value, says in ((20, 24, ""), (1, 5.9, ""), (20, 26, "delay P99 rises by 6.0 ms"),
                              (20, inf, "delay P99 rises")):  # fmt: skip
        spared = [it.model_copy(update={"value": it.solo, "harm": 0.0}) for it in scores.harm]
        late = spared[0].model_copy(update={"metric": "rtt_answered_p99_ms", "better": "less", "solo": solo})
        late = late.model_copy(update={"value": value, "harm": harm(solo, value, "less")})
        one = scores.model_copy(update={"harm": [*spared, late]})
        assert late.harm >= SOME
        marked = [row.cells[0] for row in harm_table(one).rows if row.hurt or row.some]
        assert bool(marked) == bool(says) == ("more delay with prague" in title(outcomes(one)))
        (outcome,) = outcomes(one)
        assert phrase(outcome).startswith(f"picture unharmed, but {says}; " if says else "effective resolution")


def test_effects_are_named_by_the_worse_probe_and_none_makes_a_harmed_picture_unharmed() -> None:
    found = effects(
        {
            "rtt_answered_p99_ms": Harmed(20, 30, 0.33), "ect1_rtt_answered_p99_ms": Harmed(20, 60, 0.67),
            "victim_mbps": Harmed(2.0, 1.5, 0.25), "answered_share": Harmed(None, 0.9, 0.1),
        },
        DEFAULT,
    )  # fmt: skip
    assert [it.words for it in found] == [
        "delay P99 rises by 40 ms", "goodput falls by 25 %", "10 % of probes are lost"
    ]  # fmt: skip
    kept = VictimOutcome(name="bbr", **VIDEO, value=720.0, harm=0.0, effects=found)
    assert phrase(kept).startswith(
        "picture unharmed, but delay P99 rises by 40 ms, goodput falls by 25 % and 10 % of probes are lost; effective"
    )
    assert title([kept]) == "no visible harm, but more delay, less goodput and more loss with bbr"
    late = replace(kept, name="cubic", effects=found[:1])
    assert title([kept, late]) == (
        "no visible harm, but more delay with bbr and cubic; less goodput and more loss with bbr"
    )
    slow = effects({"fps": Harmed(30, 24, 0.2), "victim_mbps": Harmed(2.0, 1.5, 0.25)}, DEFAULT)
    seen = VictimOutcome(name="bbr", **VIDEO, value=720.0, harm=0.0, effects=slow)
    assert "unharmed" not in phrase(seen)
    assert title([seen]) == "primary metric unharmed, but less goodput and a worse picture with bbr"
    harmed = VictimOutcome(name="bbr", **VIDEO, value=700.0, harm=0.3, effects=found)
    assert "unharmed" not in phrase(harmed) and title([harmed]) == "severe harm with bbr"
    assert effects({"rtt_answered_p99_ms": Harmed(20, 30, 0.33)}, parse("delay=11ms")) == ()


@pytest.mark.parametrize(("before", "goes"), [(240, "falls no further"), (480, "falls to 240p"), (720, None)])
def test_a_contender_is_not_blamed_for_what_the_one_before_left(scores: Scores, before: int, goes: str | None) -> None:
    earlier = scores.renditions[0].model_copy(update={"t": scores.phases[1].start - 1, "before": 720, "after": before})
    (outcome,) = outcomes(scores.model_copy(update={"renditions": [earlier]}))
    left = f"resolution already at {before}p of 720p, {goes}" if goes else "resolution falls from 720p to 240p"
    assert phrase(outcome).endswith(left)


def test_no_figure_is_no_claim(scores: Scores) -> None:
    """Scores before 2.0 have no primary metric: nothing is made up, and no contender is no harm."""
    old = scores.model_copy(update={"primary": None})
    for row in (*old.phases, old.baseline):
        assert row
        row.played_height = None
    (outcome,) = outcomes(old)
    assert outcome.severity is None and "not measured" in headline(old)
    alone = scores.model_copy(update={"phases": [scores.phases[0]]})
    assert headline(alone) == "No contender competed."


def test_validity_is_not_told_as_harm() -> None:
    assert [measurement(status).text for status in ("valid", "invalid", "interrupted")] == [
        "measurement: valid", "measurement: invalid", "measurement: interrupted"
    ]  # fmt: skip


def call_of(scores: Scores) -> Scores:
    """The run as a call of which a fifth of the frames is late or never shown, sharp and without a stall."""
    had = {"lowest_height": 720, "dominant_height": 720, "stalls": 0, "stall_s": 0.0, "freezes": 4, "fps": 24.2}
    had |= {"frames_in_time": 0.79, "frame_loss": 0.0, "frame_p99_ms": 812.0}
    baseline = scores.baseline.model_copy(update={"frames_in_time": 0.99}) if scores.baseline else None
    phases = [phase.model_copy(update=had) if phase.contender else phase for phase in scores.phases]
    lost = scores.harm[0].model_copy(update={"metric": "frames_in_time", "solo": 0.99, "value": 0.79})
    lost = lost.model_copy(update={"harm": harm(0.99, 0.79, "more")})
    told = {"primary": PRIMARY["call"], "phases": phases, "baseline": baseline, "harm": [lost], "renditions": []}
    return scores.model_copy(update=told)


SAYS = "79 % of frames within 0.4 s, 99 % alone; 24 frames/s; 4 freezes, no stalls; resolution kept"


def test_page_terminal_and_pictures_say_the_same(scores: Scores, tmp_path: Path) -> None:
    call = call_of(scores)
    (tmp_path / "options.json").write_text('{"service": "call"}')
    page = Page(write_report(tmp_path, call))
    written = (tmp_path / "report.html").read_text()
    assert f"Call with prague: {SAYS}." in page.text and "keeps" not in page.text
    assert 'class="badge harm severe">harm: severe<' in written
    assert 'class="badge measurement valid">measurement: valid<' in written
    assert "<h1>Video call through fq_codel flows 1, 10 Mbit/s: severe harm with prague</h1>" in written
    print_scores(call, tmp_path, Console(file=(output := StringIO()), width=400))
    assert f"Call with prague: {SAYS}." in output.getvalue()
    assert "measurement: valid · harm: severe with prague" in output.getvalue()

    heading = " ".join(re.findall(r'class="heading"[^>]*>([^<]*)', timeline.figure(call, tmp_path)))
    assert f"Call with prague: {SAYS}." in heading and "severe harm with prague" in heading
    filmed = film.FilmedRun(tmp_path / "screen.mp4", 0, 1, run_series(call, tmp_path), call, Path("run"))
    drawn = [text for it in filmed.overlays(1280) for text in re.findall(">([^<>]+)</text>", it.drawing)]
    assert drawn.count(SAYS) == 1 and drawn.count("harm: severe") == 1, "in the phase of the contender alone"
    assert drawn.count("measurement: valid · run") == len(call.phases) + 2


def test_index_and_summary_begin_with_what_happened(series: Callable[..., list[Path]], tmp_path: Path) -> None:
    (one,) = experiments(find_runs(series([1, 2, 3, 4, 5])))
    told = one.headline
    assert told.startswith(
        "TV channel with cubic: picture unharmed, but delay P99 rises by 38 ms; effective resolution 720 lines, 720 "
        "alone; no stalls; harm 0. TV"
    )
    assert "TV channel with prague: effective resolution 252 lines, 720 alone; 27 frames/s; " in told
    assert "harm 0.65 (0.56 to 0.74)" in told and told.endswith(" 5 runs; alone for 10 s only.")
    page = Page(write_summary([one], tmp_path / "out"))
    text = " ".join(page.text.split("</style>")[-1].split())
    assert text.index(told) < text.index("Mean over the runs")
    (few,) = experiments(find_runs([run.path for run in one.runs[:2]]))
    assert "2 runs, 5 needed for a result" in few.headline
    (single,) = experiments(find_runs([one.runs[0].path]))
    assert single.headline == headline(one.runs[0].scores, "o2tv")


def test_the_heights_of_several_runs_of_a_room_are_means_of_its_pictures(scores: Scores) -> None:
    one = call_of(scores)
    for row in (*one.phases, one.baseline):
        assert row
        row.lowest_height = 720 if row is one.baseline else 400
    summary = summarise({"a": one, "b": one})
    assert "resolution falls from 720 to 400 lines (mean of 3 pictures)" in average_headline(summary, "room", 3)
    assert "resolution falls from 720p to 400p" in average_headline(summary, "call")


def test_a_resolution_between_those_of_two_runs_is_not_named(scores: Scores) -> None:
    other = scores.model_copy(deep=True)
    for phase in other.phases:
        phase.lowest_height = 480 if phase.contender else 720
    summary = summarise({"a": scores, "b": other})
    (figure,) = [it for it in summary.measured if it.metric == "lowest_height"]
    assert figure.contended["prague"].value == 360
    assert "resolution falls from 720p to 240p" in average_headline(summary)


def test_a_share_is_rounded_alike_in_percent_and_as_a_number() -> None:
    for share in (n / 10_000 for n in range(1000, 9900)):
        assert percent(share) == f"{100 * float(two_decimals(share)):.0f} %"


def test_frames_never_shown_alone_are_not_blamed_on_the_contender() -> None:
    outcome = VictimOutcome(name="cubic", **CALL | {"never_shown": 0.091, "never_shown_alone": 0.063})
    assert "; 9.1 % never shown (6.3 % alone); " in sentence(outcome)


def test_several_calls_say_what_was_never_shown(scores: Scores) -> None:
    one = call_of(scores)
    for phase in one.phases:
        phase.frame_loss = 0.17 if phase.contender else 0.0
    (outcome,) = average_outcomes(summarise({"a": one, "b": one}))
    assert phrase(outcome).startswith(
        "79 % of frames within 0.4 s, 99 % alone; 17 % never shown; 24 frames/s; 4 freezes"
    )


@pytest.mark.parametrize(
    ("metric", "had", "told"),
    [
        ("rtt_p99_ms", {"rtt_p99_ms": 61.5}, "61.50"),
        ("rtt_p99_ms", {"probe_loss": 0.021, "rtt_answered_p99_ms": 21.7}, "∞ (2.1 % lost; 21.7 ms of the answered)"),
        ("rtt_p50_ms", {"probe_loss": 0.63, "rtt_answered_p99_ms": 21.7}, "∞ (63 % lost)"),
        ("rtt_p99_ms", {"probe_loss": 1.0, "rtt_answered_p99_ms": None}, "∞ (100 % lost)"),
        ("rtt_p99_ms", {}, "∞ (lost)"),
        ("frame_p99_ms", {"frame_loss": 0.17, "frame_shown_p99_ms": 386.4},
         "∞ (17 % never shown; 386 ms of those shown)"),
        ("call_up_p99_ms", {"call_up_loss": 0.0149},
         "∞ (1.5 % lost)"),
        ("web_fct_p95_s", {"web_fct_p95_least_s": 8.3, "web_unfinished": 4, "web_flows": 13},
         "> 8.3 s (4 of 13 unfinished)"),
        ("web_fct_p95_s", {"web_unfinished": 4, "web_flows": 13}, "4 of 13 unfinished"),
        ("web_fct_p95_s", {}, "unfinished"),
    ],
)  # fmt: skip
def test_infinity_stands_for_what_was_lost_alone(metric: str, had: dict[str, float | None], told: str) -> None:
    assert value_text(metric, ({metric: inf} | had).get) == told


def test_a_share_is_no_more_rounded_than_it_may_be() -> None:
    shares = (0, 0.0004, 0.021, 0.79, 0.994, 0.9996, 1)
    assert [percent(share) for share in shares] == ["0 %", "0.04 %", "2.1 %", "79 %", "99 %", "99.96 %", "100 %"]


def test_goodput_of_a_victim_that_got_all_it_asked_for_has_no_harm(
    scores: Scores, series: Callable[..., list[Path]], tmp_path: Path
) -> None:
    met = scores.harm[0].model_copy(update={"metric": "victim_mbps", "harm": 0.0, "demand_met": True})
    rest = [harm for harm in scores.harm if harm.metric != "victim_mbps"]
    grid = harm_table(scores.model_copy(update={"harm": [met, *rest]}))
    (row,) = [row for row in grid.rows if row.cells[0].startswith("goodput")]
    assert row.cells[3] == "demand met" and not row.hurt | row.some
    for path in (paths := series([1, 2, 3, 4, 5])):
        told = Scores.model_validate_json((path / "scores.json").read_bytes())
        for one in told.harm:
            if one.metric == "victim_mbps":
                one.harm, one.demand_met = 0.0, True
        (path / "scores.json").write_text(told.model_dump_json())
        reseal(path, "scores.json")
    (one,) = experiments(find_runs(paths))
    page = write_summary([one], tmp_path / "out").read_text()
    assert not any("goodput of the victim" in line for line in re.findall("Shown worse[^<]*", page))
    assert re.search(r"goodput of the victim</th>(<td[^>]*>demand met</td>){3}", page)


def luminance(colour: str) -> float:
    """The relative luminance of `#rrggbb` (WCAG 2.2)."""
    channels = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(*colours: str) -> float:
    dark, light = sorted(map(luminance, colours))
    return (light + 0.05) / (dark + 0.05)


def test_badges_can_be_read_by_day_and_by_night() -> None:
    """Text on its ground has a contrast of 4.5 at least (WCAG 2.2, AA), and the word stands next to the colour."""
    style = (Path(film.__file__).parent / "templates" / "style.css").read_text()
    filled = dict(re.findall(r"\.badge\.harm\.(\w+) \{ background: (#\w{6}) \}", style))
    assert set(filled) == {"none", "some", "severe"} and len(set(filled.values())) == 3
    for ground in (*filled.values(), *re.findall(r"\.badge\.harm \{[^}]*background: (#\w{6})", style)):
        assert contrast("#ffffff", ground) >= 4.5
    for mode in re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", mode))
        assert all(contrast(colours[name], colours["panel"]) >= 4.5 for name in ("soft", "bad", "some"))
