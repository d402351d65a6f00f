# SPDX-License-Identifier: Apache-2.0
"""Hosts are claimed as a router is: restored at the end, by the next run, or by themselves.

Two namespaces, each with a /run of its own, are the hosts on both sides of a box, with a shell as their ssh: server and
sender are two names of one machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.bottleneck.lease import FOLDER, LeaseError, MachineLease, owner_of
from sojourn.bottleneck.router import Router
from sojourn.hardware.lab.lab_file import FAR, HOSTS, NEAR, LabFile, MachineEntry, read_lab_file
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.namespaces import Namespaces
from sojourn.hardware.machine.place import NETNS, Place
from sojourn.hardware.machine.process import Process
from sojourn.harness.cli import app
from sojourn.harness.lab import check, check_router, physical
from sojourn.harness.lab.machine_checks import finding_of
from sojourn.harness.lab.physical import CLOCK, PhysicalLab, PhysicalLabError
from sojourn.traffic.contender import ECN_FILES
from tests.refusals import refusal
from tests.unit.hardware.lab.test_lab_file import BOX, GOOD, write

#: A run that has changed a host and left a program there; in one that is killed, the host waits for 3 s.
RUN = """
import json
import sys
from pathlib import Path
from sojourn.bottleneck.router import Router
from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.hardware.machine import cores
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process
from sojourn.harness.lab import physical
lab_file, lease_s, prefixes = sys.argv[1:]
cores.LATENCY = "/none"
physical.DEAD_MAN_S = int(lease_s)
physical.places_of = lambda _: {
    name: Place(name, tuple(prefix), remote=True) for name, prefix in json.loads(prefixes).items()
}
with physical.PhysicalLab(read_lab_file(Path(lab_file))) as lab:
    lab.sender.run(["sh", "-c", "echo 0 >/proc/sys/net/ipv4/tcp_ecn"])
    Process.start(lab.server, ["sleep", "1000"])
    print("up", flush=True)
    sys.stdin.read()
"""


class Said(list[str]):
    """What a lab says, without that another one runs on this machine: that may be another test's."""

    def append(self, text: str) -> None:
        if not text.startswith("another real-time lab runs on this machine"):
            super().append(text)


@contextmanager
def machine() -> Iterator[Place]:
    with Namespaces(["hub", "host"]) as spaces:
        spaces.cable("hub", {name: ("host", name) for name in ("eth1", "eth2")})
        spaces["host"].run(["mount", "-t", "tmpfs", "tmpfs", "/run"])
        yield spaces["host"]


@pytest.fixture
def host() -> Iterator[Place]:
    """The machine of server and sender."""
    with machine() as host:
        for line in ("link set lo up", "address add 10.42.2.10/24 dev lo", "route add 10.42.1.0/24 via 10.42.2.10"):
            host.run(["ip", *line.split()])
        host.run(["sh", "-c", "echo 2 >/proc/sys/net/ipv4/tcp_ecn"])
        yield host


@pytest.fixture
def places(host: Place) -> Iterator[dict[str, Place]]:
    with machine() as near:
        prefixes = dict.fromkeys(NEAR, near.prefix) | dict.fromkeys(FAR, host.prefix)
        yield {name: Place(name, (*prefix, "sh", "-c"), remote=True) for name, prefix in prefixes.items()}


