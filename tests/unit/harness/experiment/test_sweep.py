# SPDX-License-Identifier: Apache-2.0
"""The experiments of a sweep, which runs of an earlier start it keeps, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sojourn.apps.options import PLAYERS
from sojourn.harness.experiment.sweep import RESULTS, Sweep, kept_runs, only_sweep_in
from sojourn.harness.lab.machine import Machine
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import OPTIONS, Options
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import Scores
from tests.refusals import refusal

BUILD = {"kernel source": "linux-7", "kernel build": "k", "guest": "g", "sources": "s"}
MACHINE = cast(Machine, SimpleNamespace(versions=BUILD))


def sweep(*words: str, **given: Any) -> Sweep:
    every: dict[str, Any] = {option.name: None for option in OPTIONS}
    return Sweep.from_command_line(
        words, every | {name.replace("_", "-"): it for name, it in given.items()}, Path(), {}
    )


def test_every_combination_is_an_experiment_with_its_own_values() -> None:
    made = sweep("rtt=10ms,40ms", "qdisc=dualpi2,pie", rate="5mbit").experiments
    assert list(made) == [
        "rtt 10ms, qdisc dualpi2", "rtt 10ms, qdisc pie", "rtt 40ms, qdisc dualpi2", "rtt 40ms, qdisc pie",
    ]  # fmt: skip
    assert [(it.rtt_us, str(it.qdisc_down), it.rate_down_bps) for it in made.values()] == [
        (10_000, "dualpi2", 5_000_000), (10_000, "pie", 5_000_000),
        (40_000, "dualpi2", 5_000_000), (40_000, "pie", 5_000_000),
    ]  # fmt: skip


def test_a_video_is_screened_and_a_call_recorded_unless_the_user_says_otherwise() -> None:
    assert sweep("rtt=10ms,40ms").first.screening
    assert sweep("rtt=10ms,40ms", recorder="ffmpeg").first.recorder == "ffmpeg"
    assert sweep("rtt=10ms,40ms", service="call").first.recorder == "ffmpeg"
    assert [it.screening for it in sweep("service=youtube,call").experiments.values()] == [True, False]
    first = sweep("rtt=10ms,40ms").first
    assert (first.repeat, first.results) == (1, Path(RESULTS, "map").resolve())


def test_a_default_of_the_recordings_to_keep_is_ignored_by_screening_runs_and_a_named_one_records() -> None:
    every: dict[str, Any] = {option.name: None for option in OPTIONS}
    default = Sweep.from_command_line(["rtt=10ms,40ms"], every, Path(), {"SOJOURN_VIDEO": "retain-on-failure"}).first
    assert (default.recorder, default.video) == ("none", "on")
    named = sweep("rtt=10ms,40ms", video="retain-on-failure").first
    assert (named.recorder, named.video) == ("ffmpeg", "retain-on-failure")


@pytest.mark.parametrize("contenders", ['"cubic,bbr"', '["cubic", "bbr"]'])
def test_swept_timelines_that_name_their_loads_override_the_contenders_of_a_scenario(
    tmp_path: Path, contenders: str
) -> None:
    (file := tmp_path / "household.toml").write_text(f"contenders = {contenders}\n")
    made = sweep("timeline=solo:20,cubic:20;solo:20,prague:20", scenario=str(file)).experiments
    assert list(made) == ["timeline solo:20,cubic:20", "timeline solo:20,prague:20"]
    assert [[phase.contender for phase in it.phases] for it in made.values()] == [[None, "cubic"], [None, "prague"]]


def test_a_named_timeline_among_swept_ones_takes_the_contenders_of_a_scenario(tmp_path: Path) -> None:
    (file := tmp_path / "household.toml").write_text('contenders = "bbr"\n')
    made = sweep("timeline=short;solo:20,prague:20", scenario=str(file)).experiments.values()
    assert [[phase.contender for phase in it.phases if phase.contender] for it in made] == [["bbr"], ["prague"]]


def test_the_lists_of_a_scenario_are_swept_too() -> None:
    made = sweep(scenario="access-line")
    queues = ["pfifo limit 1000", "fq_codel", "cake", "dualpi2"]
    assert [str(it.qdisc_down) for it in made.experiments.values()] == queues
    assert made.first.results == Path(RESULTS, "access-line").resolve()
    assert list(sweep("qdisc=pie,codel", scenario="access-line").experiments) == ["qdisc pie", "qdisc codel"]
    assert len(sweep("rtt=10ms,20ms", scenario="access-line").experiments) == 8
    with refusal(OptionsError, "conflict", "qdisc=pie,codel: --qdisc sets it too"):
        sweep("qdisc=pie,codel", scenario="access-line", qdisc="cake")
    with refusal(OptionsError, "missing", "a map needs an option with its values, without --, "):
        sweep(scenario="household")


def test_all_players_are_swept_by_one_word() -> None:
    names = [f"player {name}" for name in PLAYERS]
    for made in (sweep(player="all"), sweep("player=all")):
        assert list(made.experiments) == names and made.first.player == PLAYERS[0]
    assert len(sweep("player=all", "qdisc=pie,codel").experiments) == 2 * len(PLAYERS)
    with refusal(OptionsError, "no-effect", "--player: ", "--service=call"):
        sweep("player=all", service="call")


def test_the_users_defaults_are_named_once_for_all_experiments() -> None:
    every: dict[str, Any] = {option.name: None for option in OPTIONS}
    made = Sweep.from_command_line(["rtt=10ms,20ms"], every, Path(), {"SOJOURN_RATE": "5mbit"})
    assert list(made.defaults) == ["defaults of the environment: --rate=5mbit"]


def test_values_with_commas_are_separated_by_semicolons() -> None:
    ladders = sweep("ladder=240p:300k,480p:1mbit;240p:300k,720p:3mbit").experiments.values()
    assert [it.ladder[-1][0] for it in ladders] == [480, 720]
    assert len(sweep("ladder=240p:300k,480p:1mbit").experiments) == 1
    (step,) = sweep("rate=10mbit,30s:5mbit;").experiments.values()
    assert step.rate_steps


@pytest.mark.parametrize(
    ("words", "given", "code", "mentioned"),
    [
        (["rtt"], {}, "invalid-value", "rtt"),
        (["rtr=10ms,20ms"], {}, "unknown-option", "rtt"),
        (["seed=1,2"], {}, "unsupported", "--seed"),
        (["lab=sim,virtual"], {}, "unsupported", "--lab"),
        (["rtt=10ms,10ms"], {}, "invalid-value", "rtt"),
        (["rtt=10ms,"], {}, "invalid-value", "rtt"),
        (["rtt=10ms", "rtt=20ms"], {}, "invalid-value", "given twice"),
        (["rtt=10ms,40ms"], {"rtt": "20ms"}, "conflict", "--rtt"),
        (["rtt=10ms,40"], {}, "invalid-value", "--rtt"),
        (["rtt=10ms,40ms"], {"lab": "virtual"}, "unsupported", "soak"),
        (["buffer=4,8"], {"service": "call"}, "no-effect", "buffer"),
        ([], {}, "missing", "rtt="),
        (["exact=true,false"], {}, "unsupported", "--exact"),
        (["rtt=10ms,10000us"], {}, "duplicate", "same experiment"),
        (["rate=8mbit,10s:1mbit"], {}, "invalid-value", "'rate=8mbit,10s:1mbit;'"),
        (["contenders=cubic,prague"], {"timeline": "solo:20,cubic:20"}, "conflict", "--contenders"),
        (["service=all"], {}, "unsupported", "--service: all makes the published runs"),
        (["player=all"], {"service": "all"}, "unsupported", "name one service"),
    ],
)
def test_what_cannot_be_swept_is_refused(words: list[str], given: dict[str, str], code: Any, mentioned: str) -> None:
    with refusal(OptionsError, code, mentioned):
        sweep(*words, **given)


def finished(options: Options, scores: Scores, build: dict[str, str], *, void: bool = False) -> Path:
    with RunStore(options.results).create("video-harm", options.cell, seed=options.seed) as run:
        (run.path / "options.json").write_text(json.dumps(options.record()))
        (run.path / "timeline.json").write_text("{}")
        (run.path / "scores.json").write_text(scores.model_dump_json())
        run.add_versions(build)
        if void:
            run.void(Reason.of("failed", "too late"))
        return run.commit()


def test_finished_runs_of_the_same_options_and_seed_are_kept(tmp_path: Path, scores: Scores) -> None:
    made = sweep("rtt=10ms,40ms", results=str(tmp_path), repeat="2")
    near, far = made.experiments.values()
    runs = {seed: finished(near.repetition(seed), scores, BUILD, void=seed == 2) for seed in (1, 2)}
    kept = kept_runs(tmp_path, MACHINE)
    assert [kept(near.repetition(seed)) and kept(near.repetition(seed)).path for seed in (1, 2, 3)] == [  # type: ignore[union-attr]
        runs[1], runs[2], None,
    ]  # fmt: skip
    assert kept(near.repetition(2)).void == ("too late",)  # type: ignore[union-attr]
    assert kept(far.repetition(1)) is None
    assert kept(near.repetition(1).replace(results=tmp_path / "moved", repeat=9)) is not None
    assert kept(near.repetition(1).replace(exact=True)) is None


def test_a_larger_repeat_keeps_the_runs_of_a_smaller_one_whatever_their_order(tmp_path: Path, scores: Scores) -> None:
    once = sweep("rtt=10ms", results=str(tmp_path)).first
    runs = {finished(once.replace(seed=seed), scores, BUILD) for seed in (1, 2, 3)}
    (more,) = sweep("rtt=10ms", results=str(tmp_path), repeat="6").experiments.values()
    kept = [kept_runs(tmp_path, MACHINE)(more.repetition(number)) for number in range(1, 7)]
    assert {it.path for it in kept if it} == runs


def test_two_sweeps_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with only_sweep_in(tmp_path), refusal(OptionsError, "in-use", str(tmp_path)), only_sweep_in(tmp_path):
        pass
    with only_sweep_in(tmp_path):
        pass


def test_experiments_share_folder_and_engine(tmp_path: Path) -> None:
    (tmp_path / "sojourn.toml").write_text('[o2tv]\nresults = "elsewhere"\n')
    given = {option.name: None for option in OPTIONS}
    with refusal(OptionsError, "conflict", "--results"):
        Sweep.from_command_line(["service=youtube,o2tv"], given, tmp_path, {})


def test_a_damaged_run_is_not_kept_and_other_builds_are_refused(tmp_path: Path, scores: Scores) -> None:
    options = sweep("rtt=10ms", results=str(tmp_path)).first
    run = finished(options, scores, BUILD)
    (run / "scores.json").write_text("{")
    assert kept_runs(tmp_path, MACHINE)(options) is None
    finished(options, scores, {**BUILD, "kernel build": "other"})
    with refusal(OptionsError, "other-version", str(tmp_path)):
        kept_runs(tmp_path, MACHINE)


def test_a_sample_of_a_sweep_has_some_of_its_runs() -> None:
    every: dict[str, Any] = {option.name: None for option in OPTIONS}
    made = Sweep.from_command_line(["rtt=10ms,40ms"], every | {"repeat": "3"}, Path(), {}, sample=2)
    assert len(made.planned().waiting) == 2 and len(made.experiments) == 2
    with refusal(OptionsError, "invalid-value", "--sample=7", "6 runs"):
        Sweep.from_command_line(["rtt=10ms,40ms"], every | {"repeat": "3"}, Path(), {}, sample=7)
