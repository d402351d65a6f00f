# SPDX-License-Identifier: Apache-2.0
"""The qdisc and the congestion control of docs/examples/kernel, built into the kernel and measured in a cell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_build.sources import Sources
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
    assert any(line.get("marks") for line in seen), seen[-1]
    assert '"threshold":5000' in (tmp_path / "setup.log").read_text().replace(" ", "")
    made = json.loads((tmp_path / "cell.json").read_text())["kernel"]
    assert " with sch_step.c, tcp_gentle.c sha256:" in made["source"]


def test_a_file_that_does_not_compile_is_named_and_one_that_is_mended_builds(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "mine"))
    source = folder / "sch_step.c"
    good = source.read_text()
    source.write_text(good.replace("sch->limit = 1000;", "sch->limt = 1000;"))
    with refusal(BuildError, "invalid-value", f"--kernel-source: {source}:", "error: ", "limt"):
        ensure_kernel(Sources(folder))
    source.write_text(good.replace("sch->limit = 1000;", "sch->limit = 500;"))
    assert ensure_kernel(Sources(folder)).digest != ensure_kernel(Sources(EXAMPLE)).digest
