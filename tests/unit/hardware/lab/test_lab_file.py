# SPDX-License-Identifier: Apache-2.0
"""A lab file that cannot work is refused with table, key, what is wrong and what would do; all errors at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sojourn.hardware.lab.lab_file import LabFileError, read_lab_file
from sojourn.hardware.machine.errors import Code
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
    ("old", "new", "named"),
    [
        (GOOD, "", ("[box]: ", "[router]", "docs/physical-lab.md", "; [client]")),
        ("[client]", "[box]\n[client]", ("[box]: ", "[router]", "docs/physical-lab.md")),
        (GOOD, "[router\n", ("", "TOML: Expected ']'")),
        ("wan =", "wam =", ('[router] wan: ', 'wan = "enp3s0"; ', "[router] wam: ", "did you mean")),
        ("[server]", "[servant]", ("[server] ", "; servant: ")),
        ('"enp3s0"', '"enp2s0"', ("[router]: lan and wan ", "'enp2s0'")),
        ('"enp3s0"', "5", ("[router] wan: ", " string", " 5")),
        ('"enp3s0"', '"en p1"', ("[router] wan: 'en p1' ", "`ip -br link`")),
        ('"root@apu"', '"-oProxyCommand=x"', ("[router] ssh: '-oProxyCommand=x' ",)),
        ("10.42.2.10", "10.42.2.300", ("[server] address: '10.42.2.300' ",)),
        ("10.42.2.10", "fd42:2::10/64", ("[server] address: 'fd42:2::10/64' ",)),
        ("10.42.2.10", "fe80::1", ("[server] address: 'fe80::1' ", "link-local")),
        ("10.42.2.10", "fd42:2::10", ("client ", "IPv4", "server ", "IPv6")),
        (GOOD, over_ipv6(GOOD).replace("[client]", "nat = true\n[client]"), ("[router] nat ", "IPv4")),
        ("10.42.2.10", "10.42.1.10", ("client and server ", " 10.42.1.10")),
        (GOOD, GOOD.replace("1.20", "1.10").replace("2.20", "2.10"), ("client and receiver ", "address")),
        ("[client]", '[client]\nssh = "a"\nnetns = "b"', ("[client]: ", "ssh", "netns")),
        ("[client]", '[client]\nssh = "root@client"', ("[client] ssh: ", "this machine", "netns")),
        ("[client]", "dead_man_s = 3\n[client]", ("[router] dead_man_s: ", " 10")),
        ("[client]", 'power = ["uhubctl"]\n[client]', ("[router] power: ", "{action}")),
        ("[client]", "serial = []\n[client]", ("[router] serial: ", "empty")),
        ("[client]", '[client]\ninterface = "eno1"', ("[client] interface: ", "the receiver", "omit it")),
        ("[server]", '[server]\ninterface = "eno1"\nnetns = "wan"', ("[server] interface: ", "the sender", "omit it")),
        ("[client]", "[router.labgrid]\n[client]", ("[router.labgrid] environment: ", "environment = ")),
        ("[router]", 'ssh_config = "no"\n[router]', ("ssh_config: {folder}/no: ",)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_what_would_do(tmp_path: Path, old: str, new: str, named: tuple[str, ...]) -> None:
    file = write(tmp_path, GOOD.replace(old, new, 1))
    code: Code = "unreadable-file" if new == "[router\n" else "invalid-value"
    start, *others = (word.replace("{folder}", str(tmp_path)) for word in named)
    with refusal(LabFileError, code, *others) as wrong:
        read_lab_file(file)
    assert str(wrong.value).startswith(f"--lab-file: {file}: {start}")


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


def test_a_capture_at_a_host_is_accepted_that_sees_its_bulk_flow(tmp_path: Path) -> None:
    lab = read_lab_file(write(tmp_path, GOOD.replace("[server]", '[server]\ninterface = "eno1"')))
    assert lab.server.interface == "eno1"


def test_a_box_stands_in_the_routers_place(tmp_path: Path) -> None:
    found = read_lab_file(write(tmp_path, BOX), "black-box")
    assert (found.lab, found.router, found.box and found.box.name) == ("black-box", None, "vendor CPE 1.2")
    assert list(found.machines) == ["box", "client", "receiver", "server", "sender"]
    with refusal(LabFileError, "conflict", "--lab-file: ", "lab.toml: ", "[box]", "--lab=black-box", "[router]"):
        read_lab_file(tmp_path / "lab.toml", "apu")
    with refusal(LabFileError, "conflict", "--lab-file: ", "lab.toml: ", "[router]", "--lab=apu", "[box]"):
        read_lab_file(write(tmp_path, GOOD), "black-box")


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('interface = "eth2"\n', "", ("[server] interface: ", "box")),
        ('"vendor CPE 1.2"', '""', ("[box] name: ", " 1 character")),
        ("[client]", 'ssh = "root@box"\n[client]', ("[box] ssh: ", ": power, serial, labgrid, name, nat")),
        ("[client]", "nat = true\n[client]", ("[box] nat: ", "NAT", "bulk flow")),
    ],
)  # fmt: skip
def test_what_is_wrong_about_a_box_is_named(tmp_path: Path, old: str, new: str, named: tuple[str, ...]) -> None:
    with refusal(LabFileError, "invalid-value", *named):
        read_lab_file(write(tmp_path, BOX.replace(old, new, 1)))


def test_what_writes_a_whole_file_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(LabFileError) as error:
        read_lab_file(write(tmp_path, "[router]\nssh = 'root@apu'\nlan = 'lan0'\nwan = 'wan0'\n"))
    assert str(error.value).endswith(
        "[client] is missing; [receiver] is missing; [server] is missing; [sender] is missing; "
        "`sojourn lab init` creates a complete file; see docs/physical-lab.md"
    )


@pytest.mark.parametrize("text", ["", GOOD.replace("[client]", "[box]\n[client]")])
def test_the_page_about_lab_files_is_named_once(tmp_path: Path, text: str) -> None:
    with pytest.raises(LabFileError) as error:
        read_lab_file(write(tmp_path, text))
    assert str(error.value).count("docs/physical-lab.md") == 1


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
    assert lab.stand_in_problem is None
    near, far = (
        {entry.address.rpartition(".")[0] for entry in side}
        for side in ((lab.client, lab.receiver), (lab.server, lab.sender))
    )
    assert len(near) == len(far) == 1 and near != far
