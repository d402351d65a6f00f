# SPDX-License-Identifier: Apache-2.0
"""A lab file that cannot work is refused with table, key, what is wrong and what would do; all errors at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sojourn.hardware.lab.lab_file import LabFileError, read_lab_file
from sojourn.hardware.machine.files import CHECKOUT
from tests.refusals import refusal

GOOD = """
[router]
ssh = "root@apu"
lan = "enp2s0"
wan = "enp3s0"
[client]
address = "10.42.1.10"
[receiver]
ssh = "root@receiver"
address = "10.42.1.20"
[server]
address = "10.42.2.10"
[sender]
address = "10.42.2.20"
"""


def over_ipv6(text: str) -> str:
    """The same lab with IPv6 addresses."""
    return re.sub(r"10\.42\.(\d)\.(\d+)", r"fd42:\1::\2", text)


def write(folder: Path, text: str) -> Path:
    (file := folder / "lab.toml").write_text(text)
    return file


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (GOOD, "", "[box]: exactly one of [router] and [box] is required; docs/physical-lab.md shows both; [client]"),
        ("[client]", "[box]\n[client]", "[box]: exactly one of [router] and [box] is required; docs/physical-lab.md"),
        (GOOD, "[router\n", "not valid TOML: Expected ']'"),
        ("wan =", "wam =", '[router] wan: is missing, such as wan = "enp3s0"; [router] wam: is unknown; did you mean'),
        ("[server]", "[servant]", "[server] is missing; servant: is unknown;"),
        ('"enp3s0"', '"enp2s0"', "[router]: lan and wan are both 'enp2s0'; give a different interface for each side"),
        ('"enp3s0"', "5", "[router] wan: Input should be a valid string, found 5"),
        ('"enp3s0"', '"en p1"', "[router] wan: 'en p1' is not an interface name; `ip -br link` on that machine"),
        ('"root@apu"', '"-oProxyCommand=x"', "[router] ssh: '-oProxyCommand=x' is not an ssh destination; give"),
        ("10.42.2.10", "10.42.2.300", "[server] address: '10.42.2.300' is not an IP address; give one without a"),
        ("10.42.2.10", "fd42:2::10/64", "[server] address: 'fd42:2::10/64' is not an IP address; give one without a"),
        ("10.42.2.10", "fe80::1", "[server] address: 'fe80::1' is link-local and not forwarded by routers; give"),
        ("10.42.2.10", "fd42:2::10", "client has an IPv4 address, server an IPv6 address; use one version for all"),
        (GOOD, over_ipv6(GOOD).replace("[client]", "nat = true\n[client]"), "[router] nat supports IPv4 only; "),
        ("10.42.2.10", "10.42.1.10", "client and server both have the address 10.42.1.10; the router must be between"),
        (GOOD, GOOD.replace("1.20", "1.10").replace("2.20", "2.10"), "client and receiver share an address, and"),
        ("[client]", '[client]\nssh = "a"\nnetns = "b"', "[client]: both ssh and netns are given; a namespace is"),
        ("[client]", "dead_man_s = 3\n[client]", "[router] dead_man_s: Input should be greater than or equal to 10"),
        ("[client]", 'power = ["uhubctl"]\n[client]', "[router] power: the command does not contain {action}"),
        ("[client]", "serial = []\n[client]", "[router] serial: the command is empty; give the program and"),
        ("[client]", "[router.labgrid]\n[client]", '[router.labgrid] environment: is missing, such as environment = '),
        ("[router]", 'ssh_config = "no"\n[router]', "ssh_config: {folder}/no: no such file"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_what_would_do(tmp_path: Path, old: str, new: str, says: str) -> None:
    file = write(tmp_path, GOOD.replace(old, new, 1))
    said = re.escape(f"--lab-file: {file}: " + says.replace("{folder}", str(tmp_path)))
    with pytest.raises(LabFileError, match="^" + said):
        read_lab_file(file)


BOX = """
[box]
name = "vendor CPE 1.2"
[client]
address = "10.42.1.10"
interface = "eth1"
[receiver]
address = "10.42.1.20"
[server]
netns = "wan"
address = "10.42.2.10"
interface = "eth2"
[sender]
netns = "wan"
address = "10.42.2.10"
"""


def test_a_box_stands_in_the_routers_place(tmp_path: Path) -> None:
    found = read_lab_file(write(tmp_path, BOX), "black-box")
    assert (found.lab, found.router, found.box and found.box.name) == ("black-box", None, "vendor CPE 1.2")
    assert list(found.machines) == ["box", "client", "receiver", "server", "sender"]
    with refusal(LabFileError, "conflict", "--lab-file: ", "lab.toml: ", "[box]", "--lab=black-box", "[router]"):
        read_lab_file(tmp_path / "lab.toml", "apu")
    with refusal(LabFileError, "conflict", "--lab-file: ", "lab.toml: ", "[router]", "--lab=apu", "[box]"):
        read_lab_file(write(tmp_path, GOOD), "black-box")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('interface = "eth2"\n', "", "[server] interface: is missing, because a box cannot capture; give one"),
        ('"vendor CPE 1.2"', '""', "[box] name: String should have at least 1 character"),
        ("[client]", 'ssh = "root@box"\n[client]', "[box] ssh: is unknown; known: power, serial, labgrid, name, nat"),
        ("[client]", "nat = true\n[client]", "[box] nat: with NAT, no bulk flow can be opened towards the"),
    ],
)  # fmt: skip
def test_what_is_wrong_about_a_box_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(LabFileError, match=re.escape(says)):
        read_lab_file(write(tmp_path, BOX.replace(old, new, 1)))


def test_what_writes_a_whole_file_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(LabFileError) as error:
        read_lab_file(write(tmp_path, "[router]\nssh = 'root@apu'\nlan = 'lan0'\nwan = 'wan0'\n"))
    assert str(error.value).endswith(
        "[client] is missing; [receiver] is missing; [server] is missing; [sender] is missing; "
        "`sojourn lab init` creates a complete file; see docs/physical-lab.md"
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with refusal(LabFileError, "unreadable-file", "no/lab.toml: No such file", "sojourn lab init"):
        read_lab_file(tmp_path / "no" / "lab.toml")


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh_config").touch()
    (tmp_path / "apu.yaml").touch()
    labgrid = '[router.labgrid]\nenvironment = "apu.yaml"\n[client]'
    write(tmp_path, 'ssh_config = "ssh_config"\n' + GOOD.replace("[client]", labgrid))
    monkeypatch.chdir("/")
    found = read_lab_file(tmp_path / "lab.toml")
    assert found.ssh_config == tmp_path / "ssh_config"
    assert found.router.labgrid and found.router.labgrid.environment == tmp_path / "apu.yaml"


@pytest.mark.parametrize(("page", "lab"), [("physical-lab.md", "apu"), ("black-box.md", "black-box")])
def test_the_documented_file_is_right(tmp_path: Path, page: str, lab: str) -> None:
    shown = re.search(r"```toml\n(.*?)```", (CHECKOUT / "docs" / page).read_text(), re.DOTALL)
    assert shown and read_lab_file(write(tmp_path, shown[1]), lab)


@pytest.mark.parametrize(
    "file", sorted((CHECKOUT / "docs" / "examples" / "labs").glob("*.toml")), ids=lambda file: file.stem
)
def test_the_worked_files_can_be_read(file: Path) -> None:
    lab = read_lab_file(file)
    assert lab.client.ssh is None
    for one, other in ((lab.client, lab.receiver), (lab.server, lab.sender)):
        alone = (one.ssh, one.netns) != (other.ssh, other.netns)
        assert alone != bool(one.interface), "a capture at a host sees nothing of another's bulk flow"
    near, far = (
        {entry.address.rpartition(".")[0] for entry in side}
        for side in ((lab.client, lab.receiver), (lab.server, lab.sender))
    )
    assert len(near) == len(far) == 1 and near != far
