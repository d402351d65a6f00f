# SPDX-License-Identifier: Apache-2.0
"""The BPF objects of the repository are made from their sources by the compiler that they name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.hardware.test_bpf import BPF, CLANG, DIGESTS


def test_the_same_compiler_makes_the_same_objects(tmp_path: Path) -> None:
    clang = shutil.which("clang")
    if not clang or CLANG not in subprocess.run([clang, "--version"], capture_output=True, text=True).stdout:
        pytest.skip(f"{CLANG} is not installed")
    if not Path("/usr/include/bpf/bpf_helpers.h").exists():
        pytest.skip("libbpf-dev is not installed")
    shutil.copytree(BPF, tmp_path / "bpf")
    subprocess.run(["make", "-B", "-C", tmp_path / "bpf"], check=True, capture_output=True)
    for name in DIGESTS:
        assert (tmp_path / "bpf" / name).read_bytes() == (BPF / name).read_bytes(), name
