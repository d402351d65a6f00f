# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.lab.lab_file import LabFileError, read_lab_file
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab import check_router
from sojourn.harness.lab.check import _address, _management, _measured, _origin_route, _stand_ins, require_reached
from sojourn.harness.lab.check_router import _clock_source, _links
from sojourn.harness.lab.machine_checks import Wrong, finding_of, require_no_offloads
from tests.programs.hardware.machine.cards import write
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


def test_ssh_that_shares_the_measured_path_is_a_fault() -> None:
    apu = read_lab_file(EXAMPLE.with_name("one-pc-two-apus.toml"))
    by = Place("here", ("env", "SSH_CONNECTION=192.0.2.1 50000 127.0.0.1 22"))
    assert _measured(apu, "router") == {"enp2s0", "enp3s0"}
    assert _measured(apu, "sender") == {"10.42.1.10", "10.42.1.20", "10.42.2.10", "10.42.2.20"}
    assert _management(by, {"enp2s0", "10.42.2.20"}) == "arrives at lo"
    for measured in ("lo", "127.0.0.1"):
        with pytest.raises(Wrong, match=r"^arrives at 127\.0\.0\.1 on lo$") as wrong:
            _management(by, {measured})
        assert wrong.value.verdict == "missing" and "management network" in wrong.value.fix


@pytest.mark.parametrize(
    ("route", "client", "said"),
    [
        ("default via 10.42.2.1", "10.42.1.10", "default via 10.42.2.1 dev srv"),
        ("10.42.1.0/24 via 10.42.2.1", "10.42.1.10", "10.42.1.10 is reached by 10.42.1.0/24 via 10.42.2.1 dev srv"),
        ("default via 10.42.2.1", "10.42.2.7", "10.42.2.7 is reached by 10.42.2.0/24 dev srv"),
    ],
)
def test_the_origin_needs_the_default_route_to_lead_to_the_client(route: str, client: str, said: str) -> None:
    up = "ip link add srv type veth peer name far && ip link set far up && ip link set srv up && "
    up += f"ip address add 10.42.2.10/24 dev srv && ip route add {route} && exec "
    space = ("unshare", "--user", "--map-root-user", "--net", "--", "sh", "-c", up + '"$@"', "sh")
    finding = finding_of("server", _origin_route, Place("server", space), client)
    assert (finding.verdict, finding.found) == ("ok" if said.startswith("default") else "missing", said)
    if finding.verdict == "missing":
        assert "ip route replace default" in finding.fix and "&& ip route del 10.42." in finding.fix


def test_links_and_clock_source_of_a_router_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    router = write(tmp_path, {"enp2s0": "1000", "enp3s0": "100"})
    assert _links(router, "enp2s0", "enp3s0") == "enp2s0 1000 Mbit/s, enp3s0 100 Mbit/s: rates up to 95mbit"
    assert _links(router, "enp4s0") == "enp4s0 unknown"
    for source, verdict in (("tsc", "ok"), ("hpet", "note")):
        (file := tmp_path / "clocksource").write_text(source + "\n")
        monkeypatch.setattr(check_router, "CLOCK_SOURCE", file)
        finding = finding_of("router", _clock_source, Place("here"))
        assert (finding.verdict, finding.found) == (verdict, source)


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
