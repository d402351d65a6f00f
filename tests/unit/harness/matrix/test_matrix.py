# SPDX-License-Identifier: Apache-2.0
"""Matrices as data: how they are found and named, what they refuse, what is expected of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from pydantic import ValidationError

from sojourn.bottleneck.spec import Direction, Hop
from sojourn.hardware.lab.lab_file import LabFileError
from sojourn.hardware.machine.errors import Code
from sojourn.harness.matrix.complete import JobOutcome
from sojourn.harness.matrix.matrix import (
    Column,
    Difference,
    Expectation,
    Matrix,
    MatrixError,
    Reference,
    figure,
    matrices,
    named,
)
from sojourn.harness.matrix.matrix_plan import MatrixPlan, prepare
from sojourn.harness.matrix.results import Results, finished, run_folder
from sojourn.harness.matrix.session import judged
from sojourn.scoring.schema.scores import SCORES
from sojourn.traffic.rust import missing_tools
from tests.refusals import refusal
from tests.unit.harness.matrix.cell_runs import cell, job

LAB = ("client", "1::10"), ("receiver", "1::20"), ("server", "2::10"), ("sender", "2::20")
FILE = """from sojourn.harness.matrix.matrix import Matrix
from tests.unit.harness.matrix.cell_runs import cell
MATRIX = Matrix(name="{name}", title="T", cells=({cells}))
"""


def matrix(**fields: object) -> Matrix:
    return Matrix(**{"name": "m", "title": "T", "cells": (cell("a"), cell("b 2")), **fields})  # type: ignore[arg-type]


def test_the_checkouts_own_matrices_are_found_and_whole() -> None:
    known = matrices()
    assert {"s1", "s2", "s3", "s4", "s5", "s6", "s9"} <= known.keys()
    assert len(known["s6"].cells) == 24 and len(known["s1"].cells) == 192
    # Of Pantheon's schemes some are to be had nowhere, and QUIC flows need cargo, one of them cmake and clang too.
    needy = {"quic-bbr"} if missing_tools("quic-quiche") else set()
    needy |= {"l4s-media-draft", "scream2"} if missing_tools() else set()
    assert {name for name, matrix in known.items() if matrix.runnable != matrix.cells} == {"pantheon"} | needy


def test_a_lab_in_real_time_has_one_ip_version(tmp_path: Path) -> None:
    both = Direction(rate_bps=10_000_000, qdisc="pie")
    made = cell("a").model_copy(update={"hops": (Hop(down=both, up=both),)})
    (lab := tmp_path / "lab.toml").write_text(
        '[router]\nssh = "apu"\nlan = "a"\nwan = "b"\n'
        + "".join(f'[{name}]\naddress = "fd42:{n}"\n' for name, n in LAB)
    )
    plan = MatrixPlan(matrix(), (made,), (1,), tmp_path, lab="apu", lab_file=lab)
    with refusal(LabFileError, "conflict", "--lab-file", lab, "IPv6", "IPv4"):
        prepare(plan)
    mixed = (made, made.model_copy(update={"ip_version": 6}))
    with refusal(MatrixError, "unsupported", "matrix m", "IPv4", "IPv6", "apu"):
        prepare(replace(plan, cells=mixed))


def test_only_files_that_define_a_matrix_are_imported(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(FILE.format(name="one", cells="cell('a'),"))
    (tmp_path / "test_other.py").write_text("raise SystemError  # imported by nobody\n")
    (tmp_path / "helper.py").write_text(FILE.format(name="two", cells="cell('a'),"))
    assert [*matrices(tmp_path)] == ["one"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (FILE.format(name="one", cells="cell('a'),"), ("duplicate", "one")),
        (FILE.format(name="two", cells="cell('a'), cell('a')"), ("invalid-value", "same name: a")),
        (FILE.format(name="two", cells="cell('a', -1),"), ("invalid-value", "greater than 0")),
        ("MATRIX = 1\n", ("invalid-value", "MATRIX")),
        ("import nothing_of_that_name\nMATRIX = 1\n", ("unreadable-file", "ModuleNotFoundError")),
    ],
)
def test_a_file_that_is_wrong_is_named_in_one_line(tmp_path: Path, text: str, why: tuple[Code, str]) -> None:
    (tmp_path / "test_one.py").write_text(FILE.format(name="one", cells="cell('a'),"))
    (tmp_path / "test_two.py").write_text(text)
    with refusal(MatrixError, *why) as refused:
        matrices(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path}/test_two.py: ")


def test_an_unknown_matrix_is_told_with_its_neighbours() -> None:
    known = {name: matrix(name=name) for name in ("s1", "s6", "pantheon")}
    assert named("s6", known) is known["s6"]
    with refusal(MatrixError, "unknown-value", "'panteon'", "did you mean pantheon"):
        named("panteon", known)


def test_cells_are_selected_by_every_word_and_those_that_cannot_run_are_left_out() -> None:
    unmet = cell("b 3").model_copy(update={"needs": "the SCE kernel"})
    whole = matrix(cells=(cell("a"), cell("B 2"), unmet))
    assert [it.name for it in whole.select()] == ["a", "B 2"]
    assert [it.name for it in whole.select("2 b")] == ["B 2"]
    with refusal(MatrixError, "unknown-value", "'4'"):
        whole.select("4")
    with refusal(MatrixError, "unsupported", "'3'", "needed: the SCE kernel"):
        whole.select("3")
    with refusal(MatrixError, "unsupported", "no cell can run here; needed: the SCE kernel"):
        matrix(cells=(unmet,)).select()


def test_figures_of_no_cell_are_refused() -> None:
    with pytest.raises(ValidationError, match="published figures of unknown cells: c"):
        matrix(reference=Reference(csv="x.csv", published={"c": {"ratio": 1}}, tolerance={}))


def test_a_cell_can_have_a_window_of_its_own() -> None:
    whole = matrix(window_s=40, tail_s=1, windows={"a": 70})
    assert [whole.window_of(one) for one in whole.cells] == [(70, 1), (40, 1)]
    with pytest.raises(ValidationError, match="windows of unknown cells: c"):
        matrix(windows={"c": 70})


def test_the_windows_of_backoff_are_the_published_ones() -> None:
    backoff = matrices()["call-backoff"]
    begins = {one.name: one.seconds - sum(backoff.window_of(one)) for one in backoff.cells}
    assert begins["prague-dualpi2-alone"] == pytest.approx(43.08) and begins["cubic-codel-alone"] == pytest.approx(1.88)


def test_an_expectation_of_no_cell_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"expectations that match no cell: \^c"):
        matrix(expectations=(Expectation(metric="ratio", cells="^a"), Expectation(metric="ratio", cells="^c")))


def test_runs_of_other_endpoints_have_a_folder_of_their_own(tmp_path: Path) -> None:
    whole = matrix()

    def folder(**fields: object) -> str:
        return MatrixPlan(whole, whole.cells, (1,), tmp_path, **fields).folder.name  # type: ignore[arg-type]

    assert folder() == "m" and folder(endpoints="iperf3") == "m-iperf3" and folder(lab="virtual") == "m-virtual"


def test_figures_are_found_by_their_path() -> None:
    scores = {"flows": [{"d_ss_mbps": 4}], "ratio": 2.5, "name": "x"}
    assert (figure(scores, "flows.0.d_ss_mbps"), figure(scores, "ratio")) == (4.0, 2.5)
    assert figure({"short": {"p95_s": "Infinity"}}, "short.p95_s") == inf
    for path in ("flows.1.d_ss_mbps", "flows.x", "ratio.0", "name", "flows"):
        assert figure(scores, path) is None


def test_a_run_is_judged_by_what_is_expected_of_its_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = (
        Expectation(metric="ratio", low=10, high=80, cells="^a"),
        Expectation(metric="ratio", high=1, cells="^b"),
        Expectation(metric="nothing"),
    )
    whole = matrix(expectations=expected, columns=(Column(head="n : 1", metric="ratio", digits=1),))
    (tmp_path / SCORES).write_text(json.dumps({"ratio": 9.96}))
    it = whole.cells[0]
    broken = judged(whole, it, [JobOutcome(job("a", 7), tmp_path, "ran")])
    assert broken == ["a, seed 7: ratio is 9.96, not 10 to 80", "a, seed 7: nothing is missing, not -inf to inf"]
    assert capsys.readouterr().out == "a, seed 7: n : 1 10.0\n"
    failed = judged(whole, it, [JobOutcome(job("a", 7), tmp_path, "failed", "it fell over")])
    assert failed == [f"a, seed 7: it fell over; see {tmp_path}"]


def test_a_figure_over_two_runs_is_judged_by_pytest_as_by_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    difference = Difference(cell="b 2", metric="gain", of="ratio", more="b 2", less="a")
    expected = Expectation(metric="gain", high=1, cells="^b"), Expectation(metric="ratio", high=1, cells="^a")
    column = Column(head="gain", metric="gain", digits=1)
    whole = matrix(differences=(difference,), expectations=expected, columns=(column,))
    gathered, outcomes = Results(whole, tmp_path), []
    for number, one in enumerate(whole.cells):
        (folder := tmp_path / str(number)).mkdir()
        (folder / SCORES).write_text(json.dumps(scores := {"ratio": 2 + 3 * number}))
        gathered.take(one, 1, folder, scores)
        outcomes.append(JobOutcome(job(one.name), folder, "ran"))
    gathered.derive()
    assert whole.sources("b 2") == {"a"} and not whole.sources("a")
    broken = [line for one in whole.cells for line in judged(whole, one, outcomes)]
    assert broken == gathered.broken() and len(broken) == 2 and "gain is 3," in broken[1]
    assert capsys.readouterr().out.endswith("b 2, seed 1: gain 3.0\n")


def test_finished_runs_come_in_order_of_cells_and_seeds(tmp_path: Path) -> None:
    whole = matrix()
    for one, seed in ((whole.cells[1], 2), (whole.cells[0], 10), (whole.cells[0], 9)):
        folder = run_folder(tmp_path, one, seed)
        folder.mkdir(parents=True)
        (folder / SCORES).write_text("{}")
    run_folder(tmp_path, whole.cells[1], 3).with_suffix(".partial").mkdir()
    assert [(it.name, seed) for it, seed, _ in finished(whole, tmp_path)] == [("a", 9), ("a", 10), ("b 2", 2)]


def test_a_swapped_contender_is_another_experiment_with_results_of_its_own() -> None:
    asked = named("s6", matrices())
    assert asked.runnable
    swapped = asked.swapped("prague-2020=prague")
    assert {flow.contender for cell in swapped.cells for flow in cell.flows} == {
        "prague", "cubic-accecn", "reno-accecn",
    }  # fmt: skip
    assert swapped.name == "s6-prague-for-prague-2020"
    # What is beside it and what its cells are named by is of another contender.
    assert swapped.title == f"{asked.title} (prague in place of prague-2020, which cells are named after)"
    assert asked.expectations and not swapped.expectations
    judged = named("s1", matrices())
    published = judged.reference, judged.swapped("prague-2020=prague").reference
    assert published[0] and published[0].correlations and published[1] and not published[1].correlations
    assert swapped.runnable == swapped.cells, "not the cells that were asked for first"
    assert not {c.digest() for c in swapped.cells} & {c.digest() for c in asked.cells}
    limited = named("call-backoff", matrices())
    assert any(it.low > -inf for it in limited.contrasts)
    others = limited.swapped("prague=reno").contrasts
    assert len(others) == len(limited.contrasts) and all(it.low == -inf and it.high == inf for it in others)
    wrong: tuple[tuple[str, tuple[Code, *tuple[str, ...]]], ...] = (
        ("prague", ("invalid-value", "--swap=prague: give OLD=NEW")),
        ("=prague", ("invalid-value", "--swap==prague: give OLD=NEW")),
        ("prague-2020=prague-2020", ("invalid-value", "--swap=prague-2020=prague-2020: give OLD=NEW")),
        ("vegas=cubic", ("no-effect", "s6", " vegas", "prague-2020, cubic-accecn, reno-accecn")),
        ("x=cubic", ("unknown-value", "'x'")),
    )
    for text, why in wrong:
        with refusal(MatrixError, why[0], "--swap", *why[1:]):
            asked.swapped(text)


def test_a_trace_takes_the_place_of_slots_and_has_results_of_its_own(tmp_path: Path) -> None:
    trace = tmp_path / "T-Mobile LTE.down"
    trace.write_text("".join(f"{at}\n" for at in range(1, 1001)))
    known = matrices()
    asked = known["pantheon"].traced(trace)
    assert asked.name == "pantheon-t-mobile-lte" and asked.title.endswith(" (delivery trace T-Mobile LTE.down)")
    changed = [cell for cell in asked.cells if cell not in known["pantheon"].cells]
    assert changed and all(cell.name.endswith("-cellular") for cell in changed)
    assert {cell.hops[0].down.rate_bps for cell in changed if cell.hops[0].down} == {12_112_000}
    with refusal(MatrixError, "no-effect", "--trace: ", "s6"):
        known["s6"].traced(trace)
    with refusal(MatrixError, "invalid-value", "--trace: ", "none.down"):
        known["pantheon"].traced(tmp_path / "none.down")


def test_a_swap_says_what_the_flows_of_a_matrix_are() -> None:
    known = matrices()
    with refusal(MatrixError, "no-effect", "--swap", "call-delay", "no flow cubic; its flows: none"):
        known["call-delay"].swapped("cubic=reno")
    with refusal(MatrixError, "unsupported", "--swap=udp-nqb=cubic: ", "need rate_bps"):
        known["nqb"].swapped("udp-nqb=cubic")
    assert known["nqb"].swapped("udp-nqb=udp-ect1").runnable


def test_a_program_takes_the_place_of_a_flow_where_single_packets_are_measured() -> None:
    known = matrices()
    swapped = known["pantheon"].swapped("quic-cubic=quic-newreno")
    assert {f.contender for cell in swapped.cells for f in cell.flows} >= {"quic-newreno"}
    with refusal(MatrixError, "unsupported", "--swap=cubic-accecn=quic-cubic: ", "packets"):
        known["s6"].swapped("cubic-accecn=quic-cubic")


def test_a_users_program_takes_the_place_of_the_first_flow_and_needs_no_single_packets() -> None:
    known = matrices()
    swapped = known["quic"].swapped("program_mine")
    assert swapped.name == "quic-program-mine-for-program-quic-cubic"
    assert {cell.flows[0].contender for cell in swapped.cells} == {"program_mine"}
    assert {flow.contender for cell in swapped.cells for flow in cell.flows[1:]} == {"cubic", "prague"}
    with refusal(MatrixError, "unsupported", "--swap=cubic-accecn=program_mine: ", "mangled_flows"):
        known["s6"].swapped("cubic-accecn=program_mine")
    assert "virtual" in swapped.labs and "sim" in swapped.labs and "apu" not in swapped.labs
