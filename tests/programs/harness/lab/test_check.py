# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest
from typer.testing import CliRunner

from sojourn.hardware.lab.lab_file import LabFileError, read_lab_file
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.place import Place
from sojourn.harness.cli import app
from sojourn.harness.lab import check_router
from sojourn.harness.lab.check import (
    _address,
    _capture,
    _internet,
    _origin_route,
    _ports_free,
    _python,
    _reached,
    _stand_ins,
    _tcp_memory,
    require_reached,
    require_uplink,
)
from sojourn.harness.lab.check_router import _clock_source, _flow_control, _links, _tc
from sojourn.harness.lab.contract import Tap
from sojourn.harness.lab.doctor import Finding
from sojourn.harness.lab.machine_checks import (
    Wrong,
    finding_of,
    measured,
    require_management,
    require_no_offloads,
)
from sojourn.harness.lab.physical import places_of
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
    assert measured(apu, "router") == {"enp2s0", "enp3s0"}
    assert measured(apu, "sender") == {"10.42.1.10", "10.42.1.20", "10.42.2.10", "10.42.2.20"}
    assert require_management(by, {"enp2s0", "10.42.2.20"}) == "arrives at lo"
    for shared in ("lo", "127.0.0.1"):
        with pytest.raises(Wrong, match=r"^arrives at 127\.0\.0\.1 on lo$") as wrong:
            require_management(by, {shared})
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


def with_programs(folder: Path, **scripts: str) -> Place:
    """A place with these programs of its own."""
    for name, script in scripts.items():
        (program := folder / name).write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return Place("here", ("env", f"PATH={folder}:/usr/sbin:/usr/bin:/sbin:/bin"))


def test_a_machine_without_ethtool_is_refused_with_what_installs_it(tmp_path: Path) -> None:
    """Offloads that nobody can read may be on."""
    for name in ("ip", "sh"):
        (tmp_path / name).symlink_to(which(name) or "")
    bare = Place("router", ("env", f"PATH={tmp_path}"))
    for look, verdict in ((require_no_offloads, "missing"), (_flow_control, "note")):
        finding = finding_of("router", look, bare, "lo")
        assert (finding.verdict, finding.found) == (verdict, "unknown: ethtool is missing")
        assert "apt-get install ethtool" in finding.fix and "opkg install ethtool" in finding.fix


def test_a_namespace_that_exists_needs_root_and_no_further_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (file := tmp_path / "lab.toml").write_text(EXAMPLE.read_text().replace('netns = "wan"', 'netns = "sojourn-none"'))
    lab = read_lab_file(file)
    place = places_of(lab)["server"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "exists", lambda _: True)
    assert finding_of("server", _reached, lab, "server", place).fix.startswith("start sojourn as root")


def test_a_live_service_needs_the_router_as_the_clients_path_to_the_internet(tmp_path: Path) -> None:
    apu = read_lab_file(EXAMPLE.with_name("one-pc-one-apu.toml"))
    with refusal(LabFileError, "unsupported", "--lab-file: ", "nat = true"):
        require_uplink(apu, "https://tv.example/watch")
    for file, url in ((apu, "https://10.42.2.10/watch"), (read_lab_file(EXAMPLE), "https://tv.example/watch")):
        require_uplink(file, url)  # on the lab's own server; a box's captures show what passes it
    ways = (("10.42.1.1", "", "ok"), ("192.168.0.1", "", "missing"), ("10.42.1.1", "default via fe80::1", "missing"))
    for gateway, over_ipv6, verdict in ways:
        route = json.dumps([{"gateway": gateway, "dev": "eth0"}])
        client = with_programs(tmp_path, ip=f"case $1 in -6) echo '{over_ipv6}' ;; *) echo '{route}' ;; esac")
        assert finding_of("client", _internet, client, ["10.42.1.1"]).verdict == verdict


