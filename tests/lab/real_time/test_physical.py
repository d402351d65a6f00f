# SPDX-License-Identifier: Apache-2.0
"""--lab=apu, driven over ssh by a lab file, against virtual nodes that stand where the hardware would."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.apps.standins.origin import set_congestion_control
from sojourn.bottleneck.lease import LeaseError, MachineLease
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.harness.lab.physical import PhysicalLab, PhysicalLabError
from sojourn.traffic import iperf3, ss
from sojourn.traffic.contender import CONTENDERS, ECN_FILES
from tests.lab.real_time.bench import Bench, until
from tests.refusals import refusal

pytestmark = pytest.mark.lab

LEASE_S = 10
SHORT = f"dead_man_s = {LEASE_S}"
BOTTLENECK = Bottleneck.symmetric(20_000_000, "dualpi2", 20_000)
# A run that holds the router until it is ended.
_HOLD = """
import sys
from pathlib import Path
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.harness.lab.physical import PhysicalLab
from sojourn.hardware.machine.process import Process
with PhysicalLab(read_lab_file(Path(sys.argv[1]))) as lab:
    lab.router.apply(Bottleneck.symmetric(20_000_000, "dualpi2", 20_000))
    command = ["iperf3", "-s", "--forceflush"]
    with Process.start(lab.receiver, command, stdout=Path(sys.argv[2]), ready="Server listening", ready_in="stdout"):
        print("up", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def untouched(nodes: Bench) -> Iterator[Bench]:
    """The bench, whose router must be left as it was found."""
    assert not nodes.shaped() and not nodes.traces()
    yield nodes
    assert not nodes.shaped() and not nodes.traces()


def hold(file: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(file), f"{file}.iperf3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "up\n"
    return process


def test_a_router_over_ssh_is_set_up_read_back_and_restored(untouched: Bench, tmp_path: Path) -> None:
    sender, receiver = untouched.lab.sender, untouched.lab.receiver
    before = sender.run(["ip", "route"]), receiver.run(["cat", *ECN_FILES])
    with PhysicalLab(read_lab_file(untouched.lab_file()), tmp_path) as apu:
        apu.router.apply(BOTTLENECK)
        untouched.lab.router.verify(BOTTLENECK)
        assert "dualpi2" in apu.router.final_statistics()
        assert iperf3.check(apu.sender) and ss.check(apu.sender)
        assert "prague" in apu.receiver.run(["cat", "/proc/sys/net/ipv4/tcp_available_congestion_control"])
        assert "sojourn-dead-man" in untouched.traces()
        CONTENDERS["cubic-noecn"].prepare(apu.sender, apu.receiver)
        set_congestion_control(apu.server, "bbr")
        assert "congctl bbr" in sender.run(["ip", "route"]) and receiver.run(["sysctl", "net.ipv4.tcp_ecn"])[-2] == "0"
        until(lambda: (tmp_path / "router-clock.jsonl").stat().st_size > 0, 60)
    assert (sender.run(["ip", "route"]), receiver.run(["cat", *ECN_FILES])) == before


@pytest.mark.nightly
def test_an_idle_run_keeps_the_router_beyond_the_lease(untouched: Bench) -> None:
    with PhysicalLab(read_lab_file(untouched.lab_file(SHORT))) as apu:
        apu.router.apply(BOTTLENECK)
        time.sleep(1.5 * LEASE_S)  # the time is the point
        apu.router.verify(BOTTLENECK)


def test_a_killed_runs_set_up_is_undone_by_the_router_itself(untouched: Bench) -> None:
    run = hold(untouched.lab_file(SHORT))
    run.kill()
    run.wait()
    assert untouched.shaped()
    took = until(lambda: not untouched.shaped(), LEASE_S + 60)  # a busy host stops the router, too
    until(lambda: not untouched.traces(), 60)
    until(lambda: "iperf3" not in untouched.lab.receiver.run(["ps", "-A"]), 60)
    print(f"undone after {took:.1f} s")


def test_a_killed_runs_set_up_is_found_told_and_undone_by_the_next(untouched: Bench) -> None:
    file, said = untouched.lab_file(), list[str]()
    run = hold(file)
    run.kill()
    run.wait()
    assert untouched.shaped()
    with PhysicalLab(read_lab_file(file), notify=said.append):
        assert not untouched.shaped()
    for name in ("router", "receiver", "server"):
        undone = [line for line in said if line.startswith(f"{name}: undid what a run of")]
        assert len(undone) == 1 and f"(process {run.pid}, since" in undone[0]
    assert "iperf3" not in untouched.lab.receiver.run(["ps", "-A"])


@pytest.mark.nightly
def test_a_router_in_use_is_refused_and_left_alone(untouched: Bench) -> None:
    file = untouched.lab_file(SHORT)
    run = hold(file)
    try:
        with refusal(LeaseError, "in-use", "router: ", f"(process {run.pid}, "):
            PhysicalLab(read_lab_file(file)).__enter__()
        untouched.lab.router.verify(BOTTLENECK)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(20)


def test_queues_of_somebody_else_are_named_and_stay(nodes: Bench) -> None:
    router = nodes.lab.router.place
    router.run(["tc", "qdisc", "add", "dev", "wan", "root", "handle", "7:", "fq"])
    try:
        with pytest.raises(PhysicalLabError, match=r"wan: fq 7:; to remove them, .*: tc qdisc del dev wan root$"):
            PhysicalLab(read_lab_file(nodes.lab_file())).__enter__()
        assert "fq 7:" in router.run(["tc", "qdisc", "show", "dev", "wan"])
    finally:
        router.run(["tc", "qdisc", "del", "dev", "wan", "root"])


@pytest.mark.nightly
def test_a_run_that_lost_the_router_leaves_it_to_the_next(nodes: Bench) -> None:
    """The lease runs out while the first is cut off; at its end the set-up of another, with other hosts, stays."""
    file, said, router = nodes.lab_file(SHORT), list[str](), nodes.lab.router
    next_one = MachineLease(router.place, router.undo(), 60)
    with PhysicalLab(read_lab_file(file), notify=said.append) as first:
        first.router.apply(BOTTLENECK)
        nodes.cut()
        until(lambda: not nodes.traces(), LEASE_S + 5)
        nodes.join()
        next_one.claim()
        router.apply(BOTTLENECK)
    try:
        router.verify(BOTTLENECK)
        assert "the claim is lost" in said[-1] and "sojourn-dead-man" in nodes.traces()
    finally:
        next_one.release()
    assert not nodes.shaped() and not nodes.traces()
