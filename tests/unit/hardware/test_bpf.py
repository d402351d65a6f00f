# SPDX-License-Identifier: Apache-2.0
"""The BPF objects of the repository are what their sources say."""

from __future__ import annotations

import hashlib
from pathlib import Path

BPF = Path(__file__).parents[3] / "hardware" / "kernel" / "bpf"
CLANG, *LINES = (BPF / "built").read_text().splitlines()
DIGESTS = {name: digest for digest, name in (line.split() for line in LINES)}


def test_objects_were_built_from_these_sources() -> None:
    assert set(DIGESTS) == {path.name for path in BPF.iterdir()} - {"built"}
    for name, digest in DIGESTS.items():
        found = hashlib.sha256((BPF / name).read_bytes()).hexdigest()
        assert found == digest, f"{name} has changed: make -C hardware/kernel/bpf"
