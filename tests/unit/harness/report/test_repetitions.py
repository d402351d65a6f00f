# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.report.experiments import Experiment, experiments, find_runs
from sojourn.harness.report.index import write_index
from sojourn.harness.report.published_tables import services_table
from sojourn.harness.report.repetitions import grids, lines, run_rows, write_summary
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.report.terminal import print_summary
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.manifest import reseal, store_derived
from sojourn.scoring.statistics.summary import summarise
from tests.links import broken_links
from tests.refusals import refusal
from tests.unit.harness.report.test_run_page import Page

Series = Callable[..., list[Path]]


def told(one: Experiment, row: str) -> dict[str, str]:
    """The cells of a row of either table by their heads."""
    (found,) = [(grid.heads, line.cells) for grid in grids(one) for line in grid.rows if line.cells[0] == row][:1]
    return dict(zip(*found, strict=True))


def test_void_runs_are_told_and_in_no_figure(series: Series) -> None:
    paths = series([1, 2, 3, 4, 5], void=[9])
    (one,) = experiments(find_runs(paths))
    assert one.summary.void == {paths[0].name: ["jitter: 9 ms, at most 2 ms"]}
    assert lines(one)[0] == "5 of 6 runs are valid; figures exclude the invalid ones."
    stalled = told(one, "stalled (s)")
    assert stalled["with prague"].startswith("3 (1") and stalled["with cubic"] == "0"
    # By hand: 1, 3, 5 in one order and 2, 4 in the other vary by √(10/3), and t of 3 degrees of freedom is 3.182.
    assert stalled["prague − cubic"] == "3 (0.35 to 5.65)"
    assert told(one, "picture below its height alone (s)")["with prague"] == "7.50"
    assert told(one, "harm: time without stalls")["with prague"].startswith("0.30 (")


