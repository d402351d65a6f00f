# SPDX-License-Identifier: Apache-2.0
"""What Ctrl-C leaves is named, with the command that finishes or deletes it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from sojourn.harness.experiment.stopped import kept_lines
from sojourn.harness.store.manifest import StoreError
from sojourn.harness.store.runs import RunDirectory, RunStore, is_unscored


def stopped(place: Path, *, player: bool = True, whole: bool = False, commit: bool = False) -> RunDirectory:
    with suppress(KeyboardInterrupt), RunStore(place).create("video-harm", "pie") as run:
        if player:
            (run.path / "player.jsonl").write_text("{}\n" * 1000)
        if whole:
            run.recorded()
        if commit:
            run.commit()
        raise KeyboardInterrupt
    return run


def test_a_run_that_lacks_its_scores_can_be_finished_and_one_that_was_cut_off_only_deleted(tmp_path: Path) -> None:
    cut, whole = stopped(tmp_path / "a b"), stopped(tmp_path, whole=True)
    first, second = kept_lines([cut, whole], wanted=2)
    assert f"{cut.path} (4 kB)" in first and f"`sojourn rm '{cut.path}'`" in first and "rescore" not in first
    assert f"{whole.path} (4 kB)" in second and f"`sojourn rm {whole.path}`" in second
    assert f"`sojourn rescore {whole.path}`" in second
    assert is_unscored(whole.path) and not is_unscored(cut.path)


def test_what_recorded_nothing_is_not_kept_and_finished_runs_are_counted(tmp_path: Path) -> None:
    nothing = stopped(tmp_path, player=False)
    assert not nothing.path.exists() and list(kept_lines([nothing], 1)) == ["nothing was recorded, nothing is kept"]
    (line,) = kept_lines([nothing, stopped(tmp_path, commit=True)], 6)
    assert f"1 of 6 runs in {tmp_path}" in line and "--seed" in line


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    (folder := tmp_path / "x.partial").mkdir()
    with pytest.raises(StoreError, match="not a run directory"):
        is_unscored(folder)
