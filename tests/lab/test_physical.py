# SPDX-License-Identifier: Apache-2.0
"""--lab=apu, driven over ssh by a lab file, against virtual nodes that stand where the hardware would."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck.spec import Bottleneck
from harness.lab import Lab
from harness.physical import LabFileError, PhysicalLab, read_lab_file
from traffic import iperf3, ss

pytestmark = pytest.mark.lab


@pytest.fixture
def lab_file(lab: Lab, tmp_path: Path) -> Path:
    """A lab file whose ssh configuration leads through the virtual lab's network to its nodes."""
    router = lab.router.place
    virtual = Path(router.prefix[router.prefix.index("-F") + 1])
    hub = router.prefix[: router.prefix.index("ssh")]
    # The stand-in for a cable: from this host into the lab's network.
    (pipe := tmp_path / "pipe.py").write_text(_PIPE)
    proxy = " ".join([*hub, "python3", str(pipe), "%h", "%p"])
    config = tmp_path / "ssh_config"
    lines = [ln for ln in virtual.read_text().splitlines() if "Control" not in ln]
    config.write_text(lines[0] + f"\n  ProxyCommand {proxy}\n" + "\n".join(lines[1:]) + "\n")
    file = tmp_path / "lab.toml"
    file.write_text(
        f'ssh_config = "{config}"\n'
        '[router]\nssh = "router"\nlan = "lan"\nwan = "wan"\n'
        '[client]\naddress = "10.42.1.10"\n'
        '[receiver]\nssh = "receiver"\naddress = "10.42.1.20"\ninterface = "eth0"\n'
        '[server]\nssh = "sender"\naddress = "10.42.2.20"\ninterface = "eth0"\n'
        '[sender]\nssh = "sender"\naddress = "10.42.2.20"\ninterface = "eth0"\n'
    )
    return file


_PIPE = (
    "import os,select,socket,sys;s=socket.create_connection((sys.argv[1],int(sys.argv[2])));i=0\n"
    "while True:\n"
    "  r=select.select([0,s],[],[])[0]\n"
    "  if 0 in r:\n"
    "    d=os.read(0,65536)\n"
    "    if not d: break\n"
    "    s.sendall(d)\n"
    "  if s in r:\n"
    "    d=s.recv(65536)\n"
    "    if not d: break\n"
    "    os.write(1,d)\n"
)


def test_a_router_over_ssh_is_set_up_read_back_and_restored(lab: Lab, lab_file: Path) -> None:
    bottleneck = Bottleneck.symmetric(20_000_000, "dualpi2", 20_000)
    with PhysicalLab(read_lab_file(lab_file)) as apu:
        apu.router.apply(bottleneck)
        lab.router.verify(bottleneck)
        assert "dualpi2" in apu.router.final_statistics()
        assert iperf3.check(apu.sender) and ss.check(apu.sender)
        assert "prague" in apu.receiver.run(["cat", "/proc/sys/net/ipv4/tcp_available_congestion_control"])
    assert "dualpi2" not in lab.router.final_statistics()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "router: Field required"),
        ("[router\n", "no TOML"),
        ('[router]\nssh="apu"\nlan="eth1"\nwan="eth0"\nwam="x"\n', "router.wam: Extra inputs"),
    ],
)
def test_a_wrong_lab_file_is_named_with_the_entry(tmp_path: Path, text: str, says: str) -> None:
    (file := tmp_path / "lab.toml").write_text(text)
    with pytest.raises(LabFileError, match=f"--lab-file: {file}: {says}"):
        read_lab_file(file)
