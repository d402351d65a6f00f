# SPDX-License-Identifier: Apache-2.0
"""A run directory is what its manifest says, or the first difference is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.harness.store.integrity import IntegrityError, check_run, verify_run
from sojourn.harness.store.runs import RunStore


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
    ("spoil", "says"),
    [
        (lambda run: (run / "player.jsonl").write_text("[]\n"), r"^player\.jsonl: differs from the manifest$"),
        (lambda run: (run / "player.jsonl").unlink(), r"^player\.jsonl: missing$"),
        (lambda run: (run / "more\n").touch(), r"^more\\n: not in the manifest$"),
        (lambda run: (run / "link").symlink_to("player.jsonl"), r"^link: not a plain file$"),
        (lambda run: os.mkfifo(run / "pipe"), r"^pipe: not a plain file$"),
        (lambda run: (run / "manifest.json").write_text("{"), "manifest"),
        (lambda run: (run / "manifest.json").unlink(), "manifest"),
    ],
)
def test_the_first_difference_is_named(run: Path, spoil: Callable[[Path], object], says: str) -> None:
    spoil(run)
    with pytest.raises(IntegrityError, match=says):
        verify_run(run)


def test_what_is_computed_again_may_differ_or_be_missing(run: Path) -> None:
    (run / "report.html").unlink()
    assert verify_run(run, derived=("report.html",)).seed == 4
    with pytest.raises(IntegrityError, match="report"):
        verify_run(run)


def test_a_signature_is_required_where_signers_are_given(run: Path, tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=": not signed"):
        check_run(run, signers=tmp_path / "signers")
