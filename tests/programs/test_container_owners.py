# SPDX-License-Identifier: Apache-2.0
"""Whose files are after a run of the container: its first process, in a root of its own over this machine's."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT

OWNER, OTHER, SOJOURN = 4711, 4712, 4713
#: In place of the installed program: it changes what the owner has, adds a run, and waits where it is told to.
HARM = """#!/bin/sh
echo changed >>/results/index.html && mkdir -m 700 /results/run && echo made >/results/run/manifest.json || exit 1
[ ! -e /hang ] || exec sleep 600
"""


@pytest.fixture
def root() -> Iterator[Path]:
    """The root, with a folder of results in which three users have files."""
    if os.geteuid():
        pytest.skip("its first process is root")
    with tempfile.TemporaryDirectory() as name:
        upper = Path(name) / "upper"
        for folder in ("etc", "results/other", "usr/local/bin"):
            (upper / folder).mkdir(parents=True)
        for file, line in (("passwd", f"sojourn:x:{SOJOURN}:{SOJOURN}::/:/bin/sh"), ("group", f"sojourn:x:{SOJOURN}:")):
            (upper / "etc" / file).write_text(Path("/etc", file).read_text() + line + "\n")
        (upper / "usr/local/bin/sojourn").write_text(HARM)
        (upper / "usr/local/bin/sojourn").chmod(0o755)
        for path, user in (("index.html", OWNER), ("other/notes", OTHER), ("theirs", SOJOURN), ("other", OTHER)):
            (file := upper / "results" / path).is_dir() or file.write_text("before\n")
            os.chown(file, user, user)
        os.chown(upper / "results", OWNER, OWNER)
        for folder in ("work", "merged"):
            (Path(name) / folder).mkdir()
        while time.time() < (upper / "results/theirs").stat().st_ctime + 2.1:  # they had it before
            time.sleep(0.05)
        yield Path(name)


def container(root: Path) -> list[str]:
    """The command that runs the first process in that root."""
    layers = f"lowerdir=/,upperdir={root}/upper,workdir={root}/work"
    merged = shlex.quote(str(root / "merged"))
    script = f"mount -t overlay -o {layers} overlay {merged}"
    script += "".join(f" && mount --rbind /{folder} {merged}/{folder}" for folder in ("proc", "dev"))
    entry = shlex.quote(str(CHECKOUT / "harness" / "container.sh"))
    path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"  # not that of a checkout's environment
    return ["unshare", "--mount", "sh", "-c", f'{script} && exec chroot {merged} env {path} sh -c "$(cat {entry})"']


def owners(root: Path) -> dict[str, int]:
    results = root / "upper" / "results"
    return {str(path.relative_to(results)): path.stat().st_uid for path in sorted(results.rglob("*"))}


def test_what_it_made_and_was_given_is_the_owners_and_nothing_else(root: Path) -> None:
    done = subprocess.run(container(root), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours = {"index.html": OWNER, "run": OWNER, "run/manifest.json": OWNER}
    assert owners(root) == {**ours, "other": OTHER, "other/notes": OTHER, "theirs": SOJOURN}
    assert (root / "upper/results/index.html").read_text() == "before\nchanged\n"


def test_what_a_killed_one_made_is_given_back_by_the_next(root: Path) -> None:
    (root / "upper/hang").touch()
    with subprocess.Popen(container(root), start_new_session=True) as killed:
        while not (root / "upper/results/run/manifest.json").exists():
            assert killed.poll() is None
        os.killpg(killed.pid, signal.SIGKILL)
    assert owners(root)["run"] == SOJOURN
    (root / "upper/hang").unlink()
    (root / "upper/results/run/manifest.json").unlink()
    (root / "upper/results/run").rename(root / "upper/results/first")
    for folder in ("work", "merged"):
        assert not os.path.ismount(root / folder)
    done = subprocess.run(container(root), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {name: user for name, user in owners(root).items() if name in ("first", "run", "other")} == {
        "first": OWNER, "run": OWNER, "other": OTHER,
    }  # fmt: skip
