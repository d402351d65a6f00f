# SPDX-License-Identifier: Apache-2.0
"""Paths that commands write to: none is inside a run, and one that cannot be written is refused before any work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from sojourn.harness.cli import app, runs
from sojourn.harness.cli.common import check_output
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.report import picture_quality
from sojourn.harness.store.manifest import read_manifest
from sojourn.scoring.picture.judged import QUALITY
from tests.unit.harness.conftest import Series


def refused(*words: object, code: int = 1) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(
    ("words", "option", "name"),
    [
        (["compare", "RUN", "RUN"], "--output", "report.html"),
        (["trend", "RESULTS", "RESULTS"], "--output", "scores.json"),
        (["figure", "RUN"], "--output", "setup.svg"),
        (["figure", "RUN"], "--output", "logs/setup.svg"),
        (["data", "RUN"], "--output", ""),
        (["summary", "RUN"], "--output", "summary"),
        (["summary", "RUN"], "--openmetrics", "x.prom"),
        (["verdict", "RUN", "--thresholds=nofile.toml"], "--junit", "scores.json"),
        (["verdict", "RUN", "--thresholds=nofile.toml"], "--markdown", "scores.json"),
        (["quality", "RUN"], "--output", "quality.csv"),
        (["mos", "RUN"], "--inputs", "inputs"),
        (["flent", "RESULTS"], "--to", ""),
        (["film", "OTHER"], "--output", "film.mp4"),
        (["bundle", "export", "OTHER"], "--output", "run.tar.zst"),
        (["bundle", "export", "OTHER"], "--output", "bundles"),
        (["profile", "a.har"], "--output", "service.toml"),
        (["hardware", "image"], "--output", "sojourn.img"),
        (["build"], "--pack", "sojourn.tar.zst"),
        (["lab", "init"], "--lab-file", "lab.toml"),
        (["harm", "--timeline=solo:8,cubic:4"], "--results", "results"),
        (["map", "rate=5mbit,10mbit"], "--results", "results"),
        (["matrix", "s1"], "--results", "results"),
    ],
)
def test_no_command_writes_into_a_run(series: Series, words: Sequence[str], option: str, name: str) -> None:
    run, other = series([1, 2])
    (run / "logs").mkdir()
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    places = {"RUN": run, "OTHER": other, "RESULTS": run.parent}
    code = 4 if words[0] in ("trend", "verdict", "harm", "map") else 1
    line = refused(*(places.get(word, word) for word in words), f"{option}={run / name}", code=code)
    right = f"inside the run {run.name}, whose files are sealed; give another path"
    assert line == f"sojourn: {option}: {run / name}: {right}\n"
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_a_path_that_cannot_be_written_is_named_with_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("afile").touch()
    Path("adir").mkdir()
    Path("dangling").symlink_to("gone")
    for text, folder, wrong in (
        ("nofolder/c.html", False, "nofolder: no such folder; create it"),
        ("afile/c.html", False, "afile: not a folder; give another path"),
        ("adir", False, "adir: a folder; give a file"),
        ("afile", True, "afile: not a folder; give another path"),
        ("afile/a/b", True, "/afile: not a folder; give another path"),
        ("dangling", True, "dangling: not a folder; give another path"),
    ):
        with pytest.raises(OptionsError) as error:
            check_output("output", Path(text), folder=folder)
        assert str(error.value).startswith("--output: ") and str(error.value).endswith(wrong)
    for text, folder in (("c.html", False), ("afile", False), ("adir/c", False), ("adir", True), ("new/a", True)):
        check_output("output", Path(text), folder=folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adir", "afile", "dangling"]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OptionsError, match=r"^--output: adir/c\.html: cannot be written; give a path"):
        check_output("output", Path("adir/c.html"))


def test_commands_refuse_such_a_path(series: Series, tmp_path: Path) -> None:
    one, two = series([1, 2])
    (afile := tmp_path / "afile").touch()
    nowhere = tmp_path / "nofolder"
    missing = f"sojourn: --output: {nowhere}: no such folder; create it\n"
    assert refused("compare", one, two, "-o", nowhere / "c.html") == missing
    assert refused("compare", one, two, "-o", tmp_path) == f"sojourn: --output: {tmp_path}: a folder; give a file\n"
    no_folder = f"sojourn: --output: {afile}: not a folder; give another path\n"
    assert refused("summary", one, two, "-o", afile) == refused("data", one, "-o", afile) == no_folder


def test_quality_checks_its_output_before_it_measures(
    series: Series, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*_: object) -> pl.DataFrame:
        raise AssertionError("measured")

    monkeypatch.setattr(picture_quality, "measure", measure)
    line = refused("quality", series([1])[0], "--write", "-o", tmp_path / "nofolder" / "q.csv")
    assert line == f"sojourn: --output: {tmp_path / 'nofolder'}: no such folder; create it\n"


def test_quality_stores_its_values_before_it_exports_them(
    series: Series, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = series([1])
    monkeypatch.setattr(runs, "regenerate_report", lambda run: run.path / "report.html")
    values = pl.DataFrame({"ssim": [0.9]})
    with pytest.raises(OSError, match="gone"):  # its folder was deleted while pictures were judged
        runs._judged(run, "", lambda progress: values, QUALITY, tmp_path / "gone" / "q.csv", True)
    assert (run / QUALITY).exists() and QUALITY in read_manifest(run).files


def test_a_verdict_that_fails_removes_a_junit_file_only(series: Series, tmp_path: Path) -> None:
    (run,) = series([1])
    for text, kept in (("<testsuites/>", False), ("<html/>", True), ("{}", True), ("", True)):
        (file := tmp_path / "out.xml").write_text(text)
        refused("verdict", run, f"--thresholds={tmp_path / 'nofile.toml'}", f"--junit={file}", code=4)
        assert file.exists() == kept
    (sealed := run / "junit.xml").write_text("<testsuites/>")
    refused("verdict", run, f"--thresholds={tmp_path / 'nofile.toml'}", f"--junit={sealed}", code=4)
    assert sealed.exists()


def test_a_manifest_of_another_program_makes_no_run(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    check_output("output", tmp_path / "c.html")


def test_a_device_is_not_replaced_by_a_file() -> None:
    with pytest.raises(OptionsError, match="--output: /dev/null: not a file; give a file"):
        check_output("output", Path("/dev/null"))
