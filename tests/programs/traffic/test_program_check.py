# SPDX-License-Identifier: Apache-2.0
"""Whether a machine can start a program: its interpreter, its libraries, its processor."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sojourn.traffic.program_check import require_runnable
from sojourn.traffic.user_program import UserProgram, UserProgramError, read_user_program
from tests.refusals import refusal

MAIN = "int other(void); int main(void) { return OTHER; }\n"


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a machine: this host's libc and loader, sh, and nothing else."""
    libc = next(Path("/usr/lib").glob("*/libc.so.6"))
    loader = next(it for folder in ("/usr/lib64", "/usr/lib", "/lib64") for it in Path(folder).glob("ld-linux-*.so.*"))
    for source, place in ((libc, f"usr/lib/{libc.parent.name}"), (loader, "usr/lib64"), (Path("/bin/sh"), "usr/bin")):
        (tmp_path / "root" / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(source, tmp_path / "root" / place / source.name)
    return tmp_path / "root"


def compiled(folder: Path, *flags: str) -> None:
    (folder / "mine.c").write_text(MAIN)
    subprocess.run(["cc", *flags, "-o", folder / "mine", folder / "mine.c"], check=True)


def program(folder: Path, server: str = "./mine {port}") -> UserProgram:
    (folder / "it.toml").write_text(f"server = '{server}'\nclient = './mine {{port}}'\nsender = 'client'\n")
    return read_user_program(str(folder / "it.toml"))


@pytest.mark.parametrize("flags", [("-static",), (), ("-static-pie",)])
def test_a_program_that_needs_no_more_than_the_machine_has_is_accepted(
    tmp_path: Path, root: Path, flags: tuple[str, ...]
) -> None:
    compiled(tmp_path, "-DOTHER=0", *flags)
    require_runnable([program(tmp_path)], root)


def test_a_missing_library_is_named(tmp_path: Path, root: Path) -> None:
    (tmp_path / "mine.c").write_text(MAIN)
    (tmp_path / "other.c").write_text("int other(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libother.so", tmp_path / "other.c"], check=True)
    subprocess.run(
        ["cc", "-DOTHER=other()", "-o", tmp_path / "mine", tmp_path / "mine.c", f"-L{tmp_path}", "-lother"], check=True
    )
    with refusal(UserProgramError, "missing-program", "it: server: ./mine", "libother.so", "link it statically"):
        require_runnable([program(tmp_path)], root)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"#!/usr/bin/python3\n", "its interpreter python3 is not in the machine"),
        (b"#!/usr/bin/env ruby\n", "its interpreter ruby is not in the machine"),
        (b"#!/usr/bin/env -S A=1 ruby -w\n", "its interpreter ruby is not in the machine"),
        (b"print('no first line')\n", "neither an ELF program nor a script"),
        (b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xb7\x00" + bytes(40), "is not a program for x86-64"),
    ],
)
def test_what_the_machine_cannot_start_is_refused(tmp_path: Path, root: Path, content: bytes, named: str) -> None:
    (tmp_path / "mine").write_bytes(content)
    (tmp_path / "mine").chmod(0o755)
    with refusal(UserProgramError, "missing-program", "it: server: ./mine", named):
        require_runnable([program(tmp_path)], root)


def test_a_script_of_the_machines_shell_is_accepted_and_a_program_it_lacks_is_refused(
    tmp_path: Path, root: Path
) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    (tmp_path / "mine").chmod(0o755)
    require_runnable([program(tmp_path)], root)
    with refusal(UserProgramError, "missing-program", "it: server: picoquicdemo", "write ./NAME"):
        require_runnable([program(tmp_path, server="picoquicdemo {port}")], root)


def test_an_interpreter_may_have_options(tmp_path: Path, root: Path) -> None:
    (tmp_path / "mine").write_text("#!/usr/bin/env -S sh -eu\n")
    (tmp_path / "mine").chmod(0o755)
    require_runnable([program(tmp_path)], root)
