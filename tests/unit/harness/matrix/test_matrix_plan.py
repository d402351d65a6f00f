# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.lab.lab_file import LabFileError
from sojourn.harness.engine.job import EngineError
from sojourn.harness.lab import make
from sojourn.harness.matrix import dumbbell, matrix_plan
from sojourn.harness.matrix.matrix import Matrix, MatrixError
from sojourn.harness.matrix.matrix_plan import MatrixPlan, prepare
from sojourn.traffic.spec import Call, Flow, ShortFlows
from tests.refusals import refusal

FLOWS = {"flows": dumbbell.flows(["cubic"], 20)}


@pytest.mark.parametrize(
    ("lab", "what", "named"),
    [
        ("virtual", FLOWS, "virtual lab"),
        ("sim", {"call": Call(rtt_us=20_000)}, "matrix m"),
    ],
)
def test_captures_are_refused_where_there_are_some_anyway(
    lab: str, what: dict[str, Any], named: str, tmp_path: Path
) -> None:
    cell = Cell(name="c", hops=(dumbbell.bottleneck(10, "fq_codel"),), seconds=10, **what)
    plan = MatrixPlan(Matrix(name="m", title="m", cells=(cell,)), (cell,), (1,), tmp_path, lab=lab, pcap=True)
    with refusal(EngineError, "no-effect", "--pcap: ", named):
        prepare(plan)
    assert not list(tmp_path.iterdir()), "before anything starts"


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"short_flows": ShortFlows(rtt_us=20_000)}, "there are no bulk flows"),
        ({"flows": (Flow(contender="udp", rate_bps=1_000_000, rtt_us=0),)}, "it sends TCP only, not udp"),
        ({"flows": dumbbell.flows(["cubic"], 20, start_s=0.5)}, "it runs whole seconds only, not 9.5 s"),
        ({"flows": dumbbell.flows(["cubic", "reno-noecn"], 20)}, "flows with and without ECN cannot share a host"),
    ],
)
def test_cells_that_iperf3_cannot_run_are_refused_before_anything_starts(
    what: dict[str, Any], why: str, tmp_path: Path
) -> None:
    fields: dict[str, Any] = {"hops": (dumbbell.bottleneck(10, "fq_codel"),), "seconds": 10}
    cells = (Cell(name="good", **FLOWS, **fields), Cell(name="bad", **what, **fields))
    plan = MatrixPlan(Matrix(name="m", title="m", cells=cells), cells, (1,), tmp_path, endpoints="iperf3")
    with refusal(EngineError, "unsupported", "--endpoints: iperf3 cannot run 1 of 2 cells of matrix m", f"bad: {why};"):
        prepare(plan)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "what", [{"flows": dumbbell.flows(["tcp_x"], 20)}, {"short_flows": ShortFlows(contender="tcp_x", rtt_us=20_000)}]
)
def test_a_control_that_the_kernel_does_not_have_is_refused(what: dict[str, Any], tmp_path: Path) -> None:
    cell = Cell(name="c", hops=(dumbbell.bottleneck(10, "fq_codel"),), seconds=10, **what)
    with refusal(EngineError, "unknown-value", "matrix m: tcp_x"):
        prepare(MatrixPlan(Matrix(name="m", title="m", cells=(cell,)), (cell,), (1,), tmp_path))
    assert not list(tmp_path.iterdir()), "before anything starts"


def test_a_scream_call_next_to_a_cell_that_only_talkers_could_run_is_refused(tmp_path: Path) -> None:
    box = (dumbbell.bottleneck(10, "fq_codel"),)
    cells = (
        Cell(name="scream", hops=box, seconds=10, call=Call(rtt_us=20_000, cc="scream")),
        Cell(name="ipsec", hops=box, seconds=10, tunnel="ipsec", **FLOWS),
    )
    with refusal(MatrixError, "unsupported", "a SCReAM call", "IPsec", "-k"):
        prepare(MatrixPlan(Matrix(name="m", title="m", cells=cells), cells, (1,), tmp_path))


