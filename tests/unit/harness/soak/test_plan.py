# SPDX-License-Identifier: Apache-2.0
"""A plan is read as it is written, its errors name file, table and key, and rounds follow from the attempts alone."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from sojourn.harness.options.rules import parse_options
from sojourn.harness.soak.child import Task, main
from sojourn.harness.soak.plan import PlanError, SoakPlan, of_round, read_plan
from sojourn.harness.soak.rounds import expected_s, next_run, next_runs, order, quarantined
from sojourn.harness.soak.state import Attempt, Outcome
from sojourn.harness.store.reasons import Reason
from tests.refusals import refusal

PLAN = """
seed = 7
retries = 1
quarantine = 4
[options]
rate = "5mbit"
buffer = 8
[cells.queues]
qdisc = ["fq_codel flows 1", "dualpi2"]
[cells."one flow"]
timeline = "solo:20,prague:40"
rate = "20mbit"
"""


def read(folder: Path, text: str = PLAN) -> SoakPlan:
    (path := folder / "plan.toml").write_text(text)
    return read_plan(path)


def test_a_cell_takes_the_names_of_the_command_line(tmp_path: Path) -> None:
    plan = read(tmp_path)
    assert [cell.name for cell in plan.cells] == ["queues fq_codel flows 1", "queues dualpi2", "one flow"]
    asked = {"rate": "20mbit", "buffer": "8", "timeline": "solo:20,prague:40"}
    assert plan.cells[2].options == parse_options(asked)
    assert [str(cell.options.qdisc_down) for cell in plan.cells[:2]] == ["fq_codel flows 1", "dualpi2"]
    assert plan.results == tmp_path / "soak"
    assert (plan.cells[2].phases_s, plan.limit_s(plan.cells[2])) == (60, 420)


def test_paths_are_relative_to_the_plan(tmp_path: Path) -> None:
    plan = read(tmp_path, '[cells.a]\nlab = "apu"\n[cells.b]\nlab = "apu"\nlab-file = "/etc/lab.toml"\n')
    assert [str(cell.options.lab_file) for cell in plan.cells] == [str(tmp_path / "lab.toml"), "/etc/lab.toml"]


def test_a_scenario_is_a_cell_and_may_change_in_the_night(tmp_path: Path) -> None:
    (tmp_path / "evening.toml").write_text('rate = "20mbit,30s:5mbit"\nloss = "1%"\ncontenders = "cubic*4"\n')
    text = '[options]\nscenario = "evening.toml"\nlab = "virtual"\n[cells.a]\n[cells.b]\nloss = "2%"\n'
    first, second = read(tmp_path, text).cells
    assert (first.options.loss_percent, second.options.loss_percent) == (1, 2)
    assert [cell.options.phases[1].contender for cell in (first, second)] == ["cubic*4"] * 2
    assert first.given["rate"] == "20000000bit,30.0s:5000000bit" and "scenario" not in first.given
    with refusal(PlanError, "not-from-file", "[cells.a]", "evening.toml: repeat: "):
        (tmp_path / "evening.toml").write_text("repeat = 3\n")
        read(tmp_path, text)


def test_an_included_scenario_is_a_cell_by_its_name(tmp_path: Path) -> None:
    (cell,) = read(tmp_path, '[cells.a]\nscenario = "household-short"\n').cells
    assert cell.options.loss_percent == 0.02
    with refusal(PlanError, "unreadable-file", "[cells.a]", "household-shrt", "did you mean household-short?"):
        read(tmp_path, '[cells.a]\nscenario = "household-shrt"\n')


def test_a_run_has_its_cells_options_without_the_steps_of_a_scenario_beyond_the_timeline(tmp_path: Path) -> None:
    text = '[cells.a]\nscenario = "household"\ntimeline = "solo:20,cubic:20"\n[cells.b]\nscenario = "household"\n'
    for cell, steps in zip(read(tmp_path, text).cells, (0, 1), strict=True):
        task = Task.model_validate_json(Task(given=dict(cell.given), folder=tmp_path).model_dump_json())
        options = parse_options({}, task.given)
        assert options == cell.options and len(options.rate_steps) == steps


def test_a_run_whose_options_are_refused_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = Task(given={"rate": "12"}, folder=tmp_path)
    monkeypatch.setattr(sys, "argv", ["child", "check", task.model_dump_json()])
    with pytest.raises(SystemExit, match="1"):
        main()
    error = capsys.readouterr().err
    assert error.startswith("OptionsError: --rate: ") and error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[cells.a\n", "plan.toml: not valid TOML: "),
        ("seed = 1\n", "plan.toml: [cells]: no cell; add a table such as [cells.queues]"),
        ("[cells]\n", "plan.toml: [cells]: no cell; add a table such as [cells.queues]"),
        ("retrys = 2\n[cells.a]\n", "plan.toml: retrys: no such key; did you mean retries?"),
        ("retries = -1\n[cells.a]\n", "plan.toml: retries: input should be greater than or equal to 0"),
        ("seed = -5\n[cells.a]\n", "plan.toml: seed: '-5' is not a seed; give a whole number from 0 to 4294967295"),
        ("seed = 4294967296\n[cells.a]\n", "plan.toml: seed: '4294967296' is out of range"),
        ("[disk]\nkeep_free = 2\n[cells.a]\n", "plan.toml: [disk] keep_free: no such key; did you mean keep_free_gb?"),
        (
            '[[disk.prune]]\nfile = "scores.json"\nolder_than_days = 1\n[cells.a]\n',
            "plan.toml: [disk.prune.0] file: scores.json is needed for reports",
        ),
        (
            '[[disk.prune]]\nfile = "../x/screen.mp4"\nolder_than_days = 1\n[cells.a]\n',
            "plan.toml: [disk.prune.0] file: ../x/screen.mp4 leads out of the run",
        ),
        (
            '[[disk.prune]]\nfile = "./scores.json"\nolder_than_days = 1\n[cells.a]\n',
            "plan.toml: [disk.prune.0] file: ./scores.json leads out of the run",
        ),
        ("[disk]\nkeep_free_gb = inf\n[cells.a]\n", "plan.toml: [disk] keep_free_gb: input should be a finite number"),
        ("[disk]\nkeep_free_gb = 1e300\n[cells.a]\n", "plan.toml: [disk] keep_free_gb: input should be less than"),
        ('results = "~nosuchuser/n"\n[cells.a]\n', "plan.toml: results: '~nosuchuser/n': Could not determine home"),
        ('results = "a\\u0000b"\n[cells.a]\n', "plan.toml: results: 'a\\x00b': a path cannot contain a null character"),
        (
            '[cells.a]\nlab = "apu"\nlab-file = "~nosuchuser/lab.toml"\n',
            "plan.toml: [cells.a] lab-file: '~nosuchuser/lab.toml': Could not determine home",
        ),
        ('[cells.a]\nqdsic = "dualpi2"\n', "plan.toml: [cells.a] qdsic: no such option; did you mean qdisc?"),
        ("[options]\nseed = 2\n[cells.a]\n", "plan.toml: [options] seed: the soak sets it for every run"),
        (
            '[cells.a]\nengine = "tls://far:8786"\nlab = "virtual"\n',
            "plan.toml: [cells.a] engine: the virtual lab runs on this machine",
        ),
        ('[cells."a b"]\nrate = "12"\n', 'plan.toml: [cells."a b"] rate: "12" has no unit'),
        ('[options]\nrate = "12"\n[cells.a]\n', 'plan.toml: [options] rate: "12" has no unit'),
        ('[cells.a]\nqdisc = ["dualpi2", "fq_codle"]\n', 'plan.toml: [cells.a] qdisc: unknown qdisc "fq_codle"'),
        ('[cells.a]\ncontenders = "cubicc"\n', "plan.toml: [cells.a] contenders: unknown contender 'cubicc'"),
        ('[cells.a]\nlive = "yes"\n', "plan.toml: [cells.a] live: give true or false"),
        ("[cells.a]\nrate = []\n", "plan.toml: [cells.a] rate: an empty list"),
        ("[cells.a]\nrate = {}\n", "plan.toml: [cells.a] rate: give a string, a number, true or false, or a list"),
        ('[cells.a]\nservice = "youtub"\n', "plan.toml: [cells.a] service: unknown 'youtub'"),
        ('[cells.a]\nservice = "all"\n', "plan.toml: [cells.a] service: all makes the published runs"),
        ("[cells.a]\n[cells.b]\n", "plan.toml: [cells.b]: 'b' and 'a' have identical options"),
        (
            '[cells."a 2"]\nbuffer = 3\n[cells.a]\nbuffer = [2]\n',
            "plan.toml: [cells.a]: two cells are named 'a 2'",
        ),
    ],
)
def test_what_cannot_work_names_file_table_and_key(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(PlanError) as wrong:
        read(tmp_path, text)
    assert error in str(wrong.value) and "\n" not in str(wrong.value)


def test_no_plan(tmp_path: Path) -> None:
    with refusal(PlanError, "unreadable-file", "no.toml: No such file"):
        read_plan(tmp_path / "no.toml")


def history(plan: SoakPlan, outcomes: dict[str, Outcome], runs: int) -> list[Attempt]:
    """What a night gives in which each run of a cell ends as `outcomes` says (default: valid)."""
    made: list[Attempt] = []
    while len(made) < runs and (job := next_run(plan, plan.file.seed, made)):
        outcome = outcomes.get(job.cell.name, "valid")
        reasons = [Reason.of("failed", f"{outcome}: why")] if outcome != "valid" else []
        made.append(
            Attempt(number=len(made) + 1, round=job.round, cell=job.cell.name, seed=job.round, begun=100.0 * len(made),
                    ended=100.0 * len(made) + 80, outcome=outcome, reasons=reasons)
        )  # fmt: skip
    return made


def test_every_round_runs_every_cell_once_in_an_order_of_its_own(tmp_path: Path) -> None:
    plan = read(tmp_path)
    made = history(plan, {}, 30)
    rounds = [tuple(it.cell for it in made if it.round == number) for number in range(1, 11)]
    assert all(set(names) == {cell.name for cell in plan.cells} and len(names) == 3 for names in rounds)
    assert len(set(rounds)) > 2
    assert rounds[4] == tuple(cell.name for cell in order(plan, 7, 5))  # by the seed alone


def test_a_void_run_is_made_again_at_once_and_then_left_until_its_cell_is_in_quarantine(tmp_path: Path) -> None:
    plan = read(tmp_path)
    made = history(plan, {"one flow": "void"}, 20)
    tries = Counter(it.round for it in made if it.cell == "one flow")
    assert tries == {1: 2, 2: 2}, "one retry a round, four in a row: out"
    numbers = [it.number for it in made if (it.cell, it.round) == ("one flow", 1)]
    assert numbers[1] == numbers[0] + 1
    assert quarantined(plan.file, "one flow", made) == ("void: why",)
    assert quarantined(plan.file, "queues dualpi2", made) == ()


def test_a_valid_run_between_keeps_a_cell_out_of_quarantine(tmp_path: Path) -> None:
    plan = read(tmp_path)
    made = history(plan, {cell.name: "void" for cell in plan.cells}, 7)
    made[5] = made[5].model_copy(update={"outcome": "valid"})
    assert not any(quarantined(plan.file, cell.name, made) for cell in plan.cells)


def test_a_night_ends_when_all_cells_are_in_quarantine_or_all_rounds_are_over(tmp_path: Path) -> None:
    plan = read(tmp_path)
    assert len(history(plan, {cell.name: "failed" for cell in plan.cells}, 99)) == 12
    assert len(history(read(tmp_path, "rounds = 2\n" + PLAN), {}, 99)) == 6


def test_a_run_that_the_user_stopped_counts_for_nothing(tmp_path: Path) -> None:
    plan = read(tmp_path)
    made = history(plan, {}, 1)
    stopped = [made[0].model_copy(update={"outcome": "stopped"})] * 5
    job = next_run(plan, 7, stopped)
    assert job and (job.cell.name, job.round, job.attempt) == (made[0].cell, 1, 1)


def test_a_killed_run_is_made_again_in_its_round_but_not_for_ever(tmp_path: Path) -> None:
    """A cell that takes the machine down must not do so all night."""
    plan = read(tmp_path)
    made = history(plan, {cell.name: "killed" for cell in plan.cells}, 99)
    assert [it.round for it in made] == [1] * 12 and made[0].cell == made[3].cell != made[4].cell


def test_only_runs_in_simulated_time_for_one_engine_go_side_by_side(tmp_path: Path) -> None:
    plan = read(tmp_path, PLAN + '[cells.real]\nlab = "virtual"\n[cells.there]\nengine = "tls://node:8786"\n')
    made: list[Attempt] = []
    batches: list[list[str]] = []
    while len(made) < 50:
        runs = next_runs(plan, 7, made, lambda _: 3)
        batches.append([job.cell.name for job in runs])
        for job in runs:
            made.append(
                Attempt(number=len(made) + 1, round=job.round, cell=job.cell.name, seed=1, begun=0, outcome="valid")
            )
    assert all(len(names) == 1 for names in batches if "real" in names)
    assert all(set(names) == {"there"} for names in batches if "there" in names)
    assert max(map(len, batches)) == 3
    for number in range(1, 8):
        assert len({it.cell for it in made if it.round == number}) == 5


def test_a_batch_ends_with_the_last_round(tmp_path: Path) -> None:
    plan = read(tmp_path, "rounds = 3\n[cells.a]\n")
    assert [job.round for job in next_runs(plan, 1, [], lambda _: 8)] == [1, 2, 3]
    assert [job.round for job in next_runs(plan, 1, history(plan, {"a": "void"}, 1), lambda _: 8)] == [1, 2, 3]
    assert next_runs(plan, 1, history(plan, {}, 3), lambda _: 8) == []


def test_how_long_a_run_takes_is_known_from_the_ended_ones(tmp_path: Path) -> None:
    plan = read(tmp_path)
    assert expected_s(plan, plan.cells[2], []) == 120
    assert expected_s(plan, plan.cells[2], history(plan, {}, 3)) == 80


@pytest.mark.parametrize(
    ("outcome", "took", "expected"),
    [("void", 18_000.0, 120), ("void", -3600.0, 120), ("valid", 18_000.0, 420), ("valid", -3600.0, 60)],
)
def test_a_run_in_which_the_host_slept_or_the_clock_was_set_does_not_end_the_night(
    tmp_path: Path, outcome: Outcome, took: float, expected: float
) -> None:
    plan = read(tmp_path)
    run = Attempt(number=1, round=1, cell="one flow", seed=1, begun=4e4, ended=4e4 + took, outcome=outcome)
    assert expected_s(plan, plan.cells[2], [run]) == expected


def test_runs_of_a_cell_have_seeds_and_orders_of_their_own(tmp_path: Path) -> None:
    cell = read(tmp_path).cells[0]
    asked = [of_round(cell.options, 7, number, tmp_path) for number in range(1, 9)]
    assert [it.seed for it in asked] == list(range(7, 15))
    orders = {tuple(phase.contender for phase in it.phases) for it in asked}
    assert orders == {(None, "cubic", None, "prague", None), (None, "prague", None, "cubic", None)}
    assert all(it.results == tmp_path for it in asked)


def test_lists_that_nobody_waits_for_are_refused_at_once(tmp_path: Path) -> None:
    rates = [f"{n + 1}mbit" for n in range(40)]
    times = [f"{n + 1}ms" for n in range(40)]
    lists = f"rate = {rates}\nrate-up = {rates}\nrtt = {times}\n"
    (tmp_path / "plan.toml").write_text(f'results = "night"\n[cells.many]\n{lists}')
    with refusal(PlanError, "out-of-range", "[cells.many]: rate, rate-up, rtt: 64000 ", " 10000"):
        read_plan(tmp_path / "plan.toml")
