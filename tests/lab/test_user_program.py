# SPDX-License-Identifier: Apache-2.0
"""The user's own sender in simulated cells: the example of the documentation, iperf3, and programs that fail."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.harness.lab.machine import SimulatedError
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.simulated_call import run_cell
from sojourn.scoring.schema.columns import FLOWS, INTERVALS
from sojourn.traffic.user_program import UserProgram, read_user_program
from tests.refusals import refusal

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]
EXAMPLE = Path(__file__).parents[2] / "docs/examples/program"
SECONDS, MBPS = 10, 10


def cell(contender: str, queue: str = "fq_codel") -> Cell:
    flows = dumbbell.flows([contender], 20)
    return Cell(name=contender, flows=flows, hops=(dumbbell.bottleneck(MBPS, queue),), seconds=SECONDS)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the example, compiled."""
    folder = Path(shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("example") / "mine"))
    subprocess.run(["cc", "-O2", "-o", folder / "mine", folder / "mine.c"], check=True)
    return folder


def defined(folder: Path, *lines: str) -> UserProgram:
    (folder / "it.toml").write_text("\n".join(lines))
    return read_user_program(str(folder / "it.toml"))


def ran(program: UserProgram, folder: Path, queue: str = "fq_codel", contender: str = "") -> Path:
    folder.mkdir()
    run_cell(cell(contender or program.name, queue), folder, seed=3, programs=[program])
    return folder


def goodput_mbps(folder: Path) -> float:
    """Mean over the second half."""
    rows = pl.read_csv(folder / "flows.csv", schema=FLOWS).filter(pl.col("t_s") >= SECONDS / 2)
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    return float((last["received_bytes"] - first["received_bytes"]) * 8e-6 / (last["t_s"] - first["t_s"]))


def test_the_example_is_measured_and_repeats_to_the_byte(example: Path, tmp_path: Path) -> None:
    program = read_user_program(str(example / "mine.toml"))
    first, second = (ran(program, tmp_path / name, "dualpi2") for name in ("first", "second"))
    for name in ("flows.csv", "intervals.csv", "queues.jsonl", "wire.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    rows = pl.read_csv(first / "intervals.csv", schema=INTERVALS)
    assert rows["ect1"].sum() == rows["sent"].sum() > 1000
    known = rows.filter(pl.col("t_s") < SECONDS - 3)  # of later packets, the end may be unknown
    assert 0 < known["marked"].sum() < known["sent"].sum() / 4
    assert known["marked"].sum() == pytest.approx(known["ce"].sum(), rel=0.1)
    assert rows["mbps"].mean() == pytest.approx(goodput_mbps(first), rel=0.1)
    assert rows["queue_ms"].drop_nulls().min() >= -0.001 and rows["queue_ms"].mean() < 2  # type: ignore[operator]
    specification = json.loads((first / "cell.json").read_text())
    assert {"kernel source", "kernel build", "guest"} <= specification["kernel"].keys()
    gates = {gate["code"]: gate for gate in specification["gates"]}
    assert "ECT(1) 100.0%" in gates["contender-proven"]["measured"]
    assert {file.name for file in (first / "evidence").glob("program-*")} == {
        "program-mine-0.client.log", "program-mine-0.server.log"
    }  # fmt: skip


def test_iperf3_as_a_program_gets_what_the_contender_cubic_gets(tmp_path: Path) -> None:
    lines = ['server = "iperf3 -s -p {port}"', 'sender = "client"', "tcp_ecn = 1", 'ecn = "ect0"']
    client = 'client = "iperf3 -c {address} -p {port} -t {seconds} -C cubic"'
    program = defined(tmp_path, client, *lines)
    cubic = ran(program, tmp_path / "cubic", contender="cubic")
    assert goodput_mbps(ran(program, tmp_path / "program")) == pytest.approx(goodput_mbps(cubic), rel=0.03)


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ("sh -c 'sleep 3; echo out of ideas; exit 7' {port}", "no data|exit code 7: out of ideas"),
        ("sh -c './mine send {address} {port} ecn & sleep 3; echo out of ideas; exit 7'", "exit code 7: out of ideas"),
    ],
)
def test_a_program_that_ends_fails_the_run_with_its_output(
    example: Path, tmp_path: Path, client: str, said: str
) -> None:
    lines = ['server = "./mine receive {port}"', f'client = "{client}"', 'sender = "client"', 'files = ["mine"]']
    program = defined(example, *lines)
    with pytest.raises(SimulatedError, match=said):
        ran(program, tmp_path / "run")


def test_another_codepoint_than_demanded_makes_the_run_invalid(example: Path, tmp_path: Path) -> None:
    text = (example / "mine.toml").read_text().replace("ect1", "ect0")
    with refusal(SimulatedError, "failed", "contender proven", "ECT(1) 100.0%", one_line=False):
        ran(defined(example, text), tmp_path / "run")
