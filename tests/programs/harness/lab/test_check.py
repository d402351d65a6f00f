# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.lab.lab_file import LabFileError, read_lab_file
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab.check import _address, _stand_ins, require_reached
from sojourn.harness.lab.tried import Wrong, require_no_offloads
from tests.refusals import refusal

EXAMPLE = CHECKOUT / "docs" / "examples" / "labs" / "black-box.toml"


def test_a_machine_that_does_not_answer_is_named_with_its_fix_before_anything_is_recorded(tmp_path: Path) -> None:
    (file := tmp_path / "lab.toml").write_text(EXAMPLE.read_text().replace('netns = "wan"', 'netns = "sojourn-none"'))
    with refusal(LabFileError, "unreachable", "--lab-file: server ", "as root: ip netns add sojourn-none"):
        require_reached(read_lab_file(file))


def test_a_server_on_another_machine_is_said_to_serve_no_stand_in(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    assert _stand_ins(read_lab_file(EXAMPLE)) == "run on this machine"
    (file := tmp_path / "lab.toml").write_text(text.replace('netns = "wan"', 'ssh = "root@server"'))
    with pytest.raises(Wrong, match=r"^\[server\] ssh: ") as wrong:
        _stand_ins(read_lab_file(file))
    assert wrong.value.verdict == "note" and wrong.value.fix.startswith("give netns instead of ssh")


def test_an_interface_that_is_not_there_is_named_with_those_that_are() -> None:
    for look in (
        lambda: _address("127.0.0.1", "eth77", Place("here")),
        lambda: require_no_offloads(Place("here"), "eth77"),
    ):
        with pytest.raises(Wrong, match=r"^no interface eth77$") as wrong:
            look()
        assert "lo" in wrong.value.fix
    with pytest.raises(Wrong, match=r"^no interface has 192\.0\.2\.77$"):
        _address("192.0.2.77", None, Place("here"))
