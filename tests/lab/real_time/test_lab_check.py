# SPDX-License-Identifier: Apache-2.0
"""`sojourn lab check`: a lab that is what its file says passes, and each thing that is not is named with its fix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.harness.cli import app
from sojourn.harness.lab.check import examine
from sojourn.harness.lab.doctor import Finding
from tests.lab.real_time.bench import Bench, changed, needs_root
from tests.tiers import first

pytestmark = [pytest.mark.lab, needs_root]
SWITCHED = """
power = ["sh", "-c", "test {action} = get && echo port 2 is on"]
serial = ["sh", "-c", "while read line; do echo apu login:; done"]
"""


@pytest.fixture(scope="module")
def file(nodes: Bench) -> Iterator[Path]:
    with nodes.both_ends_here(SWITCHED) as file:
        yield file


def check(file: Path) -> Iterator[Finding]:
    return examine(read_lab_file(file), ["dualpi2"])


def finding_of(file: Path, subject: str) -> Finding:
    """Check a lab as far as a subject: what is wrong makes later checks wait for answers that do not come."""
    return next(finding for finding in check(file) if finding.subject == subject)


def test_a_lab_as_described_passes(file: Path, nodes: Bench) -> None:
    before = nodes.lab.router.place.run(["ip", "-br", "link"])
    done = sojourn("check", f"--lab-file={file}", "--qdisc=dualpi2")
    print(done.stdout)
    assert done.exit_code == 0, done.stdout + done.stderr
    found = {finding.subject: finding for finding in check(file)}
    amiss = [it for it in found.values() if it.verdict != "ok"]
    # A node whose host stalled while it booted has a clock that lags: that is told, and no fault of the lab.
    assert all(it.verdict == "note" and it.subject.endswith((": clock", ": clock source")) for it in amiss), amiss
    assert found["router: lan lan"].found == "10.42.1.1; client and receiver behind it"
    assert found["router: ssh"].found == found["sender: ssh"].found == "arrives at mgmt"
    assert found["receiver: route to sender"].found == "via 10.42.1.1; the host responds"
    assert found["router: power"].found == "port 2 is on" and found["router: serial"].found == "'apu login:'"
    assert "prague" in found["sender: TCP"].found and "AccECN" in found["sender: TCP"].found
    assert "tcpdump version" in found["client: capture at router"].found
    assert nodes.lab.router.place.run(["ip", "-br", "link"]) == before


@pytest.mark.parametrize(
    ("old", "new", "subject", "found", "fix"),
    first(2, [
        ('lan = "lan"\nwan = "wan"', 'lan = "wan"\nwan = "lan"', "router: lan wan", "client (10.42.1.10) is behind lan",
         "swap lan and wan"),
        ('wan = "wan"', 'wan = "eth9"', "router: wan eth9", "no interface eth9",
         "[router] wan: one of lan, lo, mgmt, wan"),
        ("10.42.1.20", "10.42.1.21", "receiver: address", "no interface has 10.42.1.21", "available: 127.0.0.1, "),
        ('ssh = "receiver"', 'ssh = "nobody"', "receiver: reached", "closed", "check its power, its sshd"),
        ('netns = "', 'netns = "no-', "client: reached", "no-sojourn-client", "as root: ip netns add no-sojourn-"),
        ("= get", "= on", "router: power", "exit code 1", "see the message"),
        ("while read line; do echo apu login:; done", "exec sleep 9", "router: serial",
         "prints nothing after a return", "check speed, cable"),
    ]),
)  # fmt: skip
def test_an_entry_that_is_wrong_is_named_with_its_fix(
    file: Path, tmp_path: Path, old: str, new: str, subject: str, found: str, fix: str
) -> None:
    (wrong := tmp_path / "lab.toml").write_text(file.read_text().replace(old, new, 1))
    told = finding_of(wrong, subject)
    assert told.verdict == "missing" and found in told.found and fix in told.fix, told


@pytest.mark.parametrize(
    ("machine", "change", "back", "subject", "found", "fix"),
    first(2, [
        ("router", "echo 0 >/proc/sys/net/ipv4/ip_forward", "echo 1 >/proc/sys/net/ipv4/ip_forward",
         "router: forwarding", "off", "sysctl -w net.ipv4.ip_forward=1"),
        ("router", "ethtool -K wan gro on", "ethtool -K wan gro off",
         "router: offloads", "on: wan: gro", "ethtool -K wan gro off"),
        ("router", "tc qdisc add dev wan root handle 7: fq", "tc qdisc del dev wan root",
         "router: free", "queues set up by others: wan: fq 7:", "tc qdisc del dev wan root"),
        ("sender", "ip route add 10.42.1.10 dev eth0", "ip route del 10.42.1.10",
         "sender: route to client", "goes directly, dev eth0", "ip route replace 10.42.1.10 via 10.42.2.1"),
        ("sender", "date -s '5 minutes'", "date -s '5 minutes ago'",
         "sender: clock", " s, ± ", "synchronise its clock with chrony"),
    ]),
)  # fmt: skip
def test_a_machine_that_is_not_right_is_named_with_its_fix(
    file: Path, nodes: Bench, machine: str, change: str, back: str, subject: str, found: str, fix: str
) -> None:
    place = nodes.lab.router.place if machine == "router" else nodes.lab.sender
    with changed(place, change, back):
        told = finding_of(file, subject)
    assert told.verdict != "ok" and found in told.found and fix in told.fix, told


def sojourn(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lab", *arguments], env={"COLUMNS": "300"})


def test_power_is_switched_from_the_command_line(file: Path) -> None:
    assert sojourn("power", f"--lab-file={file}", "router", "get").stdout == "port 2 is on\n"
    for words, says in (
        (("router", "on"), "router: power on: local: sh -c"),
        (("sender", "on"), "sender: the lab file defines no power switch"),
        (("apu", "on"), "unknown machine 'apu'; known: router, client,"),
    ):
        done = sojourn("power", f"--lab-file={file}", *words)
        assert done.exit_code == 1 and says in done.stderr


def test_an_unknown_queue_is_refused_before_anything_starts(file: Path) -> None:
    done = sojourn("check", f"--lab-file={file}", "--qdisc=dualpi3")
    assert done.exit_code == 1 and '--qdisc: unknown qdisc "dualpi3"; did you mean dualpi2?' in done.stderr