def test_a_check_that_a_signal_ends_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, what it has started on other machines stays there."""
    seen = list[object]()

    def examine(*_: object) -> Iterator[Finding]:
        seen.append(signal.getsignal(signal.SIGTERM))
        yield from ()

    monkeypatch.setattr("sojourn.harness.lab.check.examine", examine)
    assert CliRunner().invoke(app, ["lab", "check", f"--lab-file={EXAMPLE}"]).exit_code == 0
    assert callable(seen[0])


def test_what_a_capture_needs(tmp_path: Path) -> None:
    """On this machine too, a run takes tcpdump where dumpcap is missing."""
    with_programs(tmp_path, ip='echo "[{\\"link_type\\": \\"ether\\"}]"', tcpdump="echo tcpdump version 4.99")
    bare = Place("client", ("env", f"PATH={tmp_path}"))
    (tmp_path / "sh").symlink_to(which("sh") or "")
    assert _capture(Tap(bare, "eth0")) == "tcpdump version 4.99"
    with_programs(tmp_path, ip='echo "[{\\"link_type\\": \\"ppp\\"}]"')
    finding = finding_of("client", _capture, Tap(bare, "ppp0"))
    assert finding.verdict == "missing" and finding.found == "ppp0 is no Ethernet interface: link/ppp"


def test_a_server_without_python_is_noted(tmp_path: Path) -> None:
    assert _python(with_programs(tmp_path, python3="echo Python 3.11.2")) == "Python 3.11.2\n"
    (tmp_path / "python3").unlink()
    (tmp_path / "sh").symlink_to(which("sh") or "")
    finding = finding_of("server", _python, Place("server", ("env", f"PATH={tmp_path}")))
    assert (finding.verdict, finding.found) == ("note", "no python3")


def test_a_queue_of_the_users_own_kernel_is_tried_with_its_words(tmp_path: Path) -> None:
    for accepts, verdict in (("exit 0", "ok"), ('case $* in *" root mine depth 5") exit 1 ;; esac', "missing")):
        router = with_programs(tmp_path, ip="true", tc=accepts)
        needs, queues = check_router._queues(router, ["sch_mine depth 5"])
        assert (needs.verdict, queues.verdict) == ("ok", verdict)
        assert "mine" in queues.found and ("modprobe sch_mine" in queues.fix) == (verdict == "missing")


def test_a_service_on_the_ports_of_the_probes_is_named_with_its_fix(tmp_path: Path) -> None:
    assert _ports_free(with_programs(tmp_path, ss="true")) == "2112, 2114, 2113 are free"
    theirs = 'UNCONN 0 0   *:2112   *:*   users:(("irtt",pid=77,fd=6))'
    finding = finding_of("server", _ports_free, with_programs(tmp_path, ss=f"echo '{theirs}'"))
    assert finding.verdict == "missing" and '"irtt"' in finding.found and "disable --now irtt" in finding.fix


@pytest.mark.parametrize(
    ("most", "saves", "verdict"), [(33554432, 1, "ok"), (6291456, 1, "note"), (33554432, 0, "note")]
)
def test_buffers_and_metrics_that_would_limit_a_flow_are_noted(
    tmp_path: Path, most: int, saves: int, verdict: str
) -> None:
    cat = f"case $1 in */tcp_rmem) echo 4096 131072 {most} ;; */tcp_no_metrics_save) echo {saves} ;; esac"
    finding = finding_of("receiver", _tcp_memory, with_programs(tmp_path, cat=cat), "rmem")
    assert finding.verdict == verdict
    assert verdict == "ok" or "net.ipv4.tcp_rmem='4096 131072 33554432' net.ipv4.tcp_no_metrics_save=1" in finding.fix


def test_links_that_pause_are_noted_and_tc_must_print_classes(tmp_path: Path) -> None:
    said = "Pause parameters for $2:\nAutonegotiate:\ton\nRX:\t\t$RX\nTX:\t\toff\n"
    ethtool = f'RX=off; [ "$2" = wan ] && RX=on; printf "{said}"'
    place = with_programs(tmp_path, ethtool=ethtool, tc="echo tc utility, iproute2-6.1.0, libbpf 1.1.0")
    finding = finding_of("router", _flow_control, place, "lan", "wan")
    assert (finding.verdict, finding.found) == ("note", "on: wan") and "ethtool -A wan autoneg off" in finding.fix
    assert _flow_control(place, "lan") == "off"
    old = finding_of("router", _tc, place)
    assert old.verdict == "missing" and "iproute2-6.1.0" in old.found and "bookworm-backports" in old.fix
    for text, verdict in (
        ("iproute2-6.15.0", "ok"),
        ("iproute2-v6.2.0-3-gabc", "ok"),
        ("iproute2-ss190107", "missing"),
    ):
        assert finding_of("router", _tc, with_programs(tmp_path, tc=f"echo tc utility, {text}")).verdict == verdict
