# SPDX-License-Identifier: Apache-2.0
"""The BPF objects of the repository are what their sources say."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

BPF = Path(__file__).parents[3] / "hardware" / "kernel" / "bpf"
CLANG, *LINES = (BPF / "built").read_text().splitlines()
DIGESTS = {name: digest for digest, name in (line.split() for line in LINES)}


def test_objects_were_built_from_these_sources() -> None:
    assert set(DIGESTS) == {path.name for path in BPF.iterdir()} - {"built"}
    for name, digest in DIGESTS.items():
        found = hashlib.sha256((BPF / name).read_bytes()).hexdigest()
        assert found == digest, f"{name} has changed: make -C hardware/kernel/bpf"


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
