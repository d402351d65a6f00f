# SPDX-License-Identifier: Apache-2.0
"""Kernel code that tests run in user space."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(source: Path, made: Path, *options: str) -> ctypes.CDLL:
    """Compile a C file that includes kernel code to the library `made`, and load it. Skips the test without gcc."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Werror", *options, "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", str(made), str(source)], check=True)
    return ctypes.CDLL(str(made))
