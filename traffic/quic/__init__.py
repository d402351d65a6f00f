# SPDX-License-Identifier: Apache-2.0
"""Bulk flows over QUIC: a program on quinn (https://github.com/quinn-rs/quinn), compiled by cargo, cached."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from hardware.machine import cache
from hardware.machine.cache import BuildError

HERE = Path(__file__).parent
_SOURCES = ("main.rs", "Cargo.toml", "Cargo.lock")
_INSTALL = "https://rustup.rs, or the packages cargo and gcc of a distribution with Rust 1.88 or newer"


def lacking() -> str:
    """Return what this machine lacks to compile it, empty if nothing."""
    return "" if shutil.which("cargo") else f"cargo ({_INSTALL})"


def ensure_quic() -> Path:
    """The program, compiled now if the cache does not have it. Raises BuildError when it cannot be."""
    if missing := lacking():
        raise BuildError(f"not installed: {missing}")
    compiler = subprocess.run(["rustc", "-vV"], capture_output=True, check=False).stdout
    digest = cache.digest([*((name, (HERE / name).read_bytes()) for name in _SOURCES), ("compiler", compiler)])

    def build(scratch: Path) -> None:
        for name in _SOURCES:
            shutil.copy(HERE / name, scratch)
        command = ["nice", "cargo", "build", "--release", "--locked", "--quiet"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"traffic/quic does not compile: {done.stderr.strip()[-300:]}")
        shutil.move(scratch / "target/release/bulk-quic", scratch)
        cache.remove_tree(scratch / "target")

    return cache.build_once(cache.root() / "quic" / digest, build) / "bulk-quic"
