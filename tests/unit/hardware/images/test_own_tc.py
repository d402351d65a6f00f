# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.images import own_tc


def test_a_folder_with_files_for_tc_or_an_iproute2_tree_is_taken(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no q_\*\.c and is no iproute2 tree \(no tc/tc\.c\)"):
        own_tc.checked(tmp_path)
    with pytest.raises(ValueError, match=r"no such folder: .*/none; give"):
        own_tc.checked(tmp_path / "none")
    for name in ("configure", "Makefile", "lib/libnetlink.c", "tc/tc.c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert own_tc.checked(tmp_path) == tmp_path
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/q_mine.c").touch()
    assert own_tc.checked(tmp_path / "mine")


def test_a_job_begins_with_the_mounts(tmp_path: Path) -> None:
    job = tmp_path / "run"
    job.write_text("#!/bin/sh\nset -e\nwork\n")
    own_tc.use_in(job)
    first, *mounts, before, last = job.read_text().splitlines()
    assert (first, before, last) == ("#!/bin/sh", "set -e", "work")
    assert "/usr/sbin/tc" in mounts[-1] and all("busybox" in line for line in mounts)
