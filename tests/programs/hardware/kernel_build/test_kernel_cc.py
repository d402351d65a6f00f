# SPDX-License-Identifier: Apache-2.0
"""hardware/kernel/cc: what a file of the kernel is compiled to, with and without the common headers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sojourn.hardware.kernel_build import kbuild

COMMON = """
#ifndef COMMON
#define COMMON
#ifndef pr_fmt
#define pr_fmt(text) text
#endif
#ifdef SMALL
enum { SIZE = 1 };
#else
enum { SIZE = 2 };
#endif
#endif
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the compiler and one common header, which each file also asks for."""
    shutil.copy(kbuild.COMPILER, tmp_path)
    (tmp_path / "include/linux").mkdir(parents=True)
    (tmp_path / "include/linux/kconfig.h").touch()
    (tmp_path / "common.h").write_text(COMMON)
    return tmp_path


def compiled(tree: Path, text: str) -> subprocess.CompletedProcess[str]:
    """The compiler's answer to a file, which is linked and run if it compiles: its words are in `stdout`."""
    (tree / "file.c").write_text(text)
    command = [str(tree / "cc"), "-Wp,-MMD,file.d", "-include", str(tree / "include/linux/kconfig.h")]
    command += ['-DKBUILD_MODNAME="file"', "-c", "-o", "file.o", "file.c"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if done.returncode:
        return done
    subprocess.run(["gcc", "-o", "file", "file.o"], cwd=tree, check=True)
    return subprocess.run([tree / "file"], capture_output=True, text=True)


MAIN = '#include <stdio.h>\nint main(void) { printf("%s %d", pr_fmt(KBUILD_MODNAME), SIZE); return 0; }\n'


def test_the_common_headers_are_compiled_once_and_a_files_own_names_hold(tree: Path) -> None:
    assert compiled(tree, f'#include "common.h"\n{MAIN}').stdout == "file 2"
    header = tree / "common.h.gch"
    made = header.stat().st_mtime_ns
    # Only what was compiled beforehand still has the text that this takes away.
    (tree / "common.h").write_text("")
    answer = compiled(tree, f'#define pr_fmt(text) "its " text\n{MAIN}')
    assert (answer.stdout, answer.stderr) == ("its file 2", "")
    assert header.stat().st_mtime_ns == made
    assert "gch" not in (tree / "file.d").read_text()


def test_a_file_that_defines_what_a_header_asks_for_is_compiled_as_it_stands(tree: Path) -> None:
    assert compiled(tree, f'#define SMALL\n#include "common.h"\n{MAIN}').stdout == "file 1"
    assert not (tree / "common.h.gch").exists()


def test_before_the_common_headers_are_there_all_files_are_compiled_as_they_stand(tree: Path) -> None:
    (tree / "common.h").rename(tree / "include/common.h")
    assert compiled(tree, f'#include "include/common.h"\n{MAIN}').stdout == "file 2"


def test_a_complaint_is_gccs_own_about_the_file(tree: Path) -> None:
    answer = compiled(tree, "int main(void) { return missing; }\n")
    assert answer.returncode
    assert answer.stderr.startswith("file.c: In function")
    assert "file.c:1:25: error: 'missing' undeclared" in answer.stderr.replace("‘", "'").replace("’", "'")


HOT = """
int main(int argc, char **argv) {
    unsigned sum = 0;
    for (int n = 0; n < 100000; n++)
        sum += argc > 5 ? n * 3 : n ^ argc;
    return sum == 1;
}
"""


def test_a_hot_file_counts_what_it_does_and_is_compiled_by_that(tree: Path) -> None:
    (tree / "hot.c").write_text(HOT)
    (tree / "cold.c").write_text(HOT)
    (tree / "hot").write_text("other/hot.o\nhot.o\n")

    def compiled(name: str, profile: str) -> bytes:
        for words in (["-O2", "-c", "-o", f"{name}.o", f"{name}.c"], ["-o", "vmlinux", f"{name}.o"]):
            environment = os.environ | {"SOJOURN_PROFILE": profile}
            subprocess.run([str(tree / "cc"), *words], cwd=tree, check=True, env=environment)
        return (tree / f"{name}.o").read_bytes()

    plain, cold = compiled("hot", ""), compiled("cold", "")
    assert compiled("cold", "generate") == cold
    subprocess.run([tree / "vmlinux"], check=True)
    assert not (tree / "profile").exists()
    compiled("hot", "generate")
    subprocess.run([tree / "vmlinux"], check=True)
    assert len(list((tree / "profile").iterdir())) == 1
    assert plain != compiled("hot", "use") == compiled("hot", "use")
    assert compiled("cold", "use") == cold
