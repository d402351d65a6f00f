# SPDX-License-Identifier: Apache-2.0
"""The virtual lab is what it says, and leaves nothing behind however it ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from statistics import median

import psutil
import pytest

from bottleneck.spec import Bottleneck
from harness.flows import race, rtts_ms
from harness.lab import Lab
from traffic import ports
from traffic.contender import CONTENDERS
from traffic.iperf3 import BulkFlow

pytestmark = pytest.mark.lab

_MARK = "SOJOURN_TEST_MARK"
# A lab that says when it is up and then does nothing until it is ended.
_HOLD = """
import select, sys
from pathlib import Path
from harness.run import virtual_lab
print("starting", flush=True)
with virtual_lab(Path(sys.argv[1])) as lab:
    lab.client.run(["ping", "-c", "1", "-W", "2", lab.addresses.server])
    print("up", flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass
"""


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes of this host, in whatever namespace, that were started under ``mark``."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if f"{_MARK}={mark}".encode() in environment.split(b"\0"):
            found.append(process)
    return found


def host_state() -> tuple[str, str, set[str]]:
    """Return mounts, interfaces and temporary files of the host, which no lab may change."""
    links = subprocess.run(["ip", "-o", "-br", "link"], capture_output=True, text=True, check=True).stdout
    names = "\n".join(sorted(line.split()[0] for line in links.splitlines()))
    own = f"sojourn-{os.getpid()}"
    litter = {p.name for p in Path("/tmp").glob("sojourn-*") if p.name != own} | {
        p.name for p in Path("/tmp").glob(".X*-lock")
    }
    return Path("/proc/self/mounts").read_text(), names, litter


def start(folder: Path, mark: str) -> subprocess.Popen[str]:
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {_MARK: mark},
    )
    assert process.stdout and process.stdout.readline() == "starting\n"
    return process


def test_twenty_starts_five_killed_leave_nothing(tmp_path: Path) -> None:
    before, mark, chance = host_state(), uuid.uuid4().hex, random.Random(7)
    killed = set(chance.sample(range(19), 5))
    for i in range(20):
        process = start(tmp_path / str(i), mark)
        assert process.stdin and process.stdout
        if i in killed:
            time.sleep(chance.uniform(0, 1.2))  # the random moment at which it is killed is the point here
            process.kill()
            process.wait()
            continue
        assert process.stdout.readline() == "up\n", f"start {i} after a kill failed"
        if i % 3 == 0:
            process.send_signal(signal.SIGINT)
        else:
            process.stdin.close()
        process.wait(timeout=20)
    psutil.wait_procs(marked(mark), timeout=3)
    assert [p.cmdline() for p in marked(mark)] == []
    mounts, links, litter = host_state()
    assert (mounts, links) == before[:2]
    assert litter <= before[2]


def test_nodes_are_kernels_of_their_own_with_every_queue_and_control(lab: Lab) -> None:
    assert lab.router.versions()["kernel"] != os.uname().release
    controls = lab.sender.run(["cat", "/proc/sys/net/ipv4/tcp_available_congestion_control"]).split()
    assert {"cubic", "reno", "bbr", "dctcp", "prague"} <= set(controls)


def test_unshaped_probe_sees_the_path_and_not_the_queue(lab: Lab, tmp_path: Path) -> None:
    """Beside a bulk flow the unshaped probe still takes the path's 20 ms; the other waits in the queue."""
    lab.router.apply(Bottleneck.symmetric(10_000_000, "pfifo limit 100", 20_000))
    cubic = CONTENDERS["cubic-noecn"]
    flow = BulkFlow(lab.sender, lab.receiver, lab.addresses.receiver, cubic, tmp_path)
    flow.start()
    try:
        rtts_ms(lab, tmp_path / "slow-start.json.gz", probes=200)  # the queue is full after its first seconds
        unshaped, shaped = (
            median(rtts_ms(lab, tmp_path / f"{port}.json.gz", probes=300, port=port))
            for port in (ports.IRTT_UNSHAPED, ports.IRTT)
        )
    finally:
        flow.stop()
    assert unshaped == pytest.approx(20, abs=1)
    # 100 packets of 1514 bytes at 10 Mbit/s are 121 ms; CUBIC keeps more than half of that filled.
    assert 60 < shaped < 20 + 121 + 5


def test_prague_proves_itself_and_takes_more_than_cubic(lab: Lab, tmp_path: Path) -> None:
    """Through one queue of fq_codel Prague gets more than twice of CUBIC's share, by ECT(1) and AccECN."""
    bottleneck = Bottleneck.symmetric(6_000_000, "fq_codel flows 1", 20_000)
    prague, cubic = race(lab, bottleneck, ["prague", "cubic"], tmp_path, seconds=14, window=8)
    print(f"prague {prague.d_ss_bps / 1e6:.2f} : cubic {cubic.d_ss_bps / 1e6:.2f} Mbit/s")
    assert prague.proof["accecn_syn"] and prague.proof["ect1"] and prague.proof["ce"]
    assert not cubic.proof["ect1"] and cubic.proof["ect0"]
    assert prague.d_ss_bps > 2 * cubic.d_ss_bps
    assert prague.d_ss_bps + cubic.d_ss_bps == pytest.approx(0.956 * 6e6, rel=0.05)
