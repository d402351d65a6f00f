# SPDX-License-Identifier: Apache-2.0
"""Short-lived files go with their process, and by the next one after a SIGKILL; whatever else stands there stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT, remove_tree

_HOLD = "from sojourn.hardware.machine.scratch import scratch_file; print(scratch_file('.x'), flush=True); input()"
_ONCE = "from sojourn.hardware.machine.scratch import scratch_file; print(scratch_file('.x'))"


def command(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def once(folder: Path, *before: str, program: str = _ONCE) -> str:
    """Let a process make a scratch file below `folder`, which sweeps first; return what it said."""
    environment = os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(
        [*before, *command(program)], capture_output=True, text=True, env=environment, cwd=CHECKOUT
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def holding(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a scratch file, and that file."""
    with subprocess.Popen(
        command(_HOLD), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(folder)}, cwd=CHECKOUT,
    ) as process:  # fmt: skip
        assert process.stdout
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_process_that_ends_leaves_nothing(tmp_path: Path) -> None:
    made = Path(once(tmp_path))
    assert made.parent.parent == tmp_path and list(tmp_path.iterdir()) == []


def test_a_socket_of_ssh_can_be_created_whatever_the_folder_of_temporary_files(tmp_path: Path) -> None:
    name = "C" * 40 + "." + "x" * 16  # ssh creates it under a longer name
    bind = f"import socket; socket.socket(socket.AF_UNIX).bind(str(socket_folder() / {name!r})); print('bound')"
    assert once(tmp_path, program=f"from sojourn.hardware.machine.scratch import socket_folder; {bind}") == "bound"


def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    with holding(tmp_path) as (process, file):
        process.kill()
        process.wait()
        assert file.exists()
        once(tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_nested_folders_of_a_killed_process_stop_nobody(tmp_path: Path) -> None:
    """As deep as a machine can make them, by descriptors."""
    with holding(tmp_path) as (process, file):
        process.kill()
        process.wait()
        held = os.open(file.parent, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d", dir_fd=held)
            inner = os.open("d", os.O_RDONLY, dir_fd=held)
            os.close(held)
            held = inner
        os.close(held)
        try:
            once(tmp_path)
            assert list(tmp_path.iterdir()) == []
        finally:
            if file.parent.exists():
                remove_tree(file.parent)  # else pytest fails at it, in each later session


@pytest.mark.parametrize("unseen", [(), ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")])
def test_what_a_living_process_has_stays_also_when_its_pid_is_not_seen(tmp_path: Path, unseen: tuple[str, ...]) -> None:
    with holding(tmp_path) as (_, file):
        once(tmp_path, *unseen)
        assert file.exists()


def test_strange_names_stop_no_run_and_stay(tmp_path: Path) -> None:
    (precious := tmp_path / "precious").mkdir()
    (precious / "kept").touch()
    for name in ("sojourn-²", "sojourn-99999999999999999999999", "sojourn-results", f"sojourn-{os.getpid()}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").touch()
    (tmp_path / "sojourn-file").touch()
    (tmp_path / "sojourn-link").symlink_to(precious)
    (tmp_path / "sojourn-nowhere").symlink_to("nowhere")
    os.mkfifo(tmp_path / "sojourn-1_abcdefgh")
    (tmp_path / "sojourn-2_abcdefgh").symlink_to(precious)
    (tmp_path / "sojourn-3_abcdefgh").touch()
    before = sorted(tmp_path.rglob("*"))
    once(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders of others to look at")
def test_what_another_user_left_stays(tmp_path: Path) -> None:
    with holding(tmp_path) as (process, file):
        process.kill()
        process.wait()
        os.chown(file.parent, 61184, 61184)
        once(tmp_path)
        assert file.exists()
