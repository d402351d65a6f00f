# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sojourn.hardware.machine import files


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.replace_file(tmp_path / "a", b"old")
    files.replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as error:
        files.replace_file(tmp_path / "a", b"half")
    assert files.is_full(error.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"new"}


@pytest.mark.parametrize(("first", "second", "ours"), [(False, False, False), (True, False, False), (True, True, True)])
def test_a_lock_is_one_holders_or_shared(tmp_path: Path, first: bool, second: bool, ours: bool) -> None:
    descriptors = [os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2)]
    try:
        assert files.lock(descriptors[0], shared=first)
        assert files.lock(descriptors[1], shared=second) is ours
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def test_a_home_that_nobody_has_is_no_path() -> None:
    assert files.expanded("~/x") == Path.home() / "x"
    with pytest.raises(ValueError, match="~nobody-at-all/x"):
        files.expanded("~nobody-at-all/x")


def test_a_programs_words_go_to_the_logs_of_its_run(tmp_path: Path) -> None:
    assert files.log_file(tmp_path, "xvfb") == tmp_path / "logs" / "xvfb.log"
    assert (tmp_path / "logs").is_dir()


def test_what_is_no_plain_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "link"):
        with open(tmp_path / name, "rb", opener=files.plain) as opened:
            assert opened.read() == b"text"
    for odd in (tmp_path / "pipe", tmp_path, Path(os.devnull)):
        with pytest.raises(OSError, match="Not a plain file"):
            files.plain(odd)
    with pytest.raises(OSError, match="Too many levels"):
        files.read_foreign(tmp_path / "link", 10)
