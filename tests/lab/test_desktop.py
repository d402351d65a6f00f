# SPDX-License-Identifier: Apache-2.0
"""The userland of simulated machines stays as it was built, whatever is run of it and put beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sojourn.hardware.images import desktop
from sojourn.hardware.images.desktop import ensure_desktop
from sojourn.hardware.machine import cache
from sojourn.harness.experiment.simulated import encoder

pytestmark = pytest.mark.lab


def written(tree: Path) -> dict[Path, tuple[int, int, int]]:
    """Return when each file's content last changed, its size and mode. Another userland may link to it meanwhile."""
    every = ((path, path.lstat()) for path in (tree, *tree.rglob("*")))
    return {path: (it.st_mtime_ns, it.st_size, it.st_mode) for path, it in every}


def test_compiling_sources_for_it_writes_nothing_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = ensure_desktop().root
    before = written(root)
    (module := tmp_path / "checkout" / "apps" / "module.py").parent.mkdir(parents=True)
    module.write_text("import argparse, bz2, dataclasses\n")
    monkeypatch.setattr(desktop, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.setattr(cache, "root", lambda: tmp_path / "cache")
    sources, _ = desktop._ensure_sources(root.parent)
    assert list((sources / "sojourn" / "apps").rglob("module.*.pyc"))
    assert written(root) == before


def test_it_holds_nothing_of_the_host_and_its_encoder_runs_there() -> None:
    """So every host has the same userland, and makes the same film."""
    userland = ensure_desktop()
    assert not list((userland.root / "dev").iterdir())
    assert not (userland.root / "usr/lib/python3/dist-packages/bin").exists()
    made = encoder(userland)
    said = subprocess.run([*made.command, "-version"], capture_output=True, text=True, check=True).stdout
    version = userland.versions["ffmpeg"]
    assert said.startswith(f"ffmpeg version {version.partition(':')[2]} ") and f"ffmpeg {version}" in made.version
    assert "libx264-" in made.version
