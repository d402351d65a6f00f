# SPDX-License-Identifier: Apache-2.0
"""The history of a device by its versions: what changed with which, alike on page, terminal and as JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.trend import History, Step, Trend, history, lines, read_versions, write_history
from sojourn.harness.report.trend import Series as Measured
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.statistics.intervals import EstimatedDifference
from sojourn.scoring.statistics.numbers import NOT_REACHED
from tests.programs.harness.cli.test_one_door import edited, void
from tests.unit.harness.report.test_run_page import Page

pytestmark = pytest.mark.usefixtures("few_resamples")

Series = Callable[..., list[Path]]
Device = Callable[..., Path]
VERSIONS = [f"24.{n}" for n in range(12)]  # 24.9 comes before 24.10


@pytest.fixture
def device(series: Series, tmp_path: Path) -> Device:
    """Make the runs of each version: beside Prague the victim loses a twentieth of what it stalls of its goodput."""

    def make(stalled: Callable[[int], float], runs: int = 5) -> Path:
        rng = random.Random(7)
        for number, name in enumerate(VERSIONS):
            series([stalled(number) + rng.uniform(-0.2, 0.2) for _ in range(runs)])
            (tmp_path / "device").mkdir(exist_ok=True)
            (tmp_path / "results").rename(tmp_path / "device" / name)
        return tmp_path / "device"

    return make


def ask(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["trend", *map(str, arguments)], env={"COLUMNS": "300"})


def test_the_version_that_takes_a_fifth_of_the_goodput_is_named(device: Device, tmp_path: Path) -> None:
    place = device(lambda version: 4.3 if version >= 10 else 0.3)  # of 1 Mbit/s 4 of 20
    done = ask(place, "-o", tmp_path / "trend.html")
    assert done.exit_code == 1, done.output
    (line,) = [line for line in done.stdout.splitlines() if "goodput of the victim (Mbit/s) with prague" in line]
    assert "worse since 24.10" in line and "-20%" in line
    assert "with cubic" not in done.stdout and "alone" not in done.stdout
    page = Page(tmp_path / "trend.html")
    assert "24.10" in page.text and "worse" in page.text
    told = json.loads(ask(place, "--json", "-o", tmp_path / "trend.html").stdout)["experiments"][0]
    assert told["versions"] == VERSIONS and told["worse"]
    assert {change["since"] for change in told["changes"]} == {"24.10"}
    assert (
        "goodput of the victim" not in ask(place, "--least=goodput=25%,harm=0.1", "-o", tmp_path / "trend.html").stdout
    )
    assert ask(place, "--least=25").exit_code == 4


def test_a_step_is_found_in_spite_of_what_the_same_rigs_differ_by(
    series: Series, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(7)
    for number, name in enumerate(VERSIONS):
        series([1.5 * rig + 0.9 * (number >= 6) + rng.uniform(-0.1, 0.1) for rig in range(5)])
        (tmp_path / "device").mkdir(exist_ok=True)
        (tmp_path / "results").rename(tmp_path / "device" / name)
    versions = read_versions([tmp_path / "device"])
    (blind,) = history(versions).trends
    assert not any(one.steps for one in blind.series)
    monkeypatch.setattr(Experiment, "drawn", True)
    (found,) = history(versions).trends
    steps = {one.label: one.steps for one in found.series if one.steps}
    assert {step.first for it in steps.values() for step in it} == {"24.6"}
    (stalled,) = steps["stalled (s)"]
    assert stalled.after - stalled.before == pytest.approx(0.9, abs=0.1)
    assert (stalled.less.low or 0) > 0.7  # as the runs of a rig vary, not as rigs do


def test_a_step_must_be_larger_than_what_the_same_version_differs_by(device: Device, tmp_path: Path) -> None:
    place = device(lambda version: 1.3 if version in (6, 7, 8, 9, 10, 11) else 0.3, runs=3)
    versions = read_versions([place])
    (free,) = history(versions).trends
    assert {step.first for one in free.series for step in one.steps} == {"24.6"} and not free.control
    (held,) = history(versions, same=("24.5", "24.11")).trends
    assert held.control == "24.11" and "24.11" not in held.versions
    goodput = next(one for one in held.series if one.label.startswith("goodput") and one.where == "with prague")
    apart = abs(goodput.figures["24.5"].value - goodput.figures["24.6"].value)
    assert apart > 0.04 and all(abs(step.less.value) > 0.04 for step in goodput.steps)
    page = ask(place, "--same=24.6=24.7", "-o", tmp_path / "trend.html")
    assert "same version twice" in Page(tmp_path / "trend.html").text and "control 24.7" not in page.stdout
    for text in ("24.6", "24.6=24.6", "24.6=25.1"):
        wrong = ask(place, f"--same={text}")
        assert wrong.exit_code == 4 and "--same" in wrong.stderr


def test_what_gets_better_is_told_and_is_no_failure(device: Device, tmp_path: Path) -> None:
    done = ask(device(lambda version: 0.3 if version >= 6 else 5.0), "-o", tmp_path / "trend.html")
    assert done.exit_code == 0 and "better since 24.6" in done.stdout and "worse since" not in done.stdout


def test_nothing_is_told_where_nothing_changed(device: Device, tmp_path: Path) -> None:
    done = ask(device(lambda version: 2.0), "-o", tmp_path / "trend.html")
    assert done.exit_code == 0
    assert "No significant change in 60 runs of 12 versions." in done.stdout


def test_folders_may_be_given_in_an_order_of_their_own(device: Device) -> None:
    place = device(lambda version: 4.0 if version < 3 else 1.0, runs=3)
    (trend,) = history(read_versions([place / name for name in reversed(VERSIONS)])).trends
    assert trend.worse and {step.first for one in trend.series for step in one.steps} == {"24.2"}


def test_void_and_edited_runs_are_told_and_in_no_figure(device: Device, tmp_path: Path) -> None:
    place = device(lambda version: 2.0, runs=2)
    one, other = sorted((place / "24.3").iterdir())[:2]
    void(one)
    edited(other) if '"stalls":2' in (other / "scores.json").read_text() else (other / "options.json").write_text("{}")
    done = ask(place, "-o", tmp_path / "trend.html")
    assert done.exit_code == 0 and "22 runs of 11 versions" in done.stdout
    assert "excluded: 24.3: " in done.stdout and ": invalid: " in done.stdout and ": unreadable: " in done.stdout
    assert "\x1b" not in done.stdout + (tmp_path / "trend.html").read_text()


@pytest.mark.parametrize(
    ("places", "what"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["nowhere", "device/24.0"], "nowhere: no such file or folder"),
        (["device/24.0"], "a trend needs 3: give a folder with one folder of runs per"),
    ],
)
def test_bad_places_are_told(device: Device, tmp_path: Path, places: list[str], what: str) -> None:
    device(lambda version: 1.0, runs=1)
    done = ask(*(tmp_path / place for place in places))
    assert done.exit_code == 4 and what in done.stderr and done.stderr.count("\n") == 1


def test_versions_of_different_experiments_are_void(series: Series, tmp_path: Path) -> None:
    for name, rtt in (("a", 10_000), ("b", 20_000)):
        series([1.0], rtt_us=rtt)
        (tmp_path / "results").rename(tmp_path / name)
    done = ask(tmp_path / "a", tmp_path / "b", "-o", tmp_path / "trend.html")
    assert done.exit_code == 3 and "no experiment has valid runs of two versions" in done.stdout


@pytest.mark.parametrize("within", [True, False])
def test_runs_of_two_scorers_are_refused_and_no_shorter_history(
    series: Series, scores: Scores, tmp_path: Path, within: bool
) -> None:
    for name, scorer in (("a", "2.8"), ("b", "2.9")):
        scores.scorer = scorer
        runs = series([1.0, 2.0])
        (tmp_path / name).mkdir()
        for run in runs:
            run.rename(tmp_path / name / f"{name}-{run.name}")
    if within:
        run = min((tmp_path / "a").iterdir())
        run.rename(tmp_path / "b" / run.name)
    done = ask(tmp_path / "a", tmp_path / "b", "-o", tmp_path / "trend.html")
    where = f"{tmp_path}/b" if within else "a and b"
    assert done.exit_code == 4
    assert f"{where}: runs scored by 2.8 and by 2.9; run `sojourn rescore --write` on them" in done.stderr


@pytest.mark.parametrize(
    ("before", "after", "told", "size"),
    [(5, inf, "5 → not reached", "∞ (2 to ∞)"), (inf, 5, "not reached → 5", "−∞ (−∞ to 2)")],
)
def test_an_infinite_step_is_no_figure_that_was_not_reached(
    before: float, after: float, told: str, size: str, tmp_path: Path
) -> None:
    low, high = (2, inf) if after == inf else (-inf, 2)
    less = EstimatedDifference(value=after - before, low=low, high=high, p=0.001, least_p=None)
    step = Step("v3", "v2", before, after, less, 0.001, "less", NOT_REACHED, inf)
    series = (Measured("convergence (s)", "whole cell", {}, (step,)),)
    trend = Trend("cell", ("v1", "v2", "v3"), 15, "v1-again", series, can_tell=True)
    (line,) = lines(trend)
    assert line.endswith(f"since v3, {told}")
    write_history(History((trend,), ()), tmp_path / "trend.html")
    page = Page(tmp_path / "trend.html")
    assert size in page.text and page.text.count("not reached") == 2  # the line and one of the table's cells