@pytest.fixture
def lab_file(places: dict[str, Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sojourn.hardware.machine.cores.LATENCY", str(tmp_path / "none"))  # this host's cores may sleep
    monkeypatch.setattr(physical, "places_of", lambda _: places)
    monkeypatch.setattr(physical, "close_master", lambda _: None)
    return write(tmp_path, BOX.replace("[client]", 'power = ["echo", "{action}"]\n[client]'))


@pytest.fixture
def box(lab_file: Path) -> LabFile:
    return read_lab_file(lab_file)


@pytest.fixture
def run(places: dict[str, Place], lab_file: Path) -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    """Return what starts another run, given its lease in s."""
    begun = []

    def start(lease_s: int) -> subprocess.Popen[str]:
        prefixes = json.dumps({name: place.prefix for name, place in places.items()})
        words = [sys.executable, "-c", RUN, str(lab_file), str(lease_s), prefixes]
        other = subprocess.Popen(words, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        begun.append(other)
        assert other.stdout and other.stdout.readline() == "up\n"
        return other

    yield start
    for other in begun:
        other.kill()
        other.communicate()


def state(host: Place) -> tuple[str, ...]:
    """The settings, routes, programs and claims of the host."""
    sleeps = 'for p in /proc/[0-9]*; do [ "$(tr -d "\\0" <$p/cmdline)" = sleep1000 ] && echo left; done; true'
    commands = ["cat", *ECN_FILES], ["ip", "route"], ["sh", "-c", sleeps], ["ls", "/run"]
    return tuple(host.run(command) for command in commands)


def test_a_host_is_claimed_once_and_left_as_it_was(host: Place, box: LabFile) -> None:
    before, said = state(host), Said()
    with PhysicalLab(box, notify=said.append) as lab:
        assert list(lab.watched) == ["the connection to the client", "the connection to the server"]
        assert [lost() for lost in lab.watched.values()] == [None, None]
        lab.sender.run(["sh", "-c", f"for file in {' '.join(ECN_FILES)}; do echo 0 >$file; done"])
        lab.server.run(["ip", "route", "replace", "10.42.1.0/24", "via", "10.42.2.10", "congctl", "reno"])
        lab.sender.run(["touch", "/run/sojourn.key"])  # a tunnel's
        Process.start(lab.sender, ["sleep", "1000"])
        changed = state(host)
        assert all(old != new for old, new in zip(before, changed, strict=True))
    assert state(host) == before and said == []


def test_a_host_in_use_is_refused_and_what_a_killed_run_left_is_undone(
    host: Place, box: LabFile, run: Callable[[int], subprocess.Popen[str]]
) -> None:
    before, said = state(host), Said()
    other = run(20)
    changed = state(host)
    with refusal(LeaseError, "in-use", "client: ", f"(process {other.pid}, "), PhysicalLab(box):
        pass
    assert state(host) == changed != before
    other.send_signal(signal.SIGKILL)
    other.communicate()
    with PhysicalLab(box, notify=said.append):
        assert state(host)[:3] == before[:3]
    for name, text in zip(("client", "server"), said, strict=True):
        assert text.startswith(f"{name}: undid what a run of ") and f"(process {other.pid}, " in text


def test_a_host_restores_itself_after_a_killed_run(host: Place, run: Callable[[int], subprocess.Popen[str]]) -> None:
    before = state(host)
    run(10).kill()
    assert state(host) != before
    deadline = time.monotonic() + 60
    while state(host) != before:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_machine_that_is_lost_after_the_last_phase_makes_the_lab_unfit(host: Place, box: LabFile) -> None:
    with (kept := PhysicalLab(box)):
        pass
    kept.require_kept()
    with (lost := PhysicalLab(box)):
        host.run(["rm", "-r", FOLDER])  # as a reboot does
    with pytest.raises(PhysicalLabError, match="server: the claim is lost"):
        lost.require_kept()


@pytest.mark.parametrize(("device", "machine"), [("eth1", "client"), ("eth2", "server")])
def test_an_offload_that_is_on_is_refused_with_its_fix(
    places: dict[str, Place], box: LabFile, device: str, machine: str
) -> None:
    places[machine].run(["ethtool", "-K", device, "gro", "on"])
    fix = rf"^{machine}: offloads of {device}: on: {device}: gro; as root there: ethtool -K {device} gro off$"
    with pytest.raises(PhysicalLabError, match=fix), PhysicalLab(box):
        pass
    places[machine].run(["ethtool", "-K", device, "gro", "off"])
    with PhysicalLab(box):
        pass


def test_a_router_is_claimed_with_its_hosts_and_its_offloads_are_looked_at(
    host: Place, places: dict[str, Place], tmp_path: Path, lab_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asks_tc in ("foreign", "clear"):  # this host's kernel may have no queues
        monkeypatch.setattr(Router, asks_tc, lambda _: [])
    file = read_lab_file(write(tmp_path, GOOD.replace("enp2s0", "eth1").replace("enp3s0", "eth2")))
    before = state(host)
    with machine() as router:
        places["router"] = Place("router", (*router.prefix, "sh", "-c"), remote=True)
        with PhysicalLab(file, tmp_path, steps_bps=[10**9]) as lab:
            assert lab.router and lab.router.steps_bps == [10**9]
            assert list(lab.watched) == [f"the connection to the {name}" for name in ("router", "client", "server")]
            assert owner_of(router) and owner_of(host)
        assert (tmp_path / CLOCK).read_bytes() and state(host) == before and owner_of(router) is None
        router.run(["ethtool", "-K", "eth2", "gro", "on"])
        with pytest.raises(PhysicalLabError, match=r"^router: offloads of eth2: on: eth2: gro; "), PhysicalLab(file):
            pass
        assert owner_of(router) is None


def test_a_user_who_is_not_root_claims_nothing_on_this_machine(
    host: Place, box: LabFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, said = state(host), Said()
    monkeypatch.setattr(physical, "places_of", lambda _: {name: Place(name, host.prefix) for name in HOSTS})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with PhysicalLab(box, notify=said.append) as lab:
        assert lab.watched == {} and state(host) == before
    assert said == []


def test_a_namespace_has_a_claim_of_its_own(host: Place) -> None:
    """What would enter the namespace is passed over here."""
    name = "it's $x"
    inner = Place("inner", (*host.prefix, "sh", "-c", 'shift; exec "$@"', "sh", NETNS + name))
    assert inner.netns == name and host.netns == Place("far", inner.prefix, remote=True).netns == ""
    leases = [MachineLease(place, [], 20) for place in (host, inner)]
    for lease in leases:
        lease.claim()
    try:
        assert host.run(["ls", "/run"]).splitlines() == ["sojourn", f"sojourn-{name}"]
    finally:
        for lease in leases:
            lease.release()
    assert host.run(["ls", "/run"]) == ""


def test_a_namespace_has_its_own_files_of_etc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`nsenter` alone would take this host's resolver."""
    file = read_lab_file(write(tmp_path, BOX))
    assert physical.places_of(file)["server"].prefix[-2:] == (f"{NETNS}wan", "--")
    monkeypatch.setattr(Path, "is_dir", lambda path: str(path) == "/etc/netns/wan")
    server = physical.places_of(file)["server"]
    assert server.prefix[-4:] == ("ip", "netns", "exec", "wan") and server.netns == "wan"


def test_a_machine_in_use_is_neither_changed_by_a_check_nor_switched(
    host: Place, places: dict[str, Place], lab_file: Path, box: LabFile
) -> None:
    def power(machine: str, action: str) -> str:
        done = CliRunner().invoke(app, ["lab", "power", f"--lab-file={lab_file}", machine, action])
        return done.output

    lease = MachineLease(host, [], 20)
    lease.claim()
    try:
        console = MachineEntry(serial=["echo"])
        for finding in (
            finding_of("tcp", check._tcp, host),
            finding_of("path", check._path_between_taps, box, places),
            finding_of("route", check._way, host, "10.42.1.10", [None], host),
            finding_of("serial", check._serial, console, [places["client"], host]),
            *check_router._queues(host, ["fq"]),
        ):
            assert finding.verdict == "note" and finding.found.startswith("in use by ")
        assert "server: in use by " in power("box", "off")
        assert "server: in use by " in power("server", "on")
        assert power("box", "get") == "get\n" and "in use" not in power("client", "off")
    finally:
        lease.release()
    assert power("box", "off") == "off\n"
    host.run(["mkdir", FOLDER])  # what a run left that was killed as it claimed the machine
    assert power("box", "off") == "off\n" and owner_of(host) is None
