# SPDX-License-Identifier: Apache-2.0
"""The runs of cells that have `run.json` and no manifest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.harness.matrix.cells.cell_run import cache_state, rescore, scoring_digest, write_scores
from sojourn.harness.matrix.results import run_folder
from sojourn.harness.store.manifest import MANIFEST, StoreError, read_manifest
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import SCORES
from tests.unit.harness.matrix import cell_runs


def former(folder: Path, seed: int = 1, **fields: Any) -> Path:
    """A finished run as the release before wrote it."""
    job = cell_runs.job("a", seed)
    run = run_folder(folder, job.cell, seed)
    run.mkdir(parents=True)
    cell_runs.run(job.cell, run, seed=seed)
    flows = (run / "flows.csv").read_bytes()
    write_scores(job, run)
    made = {"cell": job.cell.model_dump(mode="json"), "seed": seed, "kernel": {"release": "7.2"}}
    (run / "cell.json").write_text(json.dumps(made))
    about = {
        "cell": job.cell.name, "seed": seed, "inputs": "one", "git": None, "programs": {},
        "scoring": scoring_digest(job), "scores": hashlib.sha256((run / SCORES).read_bytes()).hexdigest(),
        "result": hashlib.sha256(f"flows.csv\0{len(flows)}\0".encode() + flows).hexdigest(),
        "seconds": 5.0, "wall_s": 2.0, "scoring_s": 0.5,
    }  # fmt: skip
    (run / "run.json").write_text(json.dumps(about | fields))
    return run


def test_a_former_run_is_read_as_one_with_a_manifest_and_kept_as_it_is(tmp_path: Path) -> None:
    run = former(tmp_path / "m")
    manifest = read_manifest(run)
    assert (manifest.test, manifest.cell, manifest.seed, manifest.status) == ("m", "a", 1, "valid")
    assert manifest.finished and manifest.finished - manifest.created == pytest.approx(2.5)
    assert manifest.versions == {"release": "7.2"} and manifest.required == ["flows.csv"]
    assert cache_state(cell_runs.job("a"), run) == "done"
    assert RunStore(tmp_path / "m").runs() == [run] and not (run / MANIFEST).exists()
    assert cache_state(cell_runs.job("a", inputs="two"), run) == "stale"


def test_a_former_run_that_was_changed_is_no_run(tmp_path: Path) -> None:
    run = former(tmp_path / "m")
    (run / SCORES).write_text("{}")
    assert cache_state(cell_runs.job("a"), run) == "unscored"
    (run / "flows.csv").write_text("t_s\n")
    with pytest.raises(StoreError, match=r"run\.json"):
        read_manifest(run)
    assert cache_state(cell_runs.job("a"), run) == "stale"


def test_a_former_run_that_is_scored_again_has_a_manifest(tmp_path: Path) -> None:
    run = former(tmp_path / "m", scoring="of an earlier version")
    assert cache_state(cell_runs.job("a"), run) == "unscored"
    rescore(cell_runs.job("a"), run)
    assert cache_state(cell_runs.job("a"), run) == "done" and (run / MANIFEST).exists()


@pytest.mark.parametrize("damaged", ["", "[]", "{}", '{"result": 1}', "[" * 100_000, "git"])
def test_a_damaged_description_is_one_line(tmp_path: Path, damaged: str) -> None:
    run = former(tmp_path / "m", git={"commit": [], "dirty": "?"})
    if damaged != "git":
        (run / "run.json").write_text(damaged)
    with pytest.raises(StoreError, match=r"run\.json") as wrong:
        read_manifest(run)
    assert "\n" not in str(wrong.value)
