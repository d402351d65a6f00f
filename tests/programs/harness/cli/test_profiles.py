# SPDX-License-Identifier: Apache-2.0
"""`sojourn profile`: from a recording to a file that `--service=profile` takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.apps import SERVICES
from sojourn.apps.standins.profile.recorded import read_profile
from sojourn.harness.cli import app
from sojourn.harness.options.rules import parse_options
from tests.unit.apps.recorded.hars import RATES, played


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    entries = played(lambda height, index: f"https://cdn.test/{height}p/{index}.m4s")
    (file := tmp_path / "a.har").write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    return file


def test_a_recording_becomes_a_file_that_the_service_takes(recording: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["profile", str(recording), "-o", str(tmp_path / "a.toml")])
    assert done.exit_code == 0, done.output
    assert "cdn.test: 12 segments of 2 s, buffer 12 s" in done.output
    profile = read_profile(tmp_path / "a.toml")
    assert [it.height for it in profile.rendition] == list(RATES)
    options = parse_options({"service": "profile", "url": str(tmp_path / "a.toml")})
    assert SERVICES["profile"].from_options(options).buffer == 12


def test_it_prints_json_for_programs(recording: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["profile", str(recording), "-o", str(tmp_path / "a.toml"), "--json"])
    assert json.loads(done.stdout) == read_profile(tmp_path / "a.toml").model_dump(mode="json")


@pytest.mark.parametrize("arguments", [[], ["a.har", "--live=https://a.test/"]])
def test_it_takes_a_recording_or_an_address(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["profile", *arguments])
    assert done.exit_code == 1
    assert "give either a recording" in done.output


@pytest.mark.parametrize("arguments", [["a.har"], ["--live=https://a.test/"]])
def test_it_does_not_replace_the_recording(
    recording: Path, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = recording.read_bytes()
    for output in ("a.har", str(recording)):
        done = CliRunner().invoke(app, ["profile", *arguments, "-o", output])
        assert done.exit_code == 1 and recording.read_bytes() == before
        assert done.output.count("\n") == 1 and f"-o: {output}" in done.output


def test_a_broken_recording_is_one_line_with_its_name(recording: Path, tmp_path: Path) -> None:
    recording.write_text(recording.read_text()[:-100])
    done = CliRunner().invoke(app, ["profile", str(recording), "-o", str(tmp_path / "a.toml")])
    assert done.exit_code == 1 and not (tmp_path / "a.toml").exists()
    assert done.output.count("\n") == 1 and "a.har: not a HAR" in done.output
