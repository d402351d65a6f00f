# SPDX-License-Identifier: Apache-2.0
"""A run directory is what its manifest says, or the first difference is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.hardware.machine.errors import Code
from sojourn.harness.store.integrity import IntegrityError, check_run, verify_run
from sojourn.harness.store.manifest import MANIFEST, read_manifest
from sojourn.harness.store.runs import RunStore
from tests.refusals import refusal


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with RunStore(tmp_path).create("video_harm", "cell", seed=4) as made:
        (made.path / "player.jsonl").write_text("{}\n")
        (made.path / "report.html").write_text("<p>")
        return made.commit()


def test_a_run_as_it_was_recorded_gives_its_manifest(run: Path) -> None:
    assert verify_run(run).seed == 4
    checked = check_run(run)
    assert (checked.key, checked.signer, checked.stale) == ("", "", False)


@pytest.mark.parametrize(
    ("spoil", "code", "named"),
    [
        (lambda run: (run / "player.jsonl").write_text("[]\n"), "altered", "player.jsonl: "),
        (lambda run: (run / "player.jsonl").unlink(), "missing", "player.jsonl: "),
        (lambda run: (run / "more\n").touch(), "unexpected-file", "more\\n: "),
        (lambda run: (run / "link").symlink_to("player.jsonl"), "not-a-file", "link: "),
        (lambda run: os.mkfifo(run / "pipe"), "not-a-file", "pipe: "),
        (lambda run: (run / "manifest.json").write_text("{"), "damaged", "manifest.json"),
        (lambda run: (run / "manifest.json").unlink(), "not-a-run", "manifest.json"),
    ],
)
def test_the_first_difference_is_named(run: Path, spoil: Callable[[Path], object], code: Code, named: str) -> None:
    spoil(run)
    with refusal(IntegrityError, code, named):
        verify_run(run)


def test_what_is_computed_again_may_differ_or_be_missing(run: Path) -> None:
    (run / "report.html").unlink()
    assert verify_run(run, derived=("report.html",)).seed == 4
    with refusal(IntegrityError, "missing", "report.html"):
        verify_run(run)


def test_a_signature_is_required_where_signers_are_given(run: Path, tmp_path: Path) -> None:
    with refusal(IntegrityError, "not-signed", run):
        check_run(run, signers=tmp_path / "signers")


def test_another_file_in_the_place_of_a_pruned_one_is_refused(run: Path) -> None:
    player = (run / "player.jsonl").read_bytes()
    manifest = read_manifest(run)
    manifest.pruned["player.jsonl"] = manifest.files.pop("player.jsonl")
    (run / MANIFEST).write_text(manifest.model_dump_json())
    assert verify_run(run), "the same file may be back"
    (run / "player.jsonl").unlink()
    assert verify_run(run)
    (run / "player.jsonl").write_bytes(player + b"{}\n")
    with refusal(IntegrityError, "altered", "player.jsonl: was pruned"):
        verify_run(run)
