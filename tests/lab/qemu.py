# SPDX-License-Identifier: Apache-2.0
"""A PC that stands in for a board: QEMU with SeaBIOS, the image on AHCI, three ports, serial console."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sojourn.hardware.machine.place import LOCAL, Place

TOOL = "qemu-system-x86_64"


@dataclass(frozen=True)
class Machine:
    """A running machine."""

    process: subprocess.Popen[bytes]
    log: Path
    """What it writes on its serial line."""
    ssh_port: int
    """Port of this host that leads to ssh at its management port."""

    def console(self, pattern: str, seconds: float) -> str:
        """The console's text once it holds `pattern`; fails with its end when that is not there in time."""
        end = time.monotonic() + seconds
        while not re.search(pattern, text := self.log.read_text(errors="replace")):
            if time.monotonic() > end or self.process.poll() is not None:
                pytest.fail(f"no {pattern!r} on the console within {seconds:g} s; it ends: {text[-1000:]}")
            time.sleep(0.2)  # between looks at a file that nobody announces
        return text

    def place(self, key: Path, known_hosts: Path) -> Place:
        """root on the machine, by ssh with a private key."""
        options = ("BatchMode=yes", f"UserKnownHostsFile={known_hosts}", "StrictHostKeyChecking=accept-new",
                   "IdentitiesOnly=yes", "ConnectTimeout=20")  # fmt: skip
        words = (part for option in options for part in ("-o", option))
        ssh = ("ssh", "-F", "none", *words, "-i", str(key), "-p", str(self.ssh_port), "root@127.0.0.1")
        return Place("router", ssh, remote=True)


@contextmanager
def booted(disk: Path, folder: Path) -> Iterator[Machine]:
    """Boot `disk` by its own boot loader; the machine ends with the block."""
    if not shutil.which(TOOL):
        pytest.fail(f"{TOOL} is not installed; as root: apt-get install --no-install-recommends qemu-system-x86")
    port = _free_port()
    ports = []
    for number in range(3):  # behind bridges of their own, so that they are called as on an APU: enp1s0, enp2s0, enp3s0
        net = f"user,id=net{number},restrict=on" + (f",hostfwd=tcp:127.0.0.1:{port}-:22" if number == 0 else "")
        ports += ["-device", f"pcie-root-port,id=bridge{number},chassis={number},hotplug=off", "-netdev", net,
                  "-device", f"virtio-net-pci,bus=bridge{number},netdev=net{number}"]  # fmt: skip
    log = folder / "console"
    command = [
        TOOL, "-no-user-config", "-nodefaults", "-display", "none", "-machine", "q35", "-accel", "tcg",
        "-m", "1G", "-smp", "2", "-serial", f"file:{log}", "-drive", f"file={disk},format=raw,media=disk,cache=unsafe",
        "-device", "i6300esb", *ports,
    ]  # fmt: skip
    with subprocess.Popen([*LOCAL.prefix, *command], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            log.touch()
            yield Machine(process, log, port)
        finally:
            process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number
