# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.machine.place import Place
from sojourn.traffic import tso
from sojourn.traffic.contender import ContenderError
from sojourn.traffic.tso import tso_2020


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "tso_2020"
    monkeypatch.setattr(tso, "SWITCH_2020", str(file))
    return file


def test_a_kernel_without_the_switch_is_named(switch: Path) -> None:
    named = rf"^here: its kernel has no TSO as in 2020 \({switch}\)"
    with pytest.raises(ContenderError, match=named), tso_2020([Place("here")], on=True):
        pytest.fail("it has none")
    with tso_2020([Place("here")], on=False):
        assert not switch.exists()


@pytest.mark.parametrize("was", ["0\n", "1\n"])
@pytest.mark.parametrize("on", [False, True])
def test_the_switch_is_as_asked_and_then_as_it_was(switch: Path, was: str, on: bool) -> None:
    """Whatever a killed run left."""
    switch.write_text(was)
    with tso_2020([Place("here")], on):
        assert switch.read_text() == f"{on:d}\n"
    assert switch.read_text() == was
