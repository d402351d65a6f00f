# SPDX-License-Identifier: Apache-2.0
"""Whatever the user's ssh configuration says, a machine that is reached gets no way back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.harness.lab.physical import places_of

GENEROUS = """Host *
  ForwardAgent yes
  ForwardX11 yes
  RemoteForward 8022 localhost:22
  LocalForward 8023 localhost:22
  DynamicForward 1080
  PermitLocalCommand yes
  LocalCommand touch /tmp/owned
  Tunnel yes
"""
LAB = """[router]
ssh = "root@192.0.2.1"
lan = "enp2s0"
wan = "enp3s0"
[client]
address = "10.42.1.10"
[receiver]
ssh = "root@192.0.2.3"
address = "10.42.1.20"
[server]
ssh = "root@192.0.2.2"
address = "10.42.2.10"
[sender]
address = "10.42.2.20"
"""


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    (tmp_path / "config").write_text(GENEROUS)
    (tmp_path / "lab.toml").write_text(f'ssh_config = "{tmp_path / "config"}"\n{LAB}')
    return tmp_path / "lab.toml"


def test_of_every_place_that_ssh_reaches(configured: Path) -> None:
    reached = [place for place in places_of(read_lab_file(configured)).values() if place.remote]
    assert reached
    for place in reached:
        ssh = place.prefix[place.prefix.index("ssh") :]
        told = subprocess.run([ssh[0], "-G", *ssh[1:]], capture_output=True, text=True, check=True).stdout.splitlines()
        settings = dict(line.partition(" ")[::2] for line in told)
        assert settings["clearallforwardings"] == "yes"
        assert {settings[name] for name in ("forwardagent", "forwardx11", "permitlocalcommand")} == {"no"}
        assert settings["tunnel"] == "false"
