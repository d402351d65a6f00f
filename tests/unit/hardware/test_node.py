# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.hardware.node import Interface, mac, node_command

LAN = Interface("lan", "apu-lan", "10.42.1.1/24")
WAN = Interface("wan", "apu-wan", "10.42.2.1/24")


def test_router_command() -> None:
    command = node_command(name="router", interfaces=[LAN, WAN], forward=True, extra=["quiet2"])
    assert command[0] == "./linux" and command[-1] == "quiet2"
    assert {"hostfs=/proc/self/cwd", "rootflags=root/.", "ro", "seccomp=on"} <= {*command}
    assert f"vec1:transport=raw,ifname=apu-wan,depth=64,gro=0,mac={mac('router', 'wan')}" in command
    assert "sj_if=vec0:lan:10.42.1.1/24,vec1:wan:10.42.2.1/24" in command
    assert "sj_forward=1" in command and not [word for word in command if word.startswith("sj_route")]


def test_programs_that_nobody_trusts_have_no_code_of_the_kernel_in_them() -> None:
    command = node_command(name="sim", interfaces=[], untrusted=True)
    assert "seccomp=off" in command and "seccomp=on" not in command


def test_the_gateway_has_the_default_route() -> None:
    command = node_command(name="sender", interfaces=[LAN], gateway="10.42.1.254")
    assert "sj_route=default:10.42.1.254" in command


def test_addresses_on_the_wire_are_local_unicast_and_differ() -> None:
    addresses = {mac(node, name) for node in ("router", "sender") for name in ("lan", "wan", "mgmt")}
    assert len(addresses) == 6
    assert all(int(address[:2], 16) & 3 == 2 and len(address) == 17 for address in addresses)


@pytest.mark.parametrize("bad", ["a b", "a,b", "", "a\n"])
def test_words_that_a_command_line_cannot_carry_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="cannot be on a kernel command line"):
        node_command(name=bad, interfaces=[LAN])
    with pytest.raises(ValueError, match="cannot be on a kernel command line"):
        node_command(name="router", interfaces=[Interface("lan", bad, "10.42.1.1/24")])
