# SPDX-License-Identifier: Apache-2.0
"""A pipeline's verdict: exit codes told apart, and the same in JUnit, Markdown and JSON, with foreign text escaped."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.store.manifest import reseal
from sojourn.harness.store.reasons import Reason
from sojourn.scoring.schema.scores import Scores
from tests.programs.harness.cli.test_one_door import made


@pytest.fixture
def run(scores: Scores, tmp_path: Path) -> Path:
    return made(tmp_path / "results", scores)


def ask(place: Path, *demanded: str, more: tuple[str, ...] = ()) -> Result:
    (file := place.parent / "thresholds.toml").write_text(f"thresholds = {json.dumps(demanded)}\n")
    # These runs have no raw files; those that have are in tests/programs/scoring/test_changed_run.py.
    return CliRunner().invoke(app, ["verdict", str(place), f"--thresholds={file}", "--no-rescore", *more])


def test_met_and_not_met_have_codes_of_their_own(run: Path) -> None:
    assert ask(run, "stalls >= 0").exit_code == 0
    done = ask(run, "stalls >= 0", "victim_mbps > 1000")
    assert done.exit_code == 1 and "not met" in done.stdout and "victim_mbps > 1000" in done.stdout


@pytest.mark.parametrize(("rest_s", "counts"), [(0, "met"), (9, "no figure: no valid run has stalls alone")])
def test_a_run_without_a_contender_is_judged_alone(scores: Scores, tmp_path: Path, rest_s: float, counts: str) -> None:
    """Events are not counted where the baseline is a part of the run only, as that of a room before a dip."""
    phases = [phase for phase in scores.phases if not phase.contender]
    assert scores.baseline
    baseline = scores.baseline.model_copy(update={"seconds": sum(phase.seconds for phase in phases) - rest_s})
    only = scores.model_copy(update={"phases": phases, "harm": [], "baseline": baseline})
    alone = made(tmp_path / "results", only)
    done = ask(alone, "stalls == 0", "played_height >= 720", "victim_mbps > 1000")
    outcomes = [line.rstrip().split("  ")[-1].strip() for line in done.stdout.splitlines()[2:]]
    assert done.exit_code == 1 and outcomes == [counts, "met", "not met"], done.stdout
    done = ask(alone, "stalls with prague == 0")
    assert done.exit_code == 4 and "'stalls with prague == 0': no experiment has such a figure" in done.stderr


def test_a_void_run_gives_no_figure_and_its_own_code(run: Path) -> None:
    reseal(run, reasons=[Reason(code="lab-jitter", text="the lab <b>*adds*</b> | \x1b[2K 9 ms")])
    files = run.parent / "out.xml", run.parent / "out.md"
    done = ask(run, "stalls >= 0", more=(f"--junit={files[0]}", f"--markdown={files[1]}"))
    assert done.exit_code == 3 and "invalid" in done.stdout and "\x1b" not in done.stdout
    suite = ElementTree.parse(files[0]).getroot()[0]
    assert suite.get("errors") == "1" and suite.find(".//property") is None
    text = files[1].read_text()
    assert "invalid" in text and not {"<b>", "*adds*", "| \x1b"} & {word for word in ("<b>", "*adds*") if word in text}


@pytest.mark.parametrize("what", ["edited", "damaged", "missing", "no thresholds", "wrong threshold"])
def test_what_cannot_be_read_is_broken(run: Path, what: str) -> None:
    if what == "edited":
        (run / "options.json").write_text("{}")
    if what == "damaged":
        (run / "timeline.json").write_text("{}")
    done = {
        "damaged": lambda: ask(run, "stalls >= 0"),
        "edited": lambda: ask(run, "stalls >= 0"),
        "missing": lambda: ask(run.parent / "nowhere", "stalls >= 0"),
        "no thresholds": lambda: CliRunner().invoke(app, ["verdict", str(run), "--thresholds=/no/such.toml"]),
        "wrong threshold": lambda: ask(run, "stalls"),
    }[what]()
    assert done.exit_code == 4 and done.stderr.count("\n") == 1 and done.stderr.startswith("sojourn: "), done.stderr


def test_what_never_came_meets_no_limit_and_json_stays_strict(scores: Scores, tmp_path: Path) -> None:
    document = json.loads(scores.model_dump_json())
    document["phases"][1]["rtt_p99_ms"] = "Infinity"
    run = made(tmp_path / "results", Scores.model_validate(document))
    done = ask(run, "rtt_p99_ms < 100000", more=("--json",))
    (told,) = json.loads(done.stdout, parse_constant=pytest.fail)
    assert done.exit_code == 1 and told["thresholds"][0]["value"] == "Infinity"
    assert "∞ (lost), n=1" in ask(run, "rtt_p99_ms < 100000").stdout


def test_too_few_runs_to_be_sure_decide_nothing_and_have_a_code_of_their_own(run: Path) -> None:
    files = run.parent / "out.xml", run.parent / "out.md"
    more = "--sure", f"--junit={files[0]}", f"--markdown={files[1]}"
    why = "not decided: 1 run, 5 needed"
    done = ask(run, "stalls >= 0", "stalls < 0", more=more)
    assert done.exit_code == 5 and done.stdout.count(why) == 2 and "not met" not in done.stdout
    assert ": not decided\n" in done.stdout
    suite = ElementTree.parse(files[0]).getroot()[0]
    assert (suite.get("skipped"), suite.get("failures")) == ("2", "0")
    assert [it.get("message", "").startswith(why) for it in suite.iter("skipped")] == [True, True]
    assert files[1].read_text().count(why) == 2 and "not met" not in files[1].read_text()
    (told,) = json.loads(ask(run, "stalls >= 0", more=("--sure", "--json")).stdout)
    assert told["verdict"] == "not_decided"
    assert [(it["outcome"], it["why"]) for it in told["thresholds"]] == [("not decided", "1 run, 5 needed")]
    assert ask(run, "stalls >= 0", "fps alone < 0", "frames_in_time > 0", more=("--sure",)).exit_code == 1


@pytest.mark.parametrize(
    ("threshold", "why"),
    [
        ("contender_mbps alone > 0", "contender_mbps has none alone in runs with contenders; remove `alone`"),
        ("stalls alone == 0", "stalls has none alone"),
        ("harm.victim_mbps <= bar", "cubic, the bar, does not compete"),
        ("stalls with bbr == 0", "bbr does not compete"),
    ],
)
def test_a_threshold_that_can_have_no_figure_is_refused(
    scores: Scores, tmp_path: Path, threshold: str, why: str
) -> None:
    run = made(tmp_path / "results", scores.model_copy(update={"own_kind": "cubic"}))
    done = ask(run, "stalls >= 0", threshold)
    assert done.exit_code == 4 and done.stderr.count("\n") == 1, done.output
    assert f"{threshold!r}: no experiment has such a figure: " in done.stderr and why in done.stderr


def test_a_threshold_of_a_map_is_judged_where_its_contender_competes(scores: Scores, tmp_path: Path) -> None:
    """In a map with `contenders=prague,bbr`, every experiment has one contender."""
    text = scores.model_dump_json().replace('"prague"', '"bbr"')
    results = made(tmp_path / "results", scores).parent
    other = made(results, Scores.model_validate_json(text))
    phases = [{"name": "bbr", "contender": "bbr", "seconds": 10}]
    (other / "options.json").write_text(json.dumps({"service": "o2tv", "seed": 1, "phases": phases}))
    reseal(other, "options.json")
    junit = tmp_path / "out.xml"
    done = ask(results, "stalls with prague >= 0", more=(f"--junit={junit}",))
    assert done.exit_code == 0 and "not judged here: stalls with prague >= 0: prague does not compete" in done.stdout
    assert done.stdout.count(": met\n") == 1 and done.stdout.count(": no threshold applies\n") == 1
    assert [suite.get("skipped") for suite in ElementTree.parse(junit).getroot()] == ["0", "1"]
    assert ask(results, "stalls with prague < 0").exit_code == 1


def test_without_thresholds_the_command_line_is_wrong(run: Path) -> None:
    done = CliRunner().invoke(app, ["verdict", str(run)])
    assert done.exit_code == 2 and "--thresholds" in done.stderr and "required" in done.stderr


def test_what_is_broken_leaves_no_junit_that_says_otherwise(run: Path) -> None:
    junit = run.parent / "out.xml"
    assert ask(run, "stalls >= 0", more=(f"--junit={junit}",)).exit_code == 0 and junit.exists()
    nowhere = run.parent / "nowhere" / "out.md"
    done = ask(run, "stalls >= 0", more=(f"--junit={junit}", f"--markdown={nowhere}"))
    assert done.exit_code == 4 and str(nowhere.parent) in done.stderr and not junit.exists()


def test_one_run_repeated_with_its_seed_is_one_run(scores: Scores, tmp_path: Path) -> None:
    runs = [made(tmp_path / "results", scores) for _ in range(5)]
    markdown = tmp_path / "out.md"
    done = ask(runs[0].parent, "stalls >= 0", more=("--sure", f"--markdown={markdown}"))
    assert done.exit_code == 5 and "not decided: 1 run, 5 needed" in done.stdout, done.stdout
    for run in runs[1:]:
        assert f"duplicate: {run.name}: same seed and bytes as {runs[0].name}; the two count as one run" in done.stdout
    assert markdown.read_text().count("- duplicate: ") == 4
    (told,) = json.loads(ask(runs[0].parent, "stalls >= 0", more=("--json",)).stdout)
    assert told["duplicates"] == {run.name: runs[0].name for run in runs[1:]} and told["runs"] == [str(runs[0])]


def test_junit_markdown_and_json_say_the_same(run: Path) -> None:
    files = run.parent / "out.xml", run.parent / "out.md"
    done = ask(run, "victim_mbps > 1000", more=(f"--junit={files[0]}", f"--markdown={files[1]}", "--json"))
    (told,) = json.loads(done.stdout)
    assert done.exit_code == 1 and told["verdict"] == "not_met"
    suite = ElementTree.parse(files[0]).getroot()[0]
    places = {case.get("classname"): case for case in suite.iter("testcase")}
    assert suite.get("failures") == str(len(told["thresholds"])) and set(places) == {
        it["where"] for it in told["thresholds"]
    }
    for it in told["thresholds"]:
        value = places[it["where"]].find(".//property")
        assert value is not None and float(value.get("value", "")) == pytest.approx(it["value"], rel=1e-5)
    assert files[1].read_text().count("not met") == len(told["thresholds"]) + 1
