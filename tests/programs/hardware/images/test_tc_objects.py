# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from sojourn.bottleneck.qdiscs import KINDS
from sojourn.hardware.images import tc_objects
from sojourn.hardware.machine.cache import BuildError
from tests.refusals import refusal


def test_tc_finds_an_object_for_each_kind(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib/x86_64-linux-gnu/tc"
    folder.mkdir(parents=True)
    tc_objects.install(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"sojourn.so", *(f"q_{kind}.so" for kind in tc_objects.KINDS)}
    loaded = (folder / "sojourn.so").read_bytes()
    for kind in tc_objects.KINDS:
        assert kind in KINDS
        assert f"{kind}_qdisc_util".encode() in loaded
        assert (folder / f"q_{kind}.so").resolve() == (folder / "sojourn.so").resolve()
    with pytest.raises(OSError, match="undefined symbol"):  # what tc itself has
        ctypes.CDLL(str(folder / "sojourn.so"), mode=ctypes.RTLD_GLOBAL | 2)


def test_a_root_without_tc_is_named(tmp_path: Path) -> None:
    with refusal(BuildError, "missing", "usr/lib/*/tc", "iproute2"):
        tc_objects.install(tmp_path)


def test_the_object_is_part_of_the_guests_digest(tmp_path: Path) -> None:
    assert {"tc_sce.c", "sce.h", "tc"} == {name for name, _ in tc_objects.inputs()}
