# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from hardware.machine.place import Place
from traffic import tso
from traffic.contender import ContenderError
from traffic.tso import tso_2020


def test_a_kernel_without_the_switch_is_named() -> None:
    named = r"^here: its kernel has no TSO of 2020 \(/sys/module/tcp_output/"
    with pytest.raises(ContenderError, match=named), tso_2020([Place("here")]):
        pytest.fail("it has none")


def test_the_switch_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = tmp_path / "tso_2020"
    monkeypatch.setattr(tso, "SWITCH_2020", str(switch))
    with tso_2020([Place("here")]):
        assert switch.read_text() == "1\n"
    assert switch.read_text() == "0\n"
