# SPDX-License-Identifier: Apache-2.0
"""A run's tables in Python and as Parquet: of a valid, unaltered run only."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import sojourn
from sojourn.harness.cli import app
from sojourn.harness.store.loaded import LoadError
from sojourn.harness.store.manifest import reseal
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.tables import TABLES
from tests.programs.scoring.conftest import recorded
from tests.refusals import refusal

__all__ = ["recorded"]  # a fixture of the scorers' tests


@pytest.fixture
def run(scores: Scores, recorded: Path, tmp_path: Path) -> Path:
    """A finished, valid run with the files of a recorded one."""
    with RunStore(tmp_path).create("video-harm", "o2tv 20mbit", seed=1) as made:
        shutil.copytree(recorded, made.path, dirs_exist_ok=True)
        (made.path / "options.json").write_text('{"service": "o2tv"}')
        (made.path / SCORES).write_text(scores.model_dump_json())
        return made.commit()


def test_the_tables_are_attributes_read_once(run: Path) -> None:
    data = sojourn.load(str(run))
    assert data.probes.height > 0 and data.probes is data.probes
    assert set(TABLES) <= set(dir(data)) and data.options["service"] == "o2tv" and data.scores.phases
    with pytest.raises(AttributeError, match=r"no table 'packet'; did you mean packets\?"):
        _ = data.packet


def test_parquet_holds_the_same(run: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["data", str(run), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    data = sojourn.load(run)
    assert {file.stem for file in (tmp_path / "out").glob("*.parquet")} == {*TABLES, "figures"}
    for name in (*TABLES, "figures"):
        assert pl.read_parquet(tmp_path / "out" / f"{name}.parquet").equals(getattr(data, name))
    assert "`sojourn_ms`" in (tmp_path / "out" / "columns.md").read_text()
    done = CliRunner().invoke(app, ["data", str(run), "-o", str(tmp_path / "one"), "--table=probes"])
    assert {file.name for file in (tmp_path / "one").iterdir()} == {"probes.parquet", "columns.md"}


def test_a_table_that_there_is_not_is_told_before_any_is_written(run: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["data", str(run), "-o", str(tmp_path / "out"), "--table=probes", "--table=probe"])
    assert (
        done.exit_code == 1 and "--table probe: unknown table for this kind of run; did you mean probes?" in done.stderr
    )
    assert not (tmp_path / "out").exists()


def test_an_edited_raw_file_gives_no_table(run: Path) -> None:
    (run / "qdisc.jsonl").write_text((run / "qdisc.jsonl").read_text().replace("fq_codel", "dualpi2"))
    data = sojourn.load(run)
    assert data.probes.height
    with refusal(LoadError, "altered", "qdisc.jsonl"):
        _ = data.queue
    with refusal(LoadError, "altered", "qdisc.jsonl"):
        _ = data.queue  # not only the first time


def test_a_void_run_is_opened_only_where_that_is_asked_for(run: Path) -> None:
    reseal(run, reasons=[Reason(code="lab-jitter", text="jitter")])
    with refusal(LoadError, "invalid-run", run):
        sojourn.load(run)
    assert sojourn.load(run, void=True).probes.height
