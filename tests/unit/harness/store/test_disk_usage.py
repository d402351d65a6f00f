# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.harness.store.disk_usage import size_words, tree_bytes


def test_files_at_any_depth_count_and_the_targets_of_links_do_not(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/large").write_bytes(bytes(10**6))
    (tmp_path / "run/logs").mkdir(parents=True)
    (tmp_path / "run/a").write_bytes(bytes(1000))
    (tmp_path / "run/logs/b").write_bytes(bytes(500))
    (tmp_path / "run/link").symlink_to(tmp_path / "other")
    (tmp_path / "run/file").symlink_to(tmp_path / "other/large")
    assert 1500 <= tree_bytes(tmp_path / "run") < 2000
    assert tree_bytes(tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 kB"), (8_400, "8 kB"), (8_000_000, "8 MB"), (1_240_000_000, "1.2 GB")]
)
def test_sizes_have_a_unit(count: int, words: str) -> None:
    assert size_words(count) == words
