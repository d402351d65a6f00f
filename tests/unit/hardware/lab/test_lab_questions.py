# SPDX-License-Identifier: Apache-2.0
"""The answers make a lab file that is read; what cannot be is asked for again with the reason."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

import pytest

from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.hardware.lab.lab_questions import Port, ask_lab, ports_of, written
from sojourn.hardware.machine.place import CommandError, Place

MACHINES = {
    "root@apu": [
        Port("enp1s0", ip_interface("192.168.1.7/24"), away=True),
        Port("enp2s0", ip_interface("10.42.1.1/24")),
        Port("enp3s0", ip_interface("10.42.2.1/24")),
    ],
    "": [
        Port("wlan0", ip_interface("192.168.1.5/24"), away=True),
        Port("eno1", ip_interface("10.42.1.10/24")),
        Port("eno1", ip_interface("10.42.1.20/24")),
    ],
    "root@server": [Port("eth7", ip_interface("10.42.2.10/24")), Port("eth7", ip_interface("10.42.2.20/24"))],
}


def look(ssh: str) -> Sequence[Port]:
    if ssh not in MACHINES:
        raise CommandError(ssh, ["ip"], 255, "Could not resolve hostname")
    return MACHINES[ssh]


class User:
    """Answers in order; None takes the proposal."""

    def __init__(self, *answers: str | None) -> None:
        self.answers, self.asked, self.told = list(answers), list[tuple[str, str]](), list[str]()

    def ask(self, question: str, proposal: str) -> str:
        self.asked.append((question, proposal))
        answer = self.answers.pop(0)
        return proposal if answer is None else answer


def test_two_machines_and_a_router_need_two_names_and_return(tmp_path: Path) -> None:
    user = User(None, "root@apu", None, None, None, None, None, None, "root@server", None, None, None, None)
    (file := tmp_path / "lab.toml").write_text(written(ask_lab(user.ask, user.told.append, look)))
    lab = read_lab_file(file)
    assert (lab.router.ssh, lab.router.lan, lab.router.wan) == ("root@apu", "enp2s0", "enp3s0")
    assert (lab.client.ssh, lab.client.address, lab.client.interface) == (None, "10.42.1.10", None)
    assert (lab.receiver.ssh, lab.receiver.address) == (None, "10.42.1.20")
    assert (lab.server.ssh, lab.server.address, lab.server.interface) == ("root@server", "10.42.2.10", None)
    assert (lab.sender.ssh, lab.sender.address) == ("root@server", "10.42.2.10")
    assert not user.answers


def test_a_box_needs_its_name_and_the_interfaces_around_it(tmp_path: Path) -> None:
    user = User("box", "vendor CPE", None, None, None, None, "root@server", None, "-", None, None, None)
    tables = ask_lab(user.ask, user.told.append, look)
    (file := tmp_path / "lab.toml").write_text(written(tables))
    lab = read_lab_file(file, "black-box")
    assert lab.box and lab.box.name == "vendor CPE" and lab.router is None
    assert (lab.client.address, lab.client.interface, lab.receiver.address) == ("10.42.1.10", "eno1", "10.42.1.20")
    assert (lab.server.ssh, lab.server.interface, lab.sender.ssh) == ("root@server", "eth7", "root@server")
    assert any("'-' is not an interface name" in line for line in user.told) and not user.answers


def test_what_cannot_be_is_asked_for_again(tmp_path: Path) -> None:
    user = User(
        "bridge", "router", "-oProxyCommand=x", "root@nowhere", None, "enp2s0", "enp2s0", "enp3s0",
        "10.42.1.300", "10.42.1.10", "-", "root@far", "root@far", "10.42.1.20",
        "root@server", "10.42.1.10", "10.42.2.10", None, "root@other", "root@other", "10.42.2.20",
    )  # fmt: skip
    tables = ask_lab(user.ask, user.told.append, look)
    said = "\n".join(user.told)
    assert "Input should be 'router' or 'box'" in said
    assert "'-oProxyCommand=x' is not an ssh destination" in said
    assert "root@nowhere did not list its interfaces: " in said and "Could not resolve hostname" in said
    assert "enp2s0 is already in use" in said and "10.42.1.10 is already in use" in said
    assert "'10.42.1.300' is not an IP address" in said
    assert tables["client"] == {"address": "10.42.1.10"} and tables["sender"]["ssh"] == "root@other"
    assert tomllib.loads(written(tables)) == tables


def test_a_destination_that_does_not_respond_is_asked_for_again_before_anything_else() -> None:
    near, far = (None,) * 6, ("root@server", None, None, None, None)
    user = User("router", "root@nowhere", "root@apu", *near, *far)
    tables = ask_lab(user.ask, user.told.append, look)
    assert [question for question, _ in user.asked[1:3]] == ["router: ssh destination"] * 2
    assert tables["router"] == {"ssh": "root@apu", "lan": "enp2s0", "wan": "enp3s0"}
    assert any("make `ssh root@nowhere` work" in line for line in user.told)


def test_who_gives_the_client_an_ipv6_address_is_proposed_such_ones(tmp_path: Path) -> None:
    def both(ssh: str) -> list[Port]:
        ports = MACHINES[ssh]
        six = (re.sub(r"10\.42\.(\d)\.(\d+)/24", r"fd42:\1::\2/64", str(port.address)) for port in ports)
        return [*ports, *(Port(port.name, ip_interface(text)) for port, text in zip(ports, six, strict=True))]

    user = User(None, "root@apu", None, None, "fd42:1::10", None, None, None, "root@server", None, None, None, None)
    (file := tmp_path / "lab.toml").write_text(written(ask_lab(user.ask, user.told.append, both)))
    assert [host.address for host in read_lab_file(file).hosts.values()] == [
        "fd42:1::10", "fd42:1::20", "fd42:2::10", "fd42:2::10",
    ]  # fmt: skip


def test_the_ports_of_a_machine_are_those_with_an_address_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(local: str, bits: int, scope: str) -> dict[str, Any]:
        return {"local": local, "prefixlen": bits, "scope": scope}

    # As iproute2 6.15 prints it, without what is not read; it prints nothing where there is no route.
    links = [
        {"ifname": "lo", "addr_info": [entry("127.0.0.1", 8, "host"), entry("::1", 128, "host")]},
        {"ifname": "enp1s0", "addr_info": [entry("192.168.1.7", 24, "global"), entry("fe80::20d", 64, "link")]},
        {"ifname": "enp2s0", "addr_info": [entry("fd00::7", 64, "global")]},
        {"ifname": "enp3s0"},
    ]
    answers = {
        ("-4", "route", "show", "default"): json.dumps([{"dst": "default", "gateway": "192.168.1.1", "dev": "enp1s0"}]),
        ("-6", "route", "show", "default"): "",
        ("address",): json.dumps(links),
    }
    monkeypatch.setattr(Place, "run", lambda _, command, **__: answers[tuple(command[2:])])
    assert ports_of("") == [
        Port("enp1s0", ip_interface("192.168.1.7/24"), away=True),
        Port("enp2s0", ip_interface("fd00::7/64"), away=False),
    ]
