# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sojourn.hardware.lab.lab_file import LabFileError, read_lab_file
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.errors import CodedError
from sojourn.harness.lab import needs
from sojourn.harness.lab.needs import needs_origin, require_npm, require_programs_of_cells, require_server_here
from sojourn.harness.options.model import Options
from sojourn.harness.options.rules import parse_options
from tests.refusals import refusal


def test_players_come_from_the_cache_or_by_npm_or_the_error_names_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    monkeypatch.setattr(needs, "find_spec", lambda _name: None)
    monkeypatch.setattr(needs, "find", lambda _name: None)
    with pytest.raises(CodedError, match=r"sojourn\[players\].*sojourn build --from") as raised:
        require_npm()
    assert raised.value.code == "missing-program"
    (tmp_path / "web" / "0123456789abcdef01234567").mkdir(parents=True)
    require_npm()


@pytest.mark.parametrize("name", ["find_spec", "find"])
def test_npm_of_the_extra_or_of_the_system_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    for other in ("find_spec", "find"):
        monkeypatch.setattr(needs, other, lambda _name, there=other == name: "npm" if there else None)
    require_npm()


def test_a_user_whom_ssh_refuses_gets_an_error_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers often run as such a user; ssh-keygen failed after a minute of building."""
    monkeypatch.setattr(needs, "find", lambda name: Path("/usr/bin") / name)
    monkeypatch.setattr(needs, "built", lambda _folder: False)
    require_programs_of_cells("sim", calls=False)
    monkeypatch.setattr(needs.os, "getuid", lambda: 4_000_000_000)
    with pytest.raises(CodedError, match=r"4000000000.*useradd --uid=4000000000") as raised:
        require_programs_of_cells("sim", calls=False)
    assert raised.value.code == "missing"
    monkeypatch.setattr(needs, "built", lambda _folder: True)
    require_programs_of_cells("sim", calls=False)


def wanted(folder: Path, **given: Any) -> Options:
    (file := folder / "lab.toml").write_text(
        '[router]\nssh = "apu"\nlan = "a"\nwan = "b"\n[client]\naddress = "10.0.0.1"\n[receiver]\n'
        'address = "10.0.0.3"\n[server]\nssh = "root@server"\naddress = "10.0.1.2"\n[sender]\naddress = "10.0.1.4"\n'
    )
    return parse_options({"lab": "apu", "lab-file": str(file)}, given)


@pytest.mark.parametrize(
    "given",
    [
        {"service": "youtube"},
        {"service": "web"},
        {"service": "call"},
        {"timeline": "solo:5,video:2", "service": "game"},
    ],
)
def test_what_runs_from_the_files_of_this_machine_is_refused_for_a_server_on_another(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    options = wanted(tmp_path, **given)
    described = read_lab_file(options.lab_file)
    with refusal(
        LabFileError, "unsupported", f"--lab-file: {options.lab_file}: [server] ssh: ", "netns", "--service=game"
    ):
        require_server_here(options, described)
    options.lab_file.write_text(options.lab_file.read_text().replace('ssh = "root@server"', 'netns = "wan"'))
    require_server_here(options, read_lab_file(options.lab_file))


def test_a_game_needs_no_origin_and_its_server_may_be_another_machine(tmp_path: Path) -> None:
    options = wanted(tmp_path, service="game")
    require_server_here(options, read_lab_file(options.lab_file))
    assert not needs_origin(options)