def test_a_refused_lab_is_answered_with_those_that_can_run_the_selected_cells(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"hops": (dumbbell.bottleneck(10, "fq_codel"),), "seconds": 10}
    everywhere, ipsec = Cell(name="a", **FLOWS, **fields), Cell(name="b", tunnel="ipsec", **FLOWS, **fields)
    both = Matrix(name="m", title="m", cells=(everywhere, ipsec))
    with refusal(MatrixError, "unsupported", "the virtual lab has no IPsec; give --lab=sim") as refused:
        prepare(MatrixPlan(both, (ipsec,), (1,), tmp_path, lab="virtual"))
    assert "--lab=virtual" not in str(refused.value)
    nowhere = Cell(name="c", tunnel="ipsec", call=Call(rtt_us=20_000, sound=True), **fields)
    alone = Matrix(name="m", title="m", cells=(nowhere,))
    with refusal(MatrixError, "unsupported", "the sim lab has no IPsec; no other lab can run these cells"):
        prepare(MatrixPlan(alone, (nowhere,), (1,), tmp_path, lab=alone.preferred_lab))


def plan(tmp_path: Path, lab: str, source: str) -> MatrixPlan:
    cell = Cell(name="c", hops=(dumbbell.bottleneck(10, "fq_codel"),), seconds=10, flows=FLOWS["flows"])
    return MatrixPlan(
        Matrix(name="m", title="m", cells=(cell,)), (cell,), (1,), tmp_path, lab=lab, kernel_source=Path(source)
    )


def test_a_physical_router_takes_no_kernel(tmp_path: Path) -> None:
    with refusal(EngineError, "no-effect", "--kernel-source: "):
        prepare(plan(tmp_path, "apu", "/no/linux-7.3.tar.xz"))
    assert not list(tmp_path.iterdir()), "before anything starts"


def test_a_call_is_refused_for_a_server_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_plan, "require_programs_of_cells", lambda *_, **__: None)
    (lab := tmp_path / "lab.toml").write_text(
        '[router]\nssh = "apu"\nlan = "a"\nwan = "b"\n[client]\naddress = "10.0.0.1"\n[receiver]\n'
        'address = "10.0.0.3"\n[server]\nssh = "root@server"\naddress = "10.0.1.2"\n[sender]\naddress = "10.0.1.4"\n'
    )
    cell = Cell(name="c", hops=(dumbbell.bottleneck(10, "fq_codel"),), seconds=10, call=Call(rtt_us=20_000))
    matrix = Matrix(name="m", title="m", cells=(cell,))
    with refusal(LabFileError, "unsupported", f"--lab-file: {lab}: [server] ssh: ", "a matrix without calls"):
        prepare(MatrixPlan(matrix, (cell,), (1,), tmp_path / "results", lab="apu", lab_file=lab))


@pytest.mark.parametrize(
    ("lab", "source", "name"),
    [
        ("sim", "linux-7.3.4.tar.xz", "m-linux-7.3.4"),
        ("virtual", "linux-source-7.3.tar.gz", "m-virtual-linux-source-7.3"),
        ("sim", "net-next.tar", "m-net-next"),
    ],
)
def test_runs_of_a_kernel_that_was_given_are_kept_apart(lab: str, source: str, name: str, tmp_path: Path) -> None:
    assert plan(tmp_path, lab, source).folder == tmp_path / name


def test_a_lab_is_made_for_the_cells_that_run_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_build", "confinement", "require_programs_of_cells", "real_time_inputs_digest"):
        monkeypatch.setattr(matrix_plan, name, lambda *_, **__: "")
    made: list[Any] = []
    monkeypatch.setattr(
        make, "lab_maker", lambda _machines, rates, *_, **what: made.append((max(rates), what["version"]))
    )
    fields: dict[str, Any] = {"seconds": 10}
    runs = Cell(name="runs", hops=(dumbbell.bottleneck(10, "fq_codel"),), **FLOWS, **fields)
    hop = dumbbell.bottleneck(100, "fq_codel")
    skipped = Cell(name="skipped", hops=(hop,), short_flows=ShortFlows(rtt_us=20_000), ip_version=6, **fields)
    cells = runs, skipped
    plan = MatrixPlan(Matrix(name="m", title="m", cells=cells), cells, (1,), tmp_path, lab="virtual")
    jobs, _ = prepare(plan)
    assert [job.cell.name for job in jobs] == ["runs"] and made == [(10_000_000, 4)]