def test_a_drawn_rig_moves_player_and_probes_together(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = experiments(find_runs(series([1, 2])))
    assert not any("start together" in line for line in lines(one))
    monkeypatch.setattr(Experiment, "drawn", True)
    assert any(
        line.startswith("In simulated time, player, contenders and probes start together") for line in lines(one)
    )


def test_what_is_shown_worse_is_said_from_five_runs_on(series: Series) -> None:
    series([1, 2, 3])
    (few,) = experiments(find_runs(series([4])))
    assert not any("Shown" in line for line in lines(few))
    assert any("one run has no interval" in line for line in lines(few))
    assert told(few, "stalled (s)")["with prague"] == "4"
    results = [few.runs[0].path.parent]
    (four,) = experiments(find_runs(results))
    assert any("covers the true value in at most 88% of such series" in line for line in lines(four))
    assert not any(row.hurt for grid in grids(four) for row in grid.rows)
    series([5])
    (five,) = experiments(find_runs(results))
    (worse,) = [line for line in lines(five) if line.startswith("Shown worse with prague than with cubic: ")]
    assert (
        "effective resolution, 0 while stalled" in worse
        and "goodput of the victim" in worse
        and "contender" not in worse
    )
    hurt = {row.cells[0] for grid in grids(five) for row in grid.rows if row.hurt}
    primary = {
        "effective resolution, 0 while stalled (lines), primary",
        "harm: effective resolution, 0 while stalled, primary",
    }
    assert {*primary, "goodput of the victim (Mbit/s)"} <= hurt and "drops of resolution" not in hurt
    stalled = told(five, "stalled (s)")  # 1 to 5 s: p 0.013, but one of many rows
    assert float(stalled["p"]) > 0.05 and "stalled (s)" not in hurt


def test_the_victims_own_kind_is_the_bar(series: Series) -> None:
    (one,) = experiments(find_runs(series([1, 2, 3, 4, 5])))
    (bar,) = [line for line in lines(one) if line.startswith("Bar")]
    assert bar.startswith("Bar, the harm by cubic, the victim's own") and "prague 0.65 (0.52 to 0.78)" in bar
    (harm,) = [figure for figure in one.summary.harm if figure.primary]
    assert list(harm.beyond) == ["prague"] and harm.beyond["prague"].value == 0.65


def test_an_order_that_is_not_balanced_is_said(series: Series, tmp_path: Path) -> None:
    (odd,) = experiments(find_runs(series([1, 2, 3, 4, 5])))
    assert "The order is not balanced: first came cubic in 3 and prague in 2 of 5 runs" in " ".join(lines(odd))
    (tmp_path / "results").rename(tmp_path / "odd")
    (even,) = experiments(find_runs(series([1, 2, 3, 4])))
    assert "balanced" not in " ".join(lines(even))


def test_a_short_baseline_is_told_beside_the_harm(series: Series) -> None:
    (one,) = experiments(find_runs(series([1, 2])))
    assert "(10 s only, without recovery time)" in grids(one)[1].caption


def test_what_never_came_in_one_run_is_told_by_the_median(series: Series, tmp_path: Path) -> None:
    paths = series([1, 2, 3, 4, 5])
    (one,) = experiments(find_runs(paths))
    runs = {run.path.name: run.scores for run in one.runs}
    for number, scores in enumerate(runs.values()):
        for phase in scores.phases:
            if phase.contender == "prague" and number < 3:
                phase.rtt_p99_ms = inf
    figure = summarise(runs).figure("rtt_p99_ms")
    assert figure and (figure.contended["prague"].value, figure.contended["prague"].statistic) == (inf, "median")
    assert (figure.contended["cubic"].value, figure.contended["cubic"].statistic) == (60, "median")
    assert (figure.contrast["prague"].value, figure.contrast["prague"].mde) == (inf, None)
    told = replace(one, summary=summarise(runs))
    (row,) = [row for row in grids(told)[0].rows if row.cells[0].startswith("RTT of the probe, P99")]
    assert row.cells[3].startswith("∞ (lost; ")
    page = write_summary([told], tmp_path / "out")
    strict = json.loads((page.parent / "summary.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    (kept,) = [it for it in strict[0]["measured"] if it["metric"] == "rtt_p99_ms"]
    assert kept["contended"]["prague"]["value"] == "Infinity" and "∞ (lost; " in page.read_text()


def test_the_fair_share_is_half_the_payload_or_what_the_victim_takes_alone(series: Series) -> None:
    (one,) = experiments(find_runs(series([1, 2, 3, 4, 5])))  # through 10 Mbit/s, 3 alone
    assert one.summary.fair_share_mbps and one.summary.fair_share_mbps.value == 3
    says = "Fair share of the victim against one flow: 3 Mbit/s; alone it takes 3; it gets 2.90"
    assert any(line.startswith(says) for line in lines(one))
    several = one.summary.model_copy(deep=True)
    victim = several.figure("victim_mbps")
    assert victim
    victim.contended = {"cubic*8": victim.contended["cubic"], "web": victim.contended["prague"]}
    assert not any("Fair share" in line for line in lines(replace(one, summary=several)))


def test_only_runs_of_which_the_same_was_asked_are_put_together(series: Series) -> None:
    first, other = series([1, 2]), series([3], buffer_s=12.0)
    found = experiments(find_runs([first[0].parent]))
    assert [(one.title, one.summary.valid) for one in found] == [
        ("video-harm: o2tv 20mbit (buffer 6 s)", [path.name for path in first]),
        ("video-harm: o2tv 20mbit (buffer 12 s)", [path.name for path in other]),
    ]


def test_a_timeline_is_told_as_it_runs_and_the_order_of_contenders_makes_no_other_experiment(series: Series) -> None:
    one, other = (load_run(path) for path in series([1, 2]))
    orders = [[phase["contender"] for phase in run.options["phases"]] for run in (one, other)]
    assert orders[0] != orders[1]
    assert one.definition["timeline"] == other.definition["timeline"]
    lengths = [f"{who or 'solo'} 10 s" for who in (None, "cubic", None, "prague", None)]
    assert one.definition["timeline"].split(", ") == lengths[: len(orders[0])]
    # A solo phase that lasts until the picture has recovered is another one.
    for phase in one.options["phases"][:1]:
        phase["at_least"] = True
    assert one.definition["timeline"].startswith("solo 10+ s, cubic 10 s")


def test_a_calls_bit_rate_that_the_machine_chose_makes_an_experiment(series: Series) -> None:
    for path, bitrate in zip(series([1, 2], call_bitrate_bps=None), (2_500_000, 1_000_000), strict=True):
        (path / "lab.json").write_text(json.dumps({"call": {"bitrate_bps": bitrate}}))
        reseal(path, "lab.json")
    found = experiments(find_runs([path.parent]))
    assert sorted(one.title.partition(" (")[2] for one in found) == [
        "call-bitrate 1 Mbit/s)", "call-bitrate 2.5 Mbit/s)"
    ]  # fmt: skip


def test_the_page_stands_alone_and_links_to_each_run(series: Series, tmp_path: Path) -> None:
    paths = series([1, 2, 3, 4, 5], void=[9])
    page = write_summary(experiments(find_runs(paths)), tmp_path / "results" / "summary")
    text, read = page.read_text(), Page(page)
    assert not re.search(r"https?://|url\(|@import", text)
    reports = [f"../{path.name}/report.html" for path in paths]
    assert set(it for it in read.references if it[0] != "#") == {
        "../index.html",
        *reports,
        "summary.csv",
        "summary.json",
    }
    write_index(paths[0].parent)  # as a session does after its summary
    assert broken_links(page) == []
    assert text.count("<circle") >= 5 * 3 * 6
    assert "prague, then cubic" in read.text and "measurement: invalid: jitter: 9 ms, at most 2 ms" in read.text
    assert "goodput yes, harm yes" in read.text


def test_the_table_holds_every_figure_with_its_runs(series: Series, tmp_path: Path) -> None:
    write_summary(experiments(find_runs(series([1, 2, 3, 4, 5]))), tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out" / "summary.csv").open()))
    (row,) = [r for r in rows if (r["kind"], r["metric"], r["contender"]) == ("measured", "stall_s", "prague-cubic")]
    assert (row["n"], row["statistic"], row["value"], row["runs"]) == ("5", "mean", "3", "1 2 3 4 5")
    # By hand, 1, 3, 5 in one order and 2, 4 in the other: (3.182 + 0.978) · √(10/3) · √(1/3 + 1/2) / 2, with t of three
    # degrees of freedom from a table.
    assert float(row["detectable"]) == pytest.approx(3.467, abs=0.002)
    (lowest,) = [r for r in rows if (r["metric"], r["contender"]) == ("lowest_height", "prague")]
    assert lowest["statistic"] == "median"


def test_a_folder_is_summarised_again_to_the_same_bytes(series: Series, tmp_path: Path) -> None:
    (results,) = {path.parent for path in series([1, 2, 3, 4, 5])}
    done = CliRunner().invoke(app, ["summary", str(results)])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(results / "summary" / "report.html")
    files = {path.name: path.read_bytes() for path in (results / "summary").iterdir()}
    series([6])  # is in no earlier summary
    again = CliRunner().invoke(app, ["summary", str(results / "summary")])
    assert again.exit_code == 0 and again.stdout == done.stdout
    assert {path.name: path.read_bytes() for path in (results / "summary").iterdir()} == files


def test_a_summary_among_its_runs_is_refused(series: Series) -> None:
    """It would replace the page of a matrix or a soak, or of a run, and later runs would be in no summary."""
    run, *_ = series([1, 2])
    results = run.parent
    for place, why in ((results, "has runs"), (run, "inside the run")):
        before = sorted(results.rglob("*"))
        done = CliRunner().invoke(app, ["summary", str(results), "-o", str(place)])
        assert done.exit_code == 1 and f"{place}: {why}" in done.stderr and done.stderr.count("\n") == 1
        assert sorted(results.rglob("*")) == before
    (results / "summary.json").write_text("[]")  # of an earlier version
    assert len(find_runs([results])) == 2


def test_a_place_without_runs_is_one_line(tmp_path: Path) -> None:
    with refusal(ReportError, "not-a-run"):
        find_runs([tmp_path])
    done = CliRunner().invoke(app, ["summary", str(tmp_path)])
    assert done.exit_code == 1 and done.stderr.count("\n") == 1 and str(tmp_path) in done.stderr


def test_all_void_is_no_figure(series: Series, tmp_path: Path) -> None:
    (one,) = experiments(find_runs(series([], void=[1, 2])))
    assert grids(one) == [] and one.summary.measured == []
    page = write_summary([one], tmp_path / "out")
    assert 'class="headline invalid"' in page.read_text() and "<circle" not in page.read_text()


def test_the_terminal_says_the_same(series: Series) -> None:
    output = StringIO()
    print_summary(experiments(find_runs(series([1, 2, 3, 4, 5], void=[9]))), Console(file=output, width=160))
    for word in ("video-harm: o2tv 20mbit", "prague − cubic", "detectable", "invalid: 2", "Shown worse with prague"):
        assert word in output.getvalue()


def of_one_contender(run: Any, name: str) -> Any:
    """A run of a map, with one contender only."""
    phases = [phase for phase in run.scores.phases if phase.contender in (None, name)]
    harm = [it for it in run.scores.harm if it.contender == name]
    return replace(run, scores=run.scores.model_copy(update={"phases": phases, "harm": harm}))


@pytest.mark.parametrize(("name", "folded"), [("prague", False), ("cubic", True)])
def test_what_one_contender_does_is_not_folded_as_no_difference(name: str, folded: bool, series: Series) -> None:
    runs = find_runs(series([1, 2, 3, 4, 5]))
    (one,) = experiments([of_one_contender(run, name) for run in runs])
    measured, harms = grids(one)
    alike = [{row.cells[0]: row.alike for row in grid.rows} for grid in (measured, harms)]
    assert alike[0]["stalls of 0.5 s or more"] is alike[1]["harm: time without stalls"] is folded
    assert not alike[0]["goodput of the contender (Mbit/s)"] and not alike[1]["harm: goodput of the victim"]


def test_a_contender_that_did_not_compete_was_not_run(series: Series) -> None:
    runs = [of_one_contender(run, "cubic") for run in find_runs(series([1, 2, 3]))]
    (row,) = (grid := services_table([(run.service, run.scores) for run in runs])).rows
    cells = dict(zip(grid.heads, row.cells, strict=True))
    assert cells["with prague"] == "not run" and cells["with cubic"].endswith("3 runs")


def test_repeated_runs_stand_in_the_published_table_as_one(series: Series) -> None:
    runs = find_runs(series([1, 2, 3, 4, 5], void=[9]))
    (row,) = (grid := services_table([(run.service, run.scores) for run in runs])).rows
    ours = dict(zip(grid.heads, row.cells, strict=True))["with prague"]
    assert (
        ours.startswith("17.40 Mbit/s; below its resolution alone for 7.50 s; stalls 1; 3 (1") and "1 invalid" in ours
    )
    assert row.cells[-1] == "goodput yes, harm yes"


def test_runs_of_one_name_are_told_apart(series: Series, tmp_path: Path) -> None:
    """Two hosts that begin the same cell in the same second."""
    (good,), (bad, _) = series([1]), series([2], void=[9])
    (other := tmp_path / "other-host").mkdir()
    bad = bad.rename(other / good.name)
    (one,) = experiments(find_runs([good, bad]))
    assert one.summary.valid == [f"results/{good.name}"] and list(one.summary.void) == [f"other-host/{good.name}"]
    assert [run.path for run in one.runs if run.reasons] == [bad]
    assert [row["void"] for row in run_rows(one, tmp_path)] == [run.path == bad for run in one.runs]
    (two,) = experiments(find_runs([*series([3]), good]))
    assert len(two.summary.valid) == 2


def test_a_summary_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("[7]")
    with refusal(ReportError, "damaged", "summary.json: "):
        find_runs([tmp_path])


def test_a_copy_of_a_run_is_no_repetition(series: Series, tmp_path: Path) -> None:
    paths = series([1, 2])
    shutil.copytree(paths[0], tmp_path / "again" / paths[0].name)
    (one,) = experiments(find_runs([paths[0].parent, tmp_path / "again"]))
    assert len(one.summary.valid) == 2


def test_runs_of_one_seed_with_the_same_bytes_count_once(series: Series, tmp_path: Path) -> None:
    """Simulated time gives the same bytes again, whatever the folder and the command; real time never does."""
    same = [path for _ in range(5) for path in series([3])]
    (results,) = {path.parent for path in same}
    store_derived(same[1], "report.html", b"regenerated later")
    (one,) = experiments(find_runs([results]))
    assert [run.path for run in one.runs] == same[:1] and [it.run.path for it in one.duplicates] == same[1:]
    assert one.summary.valid == [same[0].name]
    assert lines(one)[:2] == [
        "1 of 1 run is valid.",
        f"{same[1].name}: same seed and bytes as {same[0].name}; the two count as one run.",
    ]
    page = write_index(results).read_text()
    assert "5 runs of 1 experiment: 1 valid, 4 duplicate" in re.sub("<[^>]*>", "", page)

    summary = write_summary([one], tmp_path / "out").parent
    files = {path.name: path.read_bytes() for path in summary.iterdir()}
    write_summary(experiments(find_runs([summary])), summary)
    assert {path.name: path.read_bytes() for path in summary.iterdir()} == files

    other = load_run(series([3])[0])
    in_real_time = other.scores.model_copy(update={"t0": other.scores.t0 + 1})
    store_derived(other.path, "scores.json", in_real_time.model_dump_json().encode())
    (two,) = experiments(find_runs([results]))
    assert [run.seed for run in two.runs] == [1, 1] and len(two.summary.valid) == 2


def test_links_in_a_results_folder_of_others_are_not_followed(series: Series, tmp_path: Path) -> None:
    groups = experiments(find_runs(series([1, 2])))
    (profile := tmp_path / "profile").write_text("mine")
    (folder := tmp_path / "summary").mkdir()
    for name in ("summary.csv", "summary.json", "report.html"):
        (folder / name).symlink_to(profile)
    write_summary(groups, folder)
    assert profile.read_text() == "mine" and not any(path.is_symlink() for path in folder.iterdir())
    (link := tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError, match="is a link"):
        write_summary(groups, link)


def test_the_name_of_a_runs_folder_is_no_script(series: Series, tmp_path: Path) -> None:
    (path,) = series([1])
    strange = path.rename(path.with_name("javascript:alert(1)"))
    (one,) = experiments(find_runs([strange]))
    assert run_rows(one, strange.parent)[0]["link"] == "javascript%3Aalert%281%29/report.html"
