# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from sojourn.harness.experiment import run
from sojourn.harness.experiment.run import name_of_test, require_space
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import OPTIONS, Options
from sojourn.harness.options.rules import parse_options
from sojourn.harness.store import runs
from sojourn.harness.store.manifest import StoreError, read_manifest
from sojourn.harness.terminal import console_of
from sojourn.scoring.schema.scores import Scores
from tests.refusals import refusal


def asked(results: Path, repeat: str | None, **given: str) -> Options:
    named = (
        {"lab": "virtual", "timeline": "solo:5,cubic:2,prague:2"} | given | {"repeat": repeat, "results": str(results)}
    )
    return parse_options({option.name: None for option in OPTIONS} | named)


def space_for(options: Options) -> str:
    """Return what is said of the space for the runs that `options` require."""
    said = StringIO()
    require_space([options] * (options.repeat or 1), options.results, console_of(said))
    return said.getvalue()


def test_the_name_of_a_run_follows_from_its_service(tmp_path: Path) -> None:
    for service, name in (("call", "call-harm"), ("youtube", "video-harm")):
        assert name_of_test(asked(tmp_path, None, service=service, lab="sim")) == name


def test_a_disk_too_small_for_all_runs_is_refused_before_the_first(tmp_path: Path) -> None:
    with refusal(StoreError, "disk-full"):
        space_for(asked(tmp_path, "1000", timeline="published", rate="900mbit"))


def test_a_series_says_how_much_space_it_needs_and_a_screening_one_needs_less(tmp_path: Path) -> None:
    said = space_for(asked(tmp_path, "3"))
    assert re.match(r"3 runs need at most [\d.]+ [MG]B; [\d.]+ [MG]B are free\n", said), said
    recorded, screened = asked(tmp_path, "3", lab="sim"), asked(tmp_path, "3", lab="sim", recorder="none")
    assert screened.needed_bytes < recorded.needed_bytes


def test_a_screening_run_has_no_recording_to_keep(tmp_path: Path) -> None:
    with refusal(OptionsError, "conflict", "--video: a screening run has no recording"):
        asked(tmp_path, None, lab="sim", recorder="none", video="retain-on-failure")


def test_a_valid_run_without_a_recording_has_none_to_delete(
    tmp_path: Path, scores: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "needed", Mock(return_value=()))
    monkeypatch.setattr(run, "Setting", Mock())
    monkeypatch.setattr(run, "page", Mock(return_value=""))
    options = asked(tmp_path, None, service="game", lab="sim").replace(video="retain-on-failure")
    with run.new_run("video-harm", options, []) as made:
        result = run.finish_run(made, options, scores)
    assert read_manifest(result.path).pruned == {} and not result.void


@pytest.mark.parametrize(
    ("given", "drawn"),
    [
        ({}, {"RTT": "+0.00%"}),
        ({"exact": True}, {}),
        ({"lab": "black-box"}, {}),
        ({"lab": "sim"}, {"bunching": "up to 275us"}),
    ],
)
def test_a_manifest_says_that_the_exact_path_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], drawn: dict[str, str]
) -> None:
    monkeypatch.setattr(runs, "git_state", lambda: None)
    options = parse_options({"lab": "virtual", "seed": "0", "results": str(tmp_path), **given})
    assert run.new_run("video-harm", options, []).manifest.drawn == drawn


def test_a_lab_learns_the_rates_that_a_run_changes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that hardly carries one of them is refused before the run begins."""
    monkeypatch.setattr(run, "lab_maker", made := Mock())
    options = parse_options({"rate": "10mbit,30s:40mbit", "rate-up": "5mbit,40s:6mbit"})
    run._lab_maker(options, None, Mock(), Mock())
    assert made.call_args.kwargs["steps_bps"] == [40_000_000, 6_000_000]
