# SPDX-License-Identifier: Apache-2.0
"""Own kernel files, built into the kernel and measured in a cell: docs/examples/kernel and hardware/kernel/bbr3."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.qdiscs import marks
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from sojourn.hardware.kernel_build.sources import OURS, Sources
from sojourn.hardware.machine.cache import BuildError
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.simulated import run_cell
from tests.refusals import refusal

# The first build compiles a whole kernel.
pytestmark = [pytest.mark.lab, pytest.mark.nightly, pytest.mark.timeout(3600)]
EXAMPLE = Path(__file__).parents[2] / "docs/examples/kernel"


def test_a_cell_runs_with_the_example_which_tc_sets_up_and_shows(tmp_path: Path) -> None:
    cell = Cell(
        name="step", hops=(dumbbell.bottleneck(10, "sch_step limit 100 threshold 5ms"),), seconds=20,
        flows=dumbbell.flows(["tcp_gentle", "cubic"], 20),
    )  # fmt: skip
    run_cell(cell, tmp_path, seed=1, sources=Sources(EXAMPLE))
    seen = [json.loads(line) for line in (tmp_path / "queues.jsonl").read_text().splitlines()]
    steps = [qdisc for line in seen for qdisc in line["qdiscs"] if qdisc["kind"] == "step"]
    assert any(marks(qdisc) for qdisc in steps), steps[-1]
    assert '"threshold":5000' in (tmp_path / "setup.log").read_text().replace(" ", "")
    made = json.loads((tmp_path / "cell.json").read_text())["kernel"]
    assert " with sch_step.c, tcp_gentle.c sha256:" in made["source"]


def test_a_file_that_does_not_compile_is_named_and_one_that_is_repaired_builds(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "mine"))
    source = folder / "sch_step.c"
    good = source.read_text()
    source.write_text(good.replace("sch->limit = 1000;", "sch->limt = 1000;"))
    with refusal(BuildError, "invalid-value", f"--kernel-source: {source}:", "error: ", "limt"):
        ensure_kernel(Sources(folder))
    source.write_text(good.replace("sch->limit = 1000;", "sch->limit = 500;"))
    assert ensure_kernel(Sources(folder)).digest != ensure_kernel(Sources(EXAMPLE)).digest


def test_bbr3_fills_a_link_and_its_patch_changes_nothing_for_cubic(tmp_path: Path) -> None:
    """hardware/kernel/bbr3: a flow alone in a buffer of 1 BDP; CUBIC's is the same to the byte in both kernels.

    bbr's is not: it draws its phases, and what a kernel draws depends on its image.
    """
    with_bbr3 = Sources(FRAGMENTS / "bbr3")
    for name, contender, sources in (
        ("bbr3", "bbr3", with_bbr3),
        ("cubic", "cubic", with_bbr3),
        ("plain", "cubic", OURS),
    ):
        cell = Cell(
            name="alone", hops=(dumbbell.bottleneck(50, "pfifo limit 83"),), seconds=20,
            flows=dumbbell.flows([contender], 20),
        )  # fmt: skip
        (tmp_path / name).mkdir()
        run_cell(cell, tmp_path / name, seed=1, sources=sources)
    for file in ("flows.csv", "queues.jsonl", "counters.json"):
        assert (tmp_path / "cubic" / file).read_bytes() == (tmp_path / "plain" / file).read_bytes()
    made = json.loads((tmp_path / "bbr3/cell.json").read_text())["kernel"]
    assert " with tcp_bbr3.c, 0001-tcp-what-BBRv3-needs.patch sha256:" in made["source"]
    with (tmp_path / "bbr3/flows.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert int(last["received_bytes"]) * 8 / 20 > 45e6
    assert 0 < int(last["lost"] or 0) + int(last["retrans"]) < 0.005 * int(last["delivered"])
