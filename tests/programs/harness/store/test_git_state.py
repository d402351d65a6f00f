# SPDX-License-Identifier: Apache-2.0
"""The commit of the checkout, and of no repository around it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sojourn.harness.store.runs import git_state


def test_a_folder_within_somebody_elses_repository_has_no_commit(tmp_path: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(tmp_path))
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run([*git, *words], check=True)
    (inside := tmp_path / "site-packages" / "sojourn").mkdir(parents=True)
    state = git_state(tmp_path)
    assert state and len(state.commit) == 40 and not state.dirty
    assert git_state(inside) is None
